"""A group of a topic that two sites write moves between them, with links in both directions."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest
from moving_groups import MovingGroup
from support.cleaning import COMPACTED, hurry_cleaner, read_committed, wait_cleaned
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

from heliostat.config import load_config

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

MOVES, KEYS = 10, 3
WRITTEN_MAX = 8
"""Records of each site and partition in a turn."""


def has_last(sites: dict[str, str], topic: str, producers: list[SiteProducer]) -> bool:
    """Whether each site has the last record of both: no cleaner takes it."""
    wanted = {each.last for each in producers}
    return all(
        wanted <= {row[3] for row in read_committed(bootstrap, topic, number)}
        for bootstrap in sites.values()
        for number in range(PARTITIONS)
    )


def test_groups_that_move_ten_times_skip_nothing_and_read_again_what_was_foretold(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given both sites writing, and a link that is killed / when a group moves back and forth /
    then it goes on at the first record that it has not read, and `groups` has said how many of
    those behind it has. Where cleaners are at work, what had gone from where it stood is not read.
    """
    topic, group = fresh_name("merged"), fresh_name("group")
    cleaned = f"{topic}-cleaned"
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    for cluster in (cluster_pair.source, cluster_pair.target):
        hurry_cleaner(cluster.bootstrap)
        create_topic(cluster, topic, partitions=PARTITIONS)
        create_topic(cluster, cleaned, partitions=PARTITIONS, configs=COMPACTED)
    groups = {"sync": True, "include": [f"{group}.*"], "interval_s": 0.5}
    config = config_of(tmp_path, sites, topic, groups=groups)
    text = config.read_text()
    config.write_text(text.replace("naming: merge", "naming: merge\n    merge_compacted: true"))
    chance = random.Random(40)
    with ExitStack() as stack:
        producers = [SiteProducer(site, bootstrap, topic) for site, bootstrap in sites.items()]
        keyed = [SiteProducer(site, each, cleaned, KEYS) for site, each in sites.items()]
        for each in (*producers, *keyed):
            stack.callback(each.close)
        link = stack.enter_context(LinkProcess(config))
        reader = MovingGroup(sites, topic, group, "summit", partitions=PARTITIONS)
        of_cleaned = MovingGroup(
            *(sites, cleaned, f"{group}-cleaned", "summit"),
            partitions=PARTITIONS,
            writer_of=lambda value: value.split()[0],
        )
        again = 0
        for move in range(MOVES):
            for _ in range(3):
                for one in (producers, keyed):
                    chance.choice(one).write(chance.randint(1, WRITTEN_MAX))
            for each in keyed:
                each.end()
            wait_for("level sites", lambda: is_level(sites, topic, written(producers)))
            wait_for("level cleaned sites", lambda: has_last(sites, cleaned, keyed))
            reader.read_on(chance)
            of_cleaned.read_on(chance, least=chance.choice([0.0, 0.9]))
            again += reader.move(config)
            of_cleaned.move(config)
            if move == MOVES // 2:
                link.kill_driver()
                link = stack.enter_context(LinkProcess(config))
        assert again > 0
        for bootstrap in sites.values():
            wait_cleaned(bootstrap, cleaned, lambda seen: len(seen) < written(keyed)[0] // 2)
        wait_for("level sites", lambda: is_level(sites, topic, written(producers)))
        assert_translated(config, sites, topic)
        name = next(each.name for each in load_config(config).links if each.source == "summit")
        log = read_committed(sites["summit"], topic)
        first = next(at for at, _, _, value, _ in log if (value or b"").startswith(b"summit"))
        answer = heliostat(config, "explain", name, f"{topic}-0@{first}")
        assert f"is at {topic}-0, offset" in answer.said, answer.said
