"""A group of a topic that two sites write moves between them, with links in both directions."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.cleaning import read_committed
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.links import LinkProcess, wait_for
from support.merged import (
    PARTITIONS,
    SiteProducer,
    assert_translated,
    config_of,
    is_level,
    written,
)
from support.moving_groups import MovingGroup

from heliostat.config import load_config

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

MOVES = 10
WRITTEN_MAX = 8
"""Records of each site and partition in a turn."""


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
        reader, again = MovingGroup(sites, topic, group, "summit"), 0
        for move in range(MOVES):
            for _ in range(3):
                chance.choice(producers).write(chance.randint(1, WRITTEN_MAX))
            wait_for("level sites", lambda: is_level(sites, topic, written(producers)))
            reader.read_on(chance)
            again += reader.move(config)
            if move == MOVES // 2:
                link.kill_driver()
                link = stack.enter_context(LinkProcess(config))
        assert again > 0
        wait_for("level sites", lambda: is_level(sites, topic, written(producers)))
        assert_translated(config, sites, topic)
        name = next(each.name for each in load_config(config).links if each.source == "summit")
        log = read_committed(sites["summit"], topic)
        first = next(at for at, _, _, value, _ in log if (value or b"").startswith(b"summit"))
        answer = heliostat(config, "explain", name, f"{topic}-0@{first}")
        assert f"is at {topic}-0, offset" in answer.said, answer.said
