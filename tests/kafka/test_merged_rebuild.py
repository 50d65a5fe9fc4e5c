"""A merged link whose offset map is lost, and then its state: rebuilt, while both sites write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat, said
from support.links import RunningLink, wait_for
from support.merged import PARTITIONS, SiteProducer, assert_merged, config_of, is_level, written

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.names import TopicName
from heliostat.rebuild import state as state_rebuild
from heliostat.state_topics import offsets_topic, state_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

BEFORE = 20


def lose(bootstrap: str, topic: str) -> None:
    """Delete a topic of a link, as where its brokers' disks are gone."""
    name = TopicName(topic)
    with ClusterAdmin(bootstrap.split(",")) as admin:
        assert admin.delete_topics([name]) == {name: None}
        wait_for("the topic to be gone", lambda: name not in admin.describe_topics())


def lost_maps(config: Path) -> list[int]:
    """Partitions that are stopped as their maps are lost."""
    problems = [row for each in said(config, "status") for row in each["problems"]]
    return sorted(row["partition"] for row in problems if row["code"] == "OFFSET_MAP_LOST")


def verdicts(config: Path, link: str, *words: str) -> list[str]:
    """Of each partition; all are taken back."""
    answer = heliostat(config, "state", "rebuild", link, *words, "--json")
    assert answer.returncode == 0, answer.said
    topics: list[dict[str, Any]] = answer.json["topics"]
    return [one["verdict"] for topic in topics for one in topic["partitions"]]


def test_links_of_a_topic_that_both_sites_write_are_rebuilt(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given producers at both sites / when a link's map is deleted / then it stops until
    `offsets rebuild`, while the other one goes on. When its state is deleted / then it does not
    begin until `state rebuild`. Then each record is once at each site, and `verify` proves it.
    """
    monkeypatch.setattr(state_rebuild, "HEAR_S", 0.5)
    topic = fresh_name("merged")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    for cluster in (cluster_pair.source, cluster_pair.target):
        create_topic(cluster, topic, partitions=PARTITIONS)
    producers = [SiteProducer(site, bootstrap, topic) for site, bootstrap in sites.items()]
    config = config_of(tmp_path, sites, topic)
    links = load_config(config).links
    link = next(each.name for each in links if each.source == "summit")
    for each in producers:
        each.write(BEFORE)
    with RunningLink(config):
        wait_for("what both had", lambda: is_level(sites, topic, written(producers)))
        with producers[0].at_work(), producers[1].at_work():
            wait_for("more at work", lambda: min(written(producers)) > 5 * BEFORE)
            lose(sites["base"], offsets_topic(link))
            wait_for("stopped partitions", lambda: lost_maps(config) == [0, 1])
            found = said(config, "offsets", "rebuild", "--link", link)
            assert [row["why_not"] for row in found] == ["", ""], found
        wait_for("both sites level", lambda: is_level(sites, topic, written(producers)))
    lose(sites["base"], state_topic(link))
    for each in producers:
        each.write(BEFORE)
    assert verdicts(config, link, "--dry-run") == ["mapped", "mapped"]
    assert verdicts(config, link, "--yes") == ["mapped", "mapped"]
    with RunningLink(config):
        wait_for("both sites level", lambda: is_level(sites, topic, written(producers)))
        assert_merged(sites, topic, producers)
        answer = heliostat(config, "verify", "--complete", "--json", "--topic", topic)
        assert answer.returncode == 0, answer.said
        assert answer.json["records"] == sum(written(producers))
    for each in producers:
        each.close()
