"""Rows of maps of merged topics go with the records, and the links go on with what is left."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from support.cleaning import read_committed
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.links import RunningLink, ends, wait_for
from support.merged import (
    PARTITIONS,
    SiteProducer,
    assert_merged,
    assert_translated,
    config_of,
    is_level,
    written,
)

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteTopic
from heliostat.config import load_config
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets import pruning as map_pruning
from heliostat.offsets.map_rows import RowKey, decode_key
from heliostat.state_topics import offsets_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

ROWS = 12
LATER = 5
LEFT = 60
"""Of each partition: among them are some of both sites."""


def rows_of(bootstrap: str, link: LinkName) -> int:
    """How many rows of maps a link has."""
    with closing(ByteTopic(bootstrap, TopicName(offsets_topic(link)), "test")) as maps:
        last = {one.key: one.value for one in maps.read_all() if one.key is not None}
    keys = (decode_key(key) for key, value in last.items() if value is not None)
    return sum(isinstance(key, RowKey) for key in keys)


def delete_most(bootstrap: str, topic: str) -> None:
    [now] = ends(bootstrap, {topic: PARTITIONS}).values()
    starts = {
        TopicPartition(TopicName(topic), PartitionId(number)): Offset(end - LEFT)
        for number, end in enumerate(now)
    }
    with ClusterAdmin(bootstrap.split(",")) as admin:
        assert admin.delete_records(starts) == starts


def test_rows_of_merged_maps_go_with_their_records(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given two sites that write in turn / when most records are deleted / then rows of maps go,
    and these links and the next go on, each record once, with offsets that can be translated.
    """
    monkeypatch.setattr(map_pruning, "EVERY_S", 0.3)
    monkeypatch.setattr(map_pruning, "ROWS_MIN", 2)
    topic = fresh_name("merged")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    for cluster in (cluster_pair.source, cluster_pair.target):
        create_topic(cluster, topic, partitions=PARTITIONS)
    producers = [SiteProducer(site, bootstrap, topic) for site, bootstrap in sites.items()]
    config = config_of(tmp_path, sites, topic)
    links = {sites[link.target]: LinkName(link.name) for link in load_config(config).links}
    with RunningLink(config):
        with producers[0].at_work(), producers[1].at_work():
            until(
                lambda: all(rows_of(*each) > ROWS for each in links.items()),
                lambda: f"rows: {[rows_of(*each) for each in links.items()]}",
            )
        wait_for("both sites level", lambda: is_level(sites, topic, written(producers)))
        assert_merged(sites, topic, producers)
        for bootstrap in sites.values():
            delete_most(bootstrap, topic)
        gone = [list(each.written) for each in producers]
        few = 2 * PARTITIONS
        until(
            lambda: all(rows_of(*each) <= few for each in links.items()),
            lambda: f"rows to go: {[rows_of(*each) for each in links.items()]}",
        )
        for each in producers:
            each.write(LATER)
        wait_for("new records", lambda: is_level(sites, topic, written(producers)))
    with RunningLink(config):
        for each in producers:
            each.write(LATER)
        wait_for("newest records", lambda: is_level(sites, topic, written(producers)))
    for site, first in zip(sites, gone, strict=True):
        for number in range(PARTITIONS):
            new = [b"%s %06d" % (site.encode(), first[number] + n) for n in range(2 * LATER)]
            for bootstrap in sites.values():
                values = [row[3] for row in read_committed(bootstrap, topic, number)]
                assert [each for each in values if each in new] == new, (site, number)
    assert_translated(config, sites, topic)
    for each in producers:
        each.close()
