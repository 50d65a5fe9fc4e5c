"""Avro in a topic that two sites write, each with a registry that gives ids of its own.

Both registries are Apicurios; another topic's sites share one of them. What registries get, and
what is deleted there: `tests/unit/link/test_schemas_both_ways.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.avro_clients import AvroReader, AvroWriter, Record
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat
from support.links import RunningLink
from support.shipped import EXAMPLES
from support.toy import foo

from heliostat.names import TopicName
from heliostat_sandbox.registry import SandboxRegistry

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

SITES = "summit", "base"
OWN_AT_BASE = 40
"""Other schemas that the base's registry has under the summit's ids."""
RECORDS = 3
"""In a row of each schema."""


class Site:
    """A producer and a consumer of the topic at one site, of its cluster and registry alone."""

    def __init__(
        self, name: str, bootstrap: str, registry: str, topic: TopicName, stack: ExitStack
    ) -> None:
        self.name, self.topic = name, topic
        self._where = bootstrap, registry
        self._stack = stack
        self.written: list[Record] = []
        self.reader = stack.enter_context(AvroReader(bootstrap, registry, topic))

    def write(self, *fields: str) -> None:
        """Write records of a schema that has these fields besides; the first registers it."""
        writer = self._stack.enter_context(AvroWriter(*self._where, foo(self.topic, *fields)))
        count = len(self.written)
        records: list[Record] = [
            {"bar": self.name, "baz": float(number), **dict.fromkeys(fields, self.name)}
            for number in range(count, count + RECORDS)
        ]
        writer.write(self.topic, *records)
        self.written += records


def wait_merged(sites: list[Site]) -> None:
    """Each site's consumer decodes all records at once, those of a site in its order, once."""
    wanted = {site.name: site.written for site in sites}

    def read(reader: AvroReader) -> dict[str, list[Record]]:
        records = reader.records()
        return {name: [each for each in records if each["bar"] == name] for name in wanted}

    for site in sites:
        until(
            lambda site=site: site.reader.failures or read(site.reader) == wanted,
            lambda site=site: f"{wanted} at {site.name}, there is {read(site.reader)}",
        )
        assert site.reader.failures == []


def config_of(folder: Path, places: Mapping[TopicName, Mapping[str, tuple[str, str]]]) -> Path:
    """Links both ways for each topic, between clusters of its own name that are the same two.

    Their defaults are those of the shipped example.
    """
    example = yaml.safe_load((EXAMPLES / "one-topic" / "heliostat.yaml").read_text())
    clusters: dict[str, Any] = {}
    links = []
    for topic, sites in places.items():
        for name, (bootstrap, registry) in sites.items():
            clusters[f"{name}-{topic}"] = {
                "bootstrap": bootstrap.split(","),
                "schema_registry": {"urls": registry},
            }
        is_shared = len({registry for _, registry in sites.values()}) == 1
        shared = {"strategy": "off"} if is_shared else {}
        links += [
            {
                "name": fresh_name(f"{one}-{other}"),
                "source": f"{one}-{topic}",
                "target": f"{other}-{topic}",
                "topics": {"include": [topic], "refresh_interval_s": 1},
                "schemas": {"exclude": ["own.*"], "interval_s": 1, **shared},
            }
            for one, other in (SITES, SITES[::-1])
        ]
    path = folder / "heliostat.yaml"
    defaults = {**example["defaults"], "lanes": {"lease_s": 5}}
    settings = {"spark": {"master": "local[4]"}, "defaults": defaults}
    path.write_text(yaml.safe_dump({**settings, "clusters": clusters, "links": links}))
    return path


def fill(url: str) -> None:
    for number in range(OWN_AT_BASE):
        text = json.dumps({"type": "record", "name": f"Own{number}", "fields": []})
        with AvroWriter("", url, text) as writer:
            writer.encode(f"own-{number}", {})


def test_each_site_decodes_what_the_other_has_written_by_a_schema_of_its_own(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given producers at both sites that register for one subject, each at its own registry / when
    links merge the topic, also with schemas that come later and after a restart / then consumers
    of either site decode each record at once, and have each once. With one registry for both sites
    / the same without a strategy.
    """
    topic, shared = fresh_name("merged"), fresh_name("shared")
    bootstraps = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    with ExitStack() as stack:
        urls = [stack.enter_context(SandboxRegistry.start()).url for _ in SITES]
        fill(urls[1])
        places = {
            topic: dict(zip(SITES, zip(bootstraps, urls, strict=True), strict=True)),
            shared: {name: (each, urls[0]) for name, each in zip(SITES, bootstraps, strict=True)},
        }
        for cluster in (cluster_pair.source, cluster_pair.target):
            create_topic(cluster, topic)
            create_topic(cluster, shared)
        made = {
            name: [Site(site, *where, name, stack) for site, where in sites.items()]
            for name, sites in places.items()
        }
        for summit, base in made.values():
            summit.write()
            base.write("qux")
        config = config_of(tmp_path, places)
        with RunningLink(config) as link:
            for sites in made.values():
                wait_merged(sites)
                sites[0].write("later")
                sites[1].write("other")
                sites[0].write()
                wait_merged(sites)
            assert link.stop() == 0, link.text()
        with RunningLink(config) as link:
            for sites in made.values():
                sites[1].write("last")
                wait_merged(sites)
            for words in (("schemas", "status"), ("schemas", "verify")):
                answer = heliostat(config, *words)
                assert answer.returncode == 0, (words, answer.said)
            assert link.stop() == 0, link.text()
        for sites in made.values():
            assert len({len(site.reader.seen) for site in sites}) == 1
        here, there = (site.reader.ids for site in made[topic])
        assert min(there) > OWN_AT_BASE
        assert not here & there
        same, as_there = (site.reader.ids for site in made[shared])
        assert same == as_there
