"""Takeovers on real clusters of copies that another tool's producer made, by contents alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import RunningLink, ends, wait_for, write_config

from heliostat.cli.main import run
from heliostat.clusters.plain_records import PlainReader
from heliostat.config import load_config
from heliostat.mm2 import adopt as adoption
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.state.link_state import LinkState

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

NOW_MS = 1_790_000_000_000
ORIGIN = [("__replicator_id", b"\x00\x01cluster")]


def produce(
    bootstrap: str,
    topic: str,
    numbers: Sequence[int],
    *,
    partition: int = 0,
    headers: Sequence[tuple[str, bytes]] = (),
) -> None:
    """Write records as another tool's producer does; equal numbers are equal records."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)) as producer:
        for number in numbers:
            producer.send(
                topic,
                b"v%d" % number,
                key=b"k%d" % (number % 3),
                partition=partition,
                timestamp_ms=NOW_MS + number,
                headers=list(headers),
            )
        producer.flush()


def values(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    place = TopicPartition(TopicName(topic), PartitionId(partition))
    with PlainReader(bootstrap, committed=True) as reader:
        return [r.value for r in reader.read(place, *reader.bounds([place])[place])]


def expected(numbers: Sequence[int]) -> list[bytes]:
    return [b"v%d" % number for number in numbers]


def test_copies_of_any_tool_go_on_in_place_and_those_without_a_certain_end_stay(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    prefix = fresh_name("copy")
    names = {each: f"{prefix}.{each}" for each in ("plain", "doubled", "unclear", "spread")}
    for name in names.values():
        create_topic(cluster_pair.source, name, partitions=2)
        create_topic(cluster_pair.target, name, partitions=1 if name == names["spread"] else 2)
    for kind in ("plain", "doubled", "spread"):
        produce(source, names[kind], range(300))
        produce(source, names[kind], range(1000, 1100), partition=1)
    produce(source, names["unclear"], [7] * 40)
    produce(target, names["plain"], range(200))  # without any header of its own
    produce(target, names["plain"], range(1050, 1100), partition=1)  # began later
    doubled = [*range(250), *range(180, 230)]
    produce(target, names["doubled"], doubled, headers=ORIGIN)
    produce(target, names["unclear"], [7] * 20)
    produce(target, names["spread"], [*range(300), *range(1000, 1100)])
    config_file = write_config(
        tmp_path,
        source,
        target,
        name=fresh_name("link"),
        topics={"include": [f"{prefix}[.].*"], "naming": "same"},
    )
    words = ["adopt", "-c", str(config_file), "--by-contents", "--json"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(adoption, "STILL_S", 0.2)
        assert run([*words, "--dry-run"]) == 1
        planned = json.loads(capsys.readouterr().out)
        assert run([*words, "--yes"]) == 1
    assert json.loads(capsys.readouterr().out) == planned
    topics = {topic["source"]: topic for topic in planned["topics"]}
    plain, twice = topics[names["plain"]]["partitions"], topics[names["doubled"]]["partitions"]
    assert [(each["verdict"], each["seam"]) for each in plain] == [("exact", 200), ("mapped", 100)]
    assert [(each["verdict"], each["seam"]) for each in twice] == [("mapped", 250), ("new", None)]
    assert twice[0]["doubled"] == 50
    assert "more than one place fits" in topics[names["unclear"]]["partitions"][0]["reason"]
    assert "1 partitions at the target, 2 at the source" in topics[names["spread"]]["refused"]

    config = load_config(config_file)
    with closing(LinkState(config.links[0], config.clusters[config.links[0].target])) as state:
        assert set(state.read().mirrors) == {names["plain"], names["doubled"]}
    produce(source, names["plain"], range(1100, 1110), partition=1)
    wanted = {names["plain"]: [300, 60], names["doubled"]: [350, 100]}
    with RunningLink(config_file) as link:
        counts = dict.fromkeys(wanted, 2)
        wait_for("the link to go on", lambda: ends(target, counts) == wanted)
        assert link.stop() == 0
    assert values(target, names["plain"]) == expected(range(300))
    assert values(target, names["plain"], 1) == expected(range(1050, 1110))
    assert values(target, names["doubled"]) == expected([*doubled, *range(250, 300)])
    assert values(target, names["unclear"]) == expected([7] * 20)
