"""Avro pipelines whose workers are killed, with a real registry that gives ids of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.avro_clients import AvroWriter
from support.avro_piped import FIRST, SECOND, AvroPiped, row
from support.clusters import ClusterPair, until
from support.command import heliostat, said
from support.links import RunningLink
from support.records import GZIP

from heliostat_sandbox.registry import SandboxRegistry

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

OWN = '{"type": "record", "name": "own", "fields": []}'
TURNS, RECORDS = 5, 40
CUT = {"mask": {"secret": None}, "drop": ["price"], "rename": {"other": "others"}}
ROWS = {**CUT, "where": "fields.id % 3 != 1"}


@pytest.fixture(scope="module")
def apicurio() -> Iterator[SandboxRegistry]:
    with SandboxRegistry.start() as registry:
        with AvroWriter("", registry.url, OWN) as writer:
            writer.encode("own", {})  # has the id that the source's registry gives first
        yield registry


def kill_one(rng: random.Random, link: RunningLink) -> bool:
    """Kill one of the link's workers; False: none is there, as one that was killed is not back."""
    workers = link.workers()
    if not workers:
        return False
    try:
        rng.choice(workers).kill()
    except psutil.NoSuchProcess:
        return False
    return True


@pytest.mark.parametrize(
    ("step", "way"),
    [(CUT, "bytes of batches"), (ROWS, "rows of Spark")],
    ids=["in_place", "as_rows"],
)
def test_killed_workers_lose_and_double_no_avro_record(
    cluster_pair: ClusterPair,
    apicurio: SandboxRegistry,
    tmp_path: Path,
    step: dict[str, Any],
    way: str,
) -> None:
    """Given Apicurio at the target, which gets the schemas of cut records / when workers are killed

    while records of two versions are cut / then a consumer decodes each one the moment it sees it:
    every record once, in order, without the dropped field.
    """
    rng = random.Random(15)
    with AvroPiped(cluster_pair, tmp_path, "rewrite", step, target=apicurio) as piped:
        assert way in heliostat(piped.config, "plan").stdout
        with (
            piped.writer(FIRST) as first,
            piped.writer(SECOND) as second,
            piped.reader() as reader,
            RunningLink(piped.config) as link,
        ):
            for turn in range(TURNS):
                rows = [row(number) for number in range(turn * RECORDS, (turn + 1) * RECORDS)]
                if turn < 2:
                    values = first.encode(piped.topic, *rows)
                else:
                    values = second.encode(piped.topic, *({**each, "more": "m"} for each in rows))
                piped.write(*values[: RECORDS // 2])
                until(lambda: reader.seen, lambda: piped.told(reader), timeout_s=90)
                if turn < TURNS - 1:
                    until(lambda: kill_one(rng, link), link.text, timeout_s=90)
                piped.write(*values[RECORDS // 2 :], codec=GZIP)
            numbers = range(TURNS * RECORDS)
            kept = [number for number in numbers if step is CUT or number % 3 != 1]
            until(lambda: len(reader.seen) >= len(kept), lambda: piped.told(reader), timeout_s=120)
            assert not link.has_ended
        assert reader.failures == []
        records = reader.records()
        assert [each["id"] for each in records] == kept
        assert all("price" not in each and each["others"] == "x" for each in records)
        assert {each["secret"] for each in records} == {""}
        assert ["more" in each for each in records] == [number >= 2 * RECORDS for number in kept]
        (told,) = said(piped.config, "schemas", "status")
        assert told["in_sync"]
        ids = {each.schema_id for each in reader.seen.values()}
        assert {each["target_id"] for each in told["derived"]} == ids
        assert heliostat(piped.config, "verify", "--json").returncode == 0
