"""A merged link whose offset map is lost, and then its state: rebuilt, while both sites write."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat, said
from support.links import RunningLink, wait_for
from support.merged import PARTITIONS, SiteProducer, assert_merged, config_of, is_level, written

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import offsets_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

BEFORE = 20


def lose(bootstrap: str, topic: str) -> None:
    """Delete a topic of a link, as where its brokers' disks are gone."""
    name = TopicName(topic)
    with ClusterAdmin(bootstrap.split(",")) as admin:
        assert admin.delete_topics([name]) == {name: None}
        wait_for("the topic to be gone", lambda: name not in admin.describe_topics())


def lost_maps(config: Path, link: str) -> list[int]:
    """Partitions of a link that are stopped as their maps are lost."""
    problems = [row for each in said(config, "status") for row in each["problems"]]
    return sorted(row["partition"] for row in problems if row["code"] == "OFFSET_MAP_LOST")


def test_links_of_a_topic_that_both_sites_write_are_rebuilt(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given producers at both sites / when a link's map is deleted / then it stops until
    `offsets rebuild`, while the other one goes on. When its state is deleted / then it does not
    begin until `state rebuild`. Then each record is once at each site, and `verify` proves it.
    """
    topic = fresh_name("merged")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    for cluster in (cluster_pair.source, cluster_pair.target):
        create_topic(cluster, topic, partitions=PARTITIONS)
    producers = [SiteProducer(site, bootstrap, topic) for site, bootstrap in sites.items()]
    config = config_of(tmp_path, sites, topic)
    link = LinkName(
        next(each.name for each in load_config(config).links if each.source == "summit")
    )
    for each in producers:
        each.write(BEFORE)
    with producers[0].at_work(), producers[1].at_work(), RunningLink(config):
        wait_for("records of both", lambda: is_level(sites, topic, [100] * PARTITIONS))
        lose(sites["base"], offsets_topic(link))
        wait_for("stopped partitions", lambda: lost_maps(config, link) == [0, 1])
        found = said(config, "offsets", "rebuild", "--link", link)
        assert [row["why_not"] for row in found] == ["", ""], found
        goals = written(producers)
        wait_for("records since then", lambda: is_level(sites, topic, goals))
    with RunningLink(config):
        wait_for("both sites level", lambda: is_level(sites, topic, written(producers)))
        assert_merged(sites, topic, producers)
        answer = heliostat(config, "verify", "--complete", "--json", "--topic", topic)
        assert answer.returncode == 0, answer.said
        assert answer.json["records"] == sum(written(producers))
    for each in producers:
        each.close()
