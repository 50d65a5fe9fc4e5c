"""A compacted topic that two sites write, with cleaners at work at both."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cleaning import COMPACTED, Seen, hurry_cleaner, read_committed, wait_cleaned
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.links import LinkProcess, RunningLink, wait_for
from support.merged import PARTITIONS, SiteProducer, config_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

KEYS = 7
WRITTEN = 60
STARTS_LATER = "the target's log starts later"
"""Brokers move the start of a compacted log as well, where nothing is left of its first segments.
"""


def is_level(sites: dict[str, str], topic: str, producers: dict[str, SiteProducer]) -> bool:
    """Whether each site has the other's last records."""
    wanted = {each.last for each in producers.values()}
    return all(
        wanted <= {row[3] for row in read_committed(bootstrap, topic, number)}
        for bootstrap in sites.values()
        for number in range(PARTITIONS)
    )


def assert_cleaned(seen: list[Seen], producers: dict[str, SiteProducer], number: int) -> None:
    """Each key ends with the last record of a site, and each site's are in order, once."""
    for site in producers:
        own = [row[3] or b"" for row in seen if (row[3] or b"").startswith(site.encode())]
        assert own == sorted({*own}), (site, number)
    last = {row[2]: row[3] for row in seen}
    for key in range(KEYS):
        ends = set()
        for site, each in producers.items():
            count = each.written[number]
            ends.add(b"%s %06d" % (site.encode(), (count - 1 - key) // KEYS * KEYS + key))
        assert last[b"k%d" % key] in ends, (key, number)


def test_each_site_keeps_a_last_record_of_each_key(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given cleaners that run all the time / when both sites write the same keys, and the links
    are killed / then nothing comes twice or back, no key is lost, and `verify` explains what lacks.
    """
    topic = fresh_name("merged")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    for cluster in (cluster_pair.source, cluster_pair.target):
        hurry_cleaner(cluster.bootstrap)
        create_topic(cluster, topic, partitions=PARTITIONS, configs=COMPACTED)
    producers = {site: SiteProducer(site, each, topic, KEYS) for site, each in sites.items()}
    config = config_of(tmp_path, sites, topic)
    text = config.read_text()
    config.write_text(text.replace("naming: merge", "naming: merge\n    merge_compacted: true"))
    with LinkProcess(config) as link:
        for each in producers.values():
            each.write(WRITTEN)
        link.kill_driver()
    for each in producers.values():
        each.write(WRITTEN)
    with RunningLink(config):
        for each in producers.values():
            each.write(WRITTEN)
        for each in producers.values():
            each.end()
        wait_for("both sites level", lambda: is_level(sites, topic, producers))
        for each in producers.values():  # closes segments
            each.end()
        for bootstrap in sites.values():
            wait_cleaned(bootstrap, topic, lambda seen: len(seen) < WRITTEN)
            for number in range(PARTITIONS):
                assert_cleaned(read_committed(bootstrap, topic, number), producers, number)
    answer = heliostat(config, "verify", "--json", "--topic", topic)
    assert answer.returncode == 0, answer.said
    assert answer.json["compacted_source"] + answer.json["compacted_target"] > 0, answer.said
    assert {row["reason"] for row in answer.json["not_compared"]} <= {STARTS_LATER}, answer.said
    for each in producers.values():
        each.close()
