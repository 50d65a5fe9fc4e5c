"""Rows of an offset map are pruned as the target's log start moves; the rest stays correct."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.cleaning import COMPACTED, hurry_cleaner
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.holes import read, transactions
from support.links import RunningLink, ends, write_config
from support.records import write_marked

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteTopic
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets import pruning as map_pruning
from heliostat.offsets.map_rows import KeptFrom, RowKey, decode_key
from heliostat.offsets.offset_map import ROW_BREAKS_MAX
from heliostat.state_topics import offsets_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


def keys_of(bootstrap: str, topic: TopicName) -> list[RowKey | KeptFrom]:
    """What the maps' topic holds, each key once, tombstones and what they deleted left out."""
    with closing(ByteTopic(bootstrap, topic, "test")) as maps:
        last = {one.key: one.value for one in maps.read_all() if one.key is not None}
    return [decode_key(key) for key, value in last.items() if value is not None]


def records_left(bootstrap: str, topic: TopicName) -> int:
    """Records in the maps' topic, deleted ones too, as long as no cleaner has taken them."""
    with closing(ByteTopic(bootstrap, topic, "test")) as maps:
        return len(list(maps.read_all()))


def test_rows_below_the_log_start_go_and_the_rest_stays_correct(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a mirror of transactions / when its log start moves up / then rows are deleted,

    and this driver, the next one, groups, operators and `verify` find each record where it is.
    """
    monkeypatch.setattr(map_pruning, "EVERY_S", 0.3)
    monkeypatch.setattr(map_pruning, "ROWS_MIN", 2)
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    hurry_cleaner(target)
    rng = random.Random(7)
    link = LinkName(fresh_name("link"))
    topic = create_topic(cluster_pair.source, fresh_name("pruned"))
    maps = TopicName(offsets_topic(link))
    config = write_config(
        tmp_path,
        source,
        target,
        name=link,
        topics={"include": [topic], "refresh_interval_s": 0.3},
        lanes={"lease_s": 5},
    )

    def rows() -> list[RowKey]:
        return [key for key in keys_of(target, maps) if isinstance(key, RowKey)]

    def written() -> list[Any]:
        return [row[1:] for row in read(source, topic, "read_committed")]

    def arrived() -> list[Any]:
        return [row[1:] for row in read(target, topic, "read_uncommitted")]

    with RunningLink(config):
        while len(rows()) < 4:
            write_marked(source, topic, ROW_BREAKS_MAX)
            count = len(written())
            until(lambda count=count: ends(target, {topic: 1})[topic] == [count], "all records")
        with ClusterAdmin([target]) as admin:
            assert admin.alter_configs({maps: dict(COMPACTED)}) == {maps: None}
            one = TopicPartition(topic, PartitionId(0))
            until(lambda: arrived() == written(), "all records")
            start = Offset(ends(target, {topic: 1})[topic][0] - 3)
            assert admin.delete_records({one: start}) == {one: start}
        until(lambda: len(rows()) <= 2, lambda: f"rows to go: {rows()}")
        assert any(isinstance(key, KeptFrom) for key in keys_of(target, maps))
        transactions(source, topic, rng, 3)
        until(lambda: arrived() == written()[-len(arrived()) :], "all records")
        # Each row closes a segment, and the cleaner takes what tombstones deleted, and them.
        until(
            lambda: transactions(source, topic, rng, 1) >= 0 and records_left(target, maps) <= 8,
            lambda: f"the cleaner: {records_left(target, maps)} records",
        )
    first_kept = min(row.first for row in rows())
    assert 0 < first_kept <= start
    with RunningLink(config):
        transactions(source, topic, rng, 4)
        last = written()[-1]
        until(lambda: arrived()[-1:] == [last], "the last record")
        (status,) = said(config, "status")
        assert status["problems"] == []
    check_places(config, cluster_pair, topic, start)


def check_places(config: Path, pair: ClusterPair, topic: TopicName, start: Offset) -> None:
    """Readers, the translation of offsets and `verify` find each record from a log start on."""
    there = read(pair.source.bootstrap, topic, "read_committed")
    here = read(pair.target.bootstrap, topic, "read_uncommitted")
    assert [row[1:] for row in here] == [row[1:] for row in there[-len(here) :]]
    assert here[0][0] == start
    places = config.with_name("places")
    places.write_text("".join(f"{topic} 0 {row[0]}\n" for row in there[-len(here) :]))
    answers = said(config, "offsets", "translate", "--file", str(places))
    assert [(each["to_offset"], each["exact"]) for each in answers] == [(r[0], True) for r in here]
    (answer,) = said(config, "offsets", "translate", topic, "0", str(there[0][0]))
    assert answer["why"] == "below_start"
    report = json.loads(heliostat(config, "verify", "--json").stdout)
    assert (report["lost"], report["doubled"], report["different"]) == (0, 0, 0)
    assert report["records"] == len(here)
