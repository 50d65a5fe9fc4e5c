"""Mirrors that were made by hand become a link's own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.names import ProducerId, TopicName
from heliostat.state.link_state import LinkState
from heliostat.topics.values import MirrorRecord


def make_ours(config_file: Path, prefix: str, topics: list[TopicName]) -> None:
    """Let these mirrors be the link's own by its state."""
    config = load_config(config_file)
    link = config.links[0]
    target = config.clusters[link.target]
    with ClusterAdmin(config.clusters[link.source].access()) as admin:
        cluster = admin.cluster_id()
    with closing(LinkState(link, target)) as state:
        state.ensure()
        state.put_producer(ProducerId(1))
        state.put_mirrors(
            {
                name: MirrorRecord(
                    name, TopicName(prefix + name), None, None, cluster, "earliest", 1
                )
                for name in topics
            }
        )
