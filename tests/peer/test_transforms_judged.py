"""Imported chains of transformations do what Kafka's own classes do, record by record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.mirror_jvm import MirrorJvm, as_java_raises
from support.records import Sample, encode
from support.transform_chains import CHAINS, Given, replicator
from support.transform_judge import FAILS, GONE, KafkaChain, Outcome

from heliostat.config import LinkConfig, load_config
from heliostat.link.pipeline_rules import pipeline_of, pipelines_of
from heliostat.mm2.config import import_mm2
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.pipeline_steps import Pipeline, Where
from heliostat.records.rows.to_rows import Chunk
from heliostat.records.spark.piped_in_place import tried_in_place
from heliostat.topics.naming import naming_of

pytestmark = [pytest.mark.peer, pytest.mark.thorough]
TIME_MS = 1_767_323_045_006


@pytest.fixture(scope="module")
def jvm() -> Iterator[MirrorJvm]:
    with as_java_raises(), MirrorJvm() as jvm:
        yield jvm


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_does_what_kafkas_classes_do(name: str, jvm: MirrorJvm, tmp_path: Path) -> None:
    """Given records of JSON / when a chain and its import are done / then both make the same."""
    properties, records = CHAINS[name]
    link = imported(replicator(properties), tmp_path)
    judge = KafkaChain(jvm, properties)
    wrong = []
    for given in records:
        theirs = judge.outcome(given, TIME_MS)
        ours = outcome(link, given)
        if ours != without_new_nulls(theirs, ours):
            wrong.append(f"{given}\n  theirs {theirs}\n  ours   {ours}")
    assert not wrong, "\n".join(wrong)


def without_new_nulls(theirs: Outcome | str, ours: Outcome | str) -> Outcome | str:
    """Theirs without the nulls that Kafka adds where a field to mask or to cast is not there."""
    if not (isinstance(theirs, Outcome) and isinstance(ours, Outcome)):
        return theirs
    if not (isinstance(theirs.value, dict) and isinstance(ours.value, dict)):
        return theirs
    own = ours.value
    kept = {name: v for name, v in theirs.value.items() if v is not None or name in own}
    return theirs._replace(value=kept)


def imported(files: dict[str, str], folder: Path) -> LinkConfig:
    found = import_mm2(files)
    assert not found.differences
    (folder / "heliostat.yaml").write_text(found.to_yaml())
    (link,) = load_config(folder / "heliostat.yaml", env={}).links
    return link


def outcome(link: LinkConfig, given: Given) -> Outcome | str:
    """What the link's pipeline makes of a record."""
    topic = TopicName(given.topic)
    mirror = naming_of(link).target_name(topic)
    name = pipeline_of(link, topic)
    batch = encode([Sample(given.key, given.value, TIME_MS, given.headers)])
    pipeline = pipelines_of(link)[name] if name else Pipeline("none", ())
    if any(isinstance(step, Where) for step in pipeline.steps):
        (condition,) = (step.condition for step in pipeline.steps if isinstance(step, Where))
        is_kept = condition == "value IS NULL" and given.value is None
        return Outcome(mirror, parsed(given.key), None, list(given.headers)) if is_kept else GONE
    (tried,) = tried_in_place(pipeline, Chunk(0, TopicPartition(topic, PartitionId(3)), batch))
    if tried.error:
        return FAILS
    if tried.after is None:
        return GONE
    headers = [(header["key"], header["value"]) for header in tried.after["headers"]]
    return Outcome(mirror, parsed(tried.after["key"]), parsed(tried.after["value"]), headers)


def parsed(content: bytes | None) -> Any:
    return None if content is None else json.loads(content)
