"""A running mirror becomes a merged topic in place, between two real brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat, said
from support.links import RunningLink, ends, wait_for
from support.merged import PARTITIONS, SiteProducer, assert_merged, is_level, written

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


def config_of(path: Path, sites: dict[str, str], links: list[dict[str, Any]]) -> Path:
    config = {
        "clusters": {alias: {"bootstrap": each.split(",")} for alias, each in sites.items()},
        "spark": {"master": "local[2]"},
        "defaults": {"lanes": {"lease_s": 5}},
        "links": links,
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_running_mirror_is_merged_and_its_producers_move(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a mirror whose source is written all the time / when it is turned while it runs / then
    its driver goes on no more as a mirror; with a link back from the cut, and producers at both
    sites, each record is once at each, in each site's order.
    """
    topic, name = fresh_name("rolling"), fresh_name("away")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    create_topic(cluster_pair.source, topic, partitions=PARTITIONS)
    create_topic(cluster_pair.source, f"{topic}-keys", configs={"cleanup.policy": "compact"})
    topics = {"include": [f"{topic}.*"], "refresh_interval_s": 1}
    away = {"name": name, "source": "summit", "target": "base", "topics": topics}
    merged = {**away, "topics": {**topics, "naming": "merge"}}
    mirror = config_of(tmp_path / "mirror.yaml", sites, [away])
    turned = config_of(tmp_path / "turned.yaml", sites, [merged])
    producers = [SiteProducer(site, each, topic) for site, each in sites.items()]
    with producers[0].at_work():
        with RunningLink(mirror):
            wait_for(
                "the mirror", lambda: min(ends(sites["base"], {topic: PARTITIONS})[topic]) > 100
            )
            keys = heliostat(turned, "switch", name, "--rolling", "--yes")
            assert keys.returncode != 0
            assert "compacted" in keys.said
            was = heliostat(mirror, "switch", name, "--rolling", "--yes")
            assert "topics.naming: merge" in was.said
            words = "switch", name, "--rolling", "--yes", "--topics", topic, "--json"
            answer = heliostat(turned, *words)
            assert answer.returncode == 0, answer.said
            cuts = answer.json["cuts"]
            wait_for(
                "its refusal",
                lambda: "begun as merged" in json.dumps(said(mirror, "status")),
            )
            assert ends(sites["base"], {topic: PARTITIONS})[topic] == list(cuts[topic].values())
        assert heliostat(turned, *words).json["cuts"] == cuts
        (tmp_path / "cuts.json").write_text(json.dumps(cuts))
        start = {"offsets": str(tmp_path / "cuts.json")}
        back = {
            "name": fresh_name("back"),
            "source": "base",
            "target": "summit",
            "topics": {**topics, "include": [topic], "naming": "merge", "start": start},
        }
        both = config_of(tmp_path / "both.yaml", sites, [merged, back])
        with RunningLink(both), producers[1].at_work():
            wait_for("both", lambda: is_level(sites, topic, [n + 200 for n in cuts[topic].values()]))
    with RunningLink(both):
        wait_for("both sites level", lambda: is_level(sites, topic, written(producers)))
        assert_merged(sites, topic, producers)
        proof = heliostat(both, "verify", "--complete", "--json", "--topic", topic)
        assert proof.returncode == 0, proof.said
        assert int(proof.json["records"]) == sum(written(producers))
    for each in producers:
        each.close()
