"""Rows of an offset map are pruned as the target's log start moves; the rest stays correct."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.cleaning import COMPACTED
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.holes import eager_pair, read, transactions
from support.links import RunningLink, ends, write_config

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteTopic
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets import pruning as map_pruning
from heliostat.offsets.map_rows import KeptFrom, RowKey, decode_key
from heliostat.state_topics import offsets_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture(scope="module")
def pair() -> Iterator[ClusterPair]:
    yield from eager_pair()


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
    pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a mirror of transactions / when its log start moves up / then rows are deleted,

    and this driver, the next one, groups, operators and `verify` find each record where it is.
    """
    monkeypatch.setattr(map_pruning, "EVERY_S", 0.3)
    monkeypatch.setattr(map_pruning, "ROWS_MIN", 2)
    source, target, rng = pair.source.bootstrap, pair.target.bootstrap, random.Random(7)
    link, topic = LinkName(fresh_name("link")), create_topic(pair.source, fresh_name("pruned"))
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
        while len(rows()) < 4:  # a row takes hundreds of breaks
            transactions(source, topic, rng, 150)
            until(lambda: ends(target, {topic: 1})[topic] == [len(written())], "all records")
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
    there = read(source, topic, "read_committed")
    here = read(target, topic, "read_uncommitted")
    assert [row[1:] for row in here] == [row[1:] for row in there[-len(here) :]]
    assert here[0][0] == start
    places = tmp_path / "places"
    places.write_text("".join(f"{topic} 0 {row[0]}\n" for row in there[-len(here) :]))
    answers = said(config, "offsets", "translate", "--file", str(places))
    assert [(each["to_offset"], each["exact"]) for each in answers] == [(r[0], True) for r in here]
    (answer,) = said(config, "offsets", "translate", topic, "0", str(there[0][0]))
    assert answer["why"] == "below_start"
    report = json.loads(heliostat(config, "verify", "--json").stdout)
    assert (report["lost"], report["doubled"], report["different"]) == (0, 0, 0)
    assert report["records"] == len(here)
