"""New mirrors begin where a consumer group stands, or as a file lists, at the source's offsets."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.links import RunningLink, wait_for, write_config
from support.records import ZSTD, encode, odd_records, write_batches

from heliostat.clusters.admin import EARLIEST, LATEST, ClusterAdmin, CommittedOffset
from heliostat.errors import BrokerError
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
RECORDS = 1000


def held(bootstrap: str, topic: TopicName, partitions: int) -> list[tuple[int, int]]:
    """Log start and end of each partition; none while the topic is being made."""
    parts = [TopicPartition(topic, PartitionId(number)) for number in range(partitions)]
    with ClusterAdmin([bootstrap]) as admin:
        begins = admin.list_offsets(dict.fromkeys(parts, EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(parts, LATEST))
    pairs = [(begins[part], ends[part]) for part in parts]
    return [
        (one.offset, other.offset)
        for one, other in pairs
        if not isinstance(one, BrokerError) and not isinstance(other, BrokerError)
    ]


def write(bootstrap: str, topic: str, partitions: int = 1) -> None:
    for number in range(partitions):
        records = odd_records(random.Random(number), RECORDS)
        write_batches(bootstrap, topic, [encode(records, ZSTD)], partition=number)


def as_connect(topic: TopicName, copied: Mapping[int, int]) -> dict[str, Any]:
    """As Connect shows MirrorMaker 2's positions: the last offsets that were copied."""
    rows = [
        {
            "partition": {"cluster": "A", "partition": number, "topic": topic},
            "offset": {"offset": offset},
        }
        for number, offset in copied.items()
    ]
    return {"offsets": rows}


@pytest.mark.parametrize("by", ["group", "file"])
def test_new_mirrors_begin_where_they_are_told_to(
    by: str, cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a group in mid batch, at the end, and nowhere / when mirrored / then offsets are equal
    from there on, also after a restart when the group has gone on; later topics are whole."""
    prefix, group = fresh_name("given"), GroupId(fresh_name("group"))
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    topic = create_topic(cluster_pair.source, f"{prefix}-a", partitions=3)
    write(source, topic, 3)
    file = tmp_path / "offsets.json"
    start = {"group": group} if by == "group" else {"offsets": str(file)}

    def commit(offset: int) -> None:
        commits = {
            TopicPartition(topic, PartitionId(number)): CommittedOffset(Offset(at))
            for number, at in {0: offset, 1: RECORDS}.items()
        }
        with ClusterAdmin([source]) as admin:

            def is_committed() -> bool:  # not while the coordinator loads
                answers = admin.commit_offsets({group: commits})[group]
                return not isinstance(answers, BrokerError) and set(answers.values()) == {None}

            until(is_committed, "the group's offsets")

    topics = {"include": [f"{prefix}-.*"], "start": start, "refresh_interval_s": 0.5}
    config = write_config(tmp_path, source, target, name=fresh_name("link"), topics=topics)
    refusal = said(config, "plan")[0]["refuse"][topic]
    assert refusal["code"] == "start"
    commit(600)
    file.write_text(json.dumps(as_connect(topic, {0: 599, 1: RECORDS - 1})), encoding="utf-8")
    shown = heliostat(config, "plan").stdout
    assert "partition 0 at 600, 1 at 1000; 2 at the beginning" in shown, shown
    wanted = [(600, RECORDS), (RECORDS, RECORDS), (0, RECORDS)]
    with RunningLink(config):
        wait_for("what was told", lambda: held(target, topic, 3) == wanted)
        later = create_topic(cluster_pair.source, f"{prefix}-b")
        write(source, later)
        wait_for("a later topic", lambda: held(target, later, 1) == [(0, RECORDS)])
    commit(900)
    file.unlink()
    write(source, topic, 2)
    wanted = [(600, 2 * RECORDS), (RECORDS, 2 * RECORDS), (0, RECORDS)]
    with RunningLink(config):
        wait_for("what was told, and more", lambda: held(target, topic, 3) == wanted)
    assert heliostat(config, "verify").returncode == 0
