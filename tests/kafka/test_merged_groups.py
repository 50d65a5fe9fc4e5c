"""A group of a topic that two sites write moves between them, with links in both directions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka.structs import TopicPartition
from support.cleaning import read_committed
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.consumers import open_consumer
from support.links import LinkProcess, wait_for
from support.merged import (
    PARTITIONS,
    SiteProducer,
    assert_translated,
    config_of,
    is_level,
    written,
)

from heliostat.config import load_config
from heliostat.groups.values import CommitDecision, Reason
from heliostat.operate.groups import group_views

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

MOVES = 10
WRITTEN_MAX = 8
"""Records of each site and partition in a turn."""


class Reader:
    """A group's only member, at one site after the other.

    Parameters
    ----------
    sites
        Bootstrap addresses by site.
    topic, group
        What is read, and as whom.
    """

    def __init__(self, sites: Mapping[str, str], topic: str, group: str) -> None:
        self._sites = sites
        self._topic, self._group = topic, group
        self.read: list[set[bytes]] = [set() for _ in range(PARTITIONS)]
        self.places = [0] * PARTITIONS

    def read_on(self, site: str, chance: random.Random) -> None:
        """Read a part of each partition from where the group stands there, and commit."""
        consumer = open_consumer(
            self._sites[site],
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        try:
            every = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
            consumer.assign(every)
            ends = consumer.end_offsets(every)
            for one in every:
                begin = consumer.position(one)
                stop = chance.randint(begin, ends[one])
                self.places[one.partition] = stop
                log = read_committed(self._sites[site], self._topic, one.partition)
                self.read[one.partition] |= {row[3] or b"" for row in log if begin <= row[0] < stop}
                consumer.seek(one, stop)
            consumer.commit()
        finally:
            consumer.close()


def test_a_group_that_moves_ten_times_skips_nothing_and_reads_again_what_was_foretold(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given both sites writing, and a link that is killed / when a group moves back and forth /
    then it goes on at the first record that it has not read, and `groups` has said how many of
    those behind it has.
    """
    topic, group = fresh_name("merged"), fresh_name("group")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    for cluster in (cluster_pair.source, cluster_pair.target):
        create_topic(cluster, topic, partitions=PARTITIONS)
    groups = {"sync": True, "include": [group], "interval_s": 0.5}
    config = config_of(tmp_path, sites, topic, groups=groups)
    chance = random.Random(40)
    with ExitStack() as stack:
        producers = [SiteProducer(site, bootstrap, topic) for site, bootstrap in sites.items()]
        for each in producers:
            stack.callback(each.close)
        link = stack.enter_context(LinkProcess(config))
        reader, here, again = Reader(sites, topic, group), "summit", 0
        for move in range(MOVES):
            for _ in range(3):
                chance.choice(producers).write(chance.randint(1, WRITTEN_MAX))
            wait_for("level sites", lambda: is_level(sites, topic, written(producers)))
            reader.read_on(here, chance)
            there = "base" if here == "summit" else "summit"
            rows = published(config, here, group, reader.places)
            for number, row in enumerate(rows):
                log = read_committed(sites[there], topic, number)
                place = row.target_offset or 0
                behind = [value for at, _, _, value, _ in log if at >= place]
                lacking = {value for at, _, _, value, _ in log if at < place} - reader.read[number]
                assert not lacking, f"move {move}: skipped {sorted(lacking)[:3]}"
                found = sum(value in reader.read[number] for value in behind)
                assert found == row.reread_records, f"move {move}, partition {number}"
                again += found
            if move == MOVES // 2:
                link.kill_driver()
                link = stack.enter_context(LinkProcess(config))
            here = there
        assert again > 0
        wait_for("level sites", lambda: is_level(sites, topic, written(producers)))
        assert_translated(config, sites, topic)
        name = next(each.name for each in load_config(config).links if each.source == "summit")
        log = read_committed(sites["summit"], topic)
        first = next(at for at, _, _, value, _ in log if (value or b"").startswith(b"summit"))
        answer = heliostat(config, "explain", name, f"{topic}-0@{first}")
        assert f"is at {topic}-0, offset" in answer.said, answer.said


def published(config: Path, here: str, group: str, places: list[int]) -> list[CommitDecision]:
    """Return what the link away from a site has published for the places that were read to.

    A group that stands before records that it has read elsewhere is moved behind these.
    """
    loaded = load_config(config)
    [name] = [link.name for link in loaded.links if link.source == here]
    found: list[CommitDecision] = []

    def is_done() -> bool:
        [views] = group_views(loaded, name, group)
        found[:] = [row for view in views.groups for row in view.rows]
        if len(found) != PARTITIONS:
            return False
        stands = [row.source_offset or 0 for row in found]
        is_there = all(at >= place for at, place in zip(stands, places, strict=True))
        return is_there and {row.reason for row in found} == {Reason.SYNCED}

    try:
        wait_for("published offsets", is_done)
    except AssertionError as error:
        raise AssertionError([row.to_json() for row in found]) from error
    return found
