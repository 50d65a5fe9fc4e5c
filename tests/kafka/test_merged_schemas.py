"""Avro in a topic that two sites write, each with a registry that gives ids of its own.

Both registries are Apicurios; another topic's sites share one of them. Mirrors that are merged in
place may have been copied with `preserve` as well, between registries that take ids. What
registries get, and what is deleted there: `tests/unit/link/test_schemas_both_ways.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.schema_registry import SchemaRegistryError
from support.avro_clients import AvroReader, AvroWriter, Record
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.links import RunningLink
from support.registry_server import RegistryServer
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

    def ids(self, field: str) -> set[int]:
        """Ids of schemas of the records here that have a field."""
        return {each.schema_id for each in self.reader.seen.values() if field in each.record}


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


def config_of(
    folder: Path,
    places: Mapping[TopicName, Mapping[str, tuple[str, str]]],
    strategies: Mapping[TopicName, str],
    *,
    merges: bool = True,
    cuts: Mapping[str, Any] | None = None,
) -> Path:
    """Links of each topic, between clusters of its own name that are the same two.

    `away-…` alone of a mirror, or until there are cuts; with these `back-…` begins there.
    """
    clusters: dict[str, Any] = {}
    links: list[dict[str, Any]] = []
    for topic, sites in places.items():
        for name, (bootstrap, registry) in sites.items():
            clusters[f"{name}-{topic}"] = {
                "bootstrap": bootstrap.split(","),
                "schema_registry": {"urls": registry},
            }
        strategy = "rewrite" if merges and strategies[topic] == "preserve" else strategies[topic]
        for way, (one, other) in zip(("away", "back"), (SITES, SITES[::-1]), strict=True):
            topics: dict[str, Any] = {"include": [topic], "refresh_interval_s": 1}
            topics |= {"naming": "merge"} if merges else {}
            if way == "back":
                if cuts is None:
                    continue
                if cuts:
                    topics["start"] = {"offsets": str(folder / "cuts.json")}
            links.append(
                {
                    "name": f"{way}-{topic}",
                    "source": f"{one}-{topic}",
                    "target": f"{other}-{topic}",
                    "topics": topics,
                    "schemas": {"strategy": strategy, "exclude": ["own.*"], "interval_s": 1},
                }
            )
    (folder / "cuts.json").write_text(json.dumps(cuts or {}))
    path = folder / f"{'mirror' if not merges else 'away' if cuts is None else 'both'}.yaml"
    defaults = {"lanes": {"lease_s": 5}}
    settings = {"spark": {"master": "local[6]"}, "defaults": defaults}
    path.write_text(yaml.safe_dump({**settings, "clusters": clusters, "links": links}))
    return path


@pytest.fixture(scope="module")
def registries() -> Iterator[list[str]]:
    """Addresses of two Apicurios; the second one has schemas under ids that the first one gives."""
    with ExitStack() as stack:
        urls = [stack.enter_context(SandboxRegistry.start()).url for _ in SITES]
        fill(urls[1])
        yield urls


def fill(url: str) -> None:
    for number in range(OWN_AT_BASE):
        text = json.dumps({"type": "record", "name": f"Own{number}", "fields": []})
        with AvroWriter("", url, text) as writer:
            writer.encode(f"own-{number}", {})


def apart(bootstraps: tuple[str, str], registries: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return cluster and registry of each site; of one registry: both have it."""
    urls = [*registries, *registries][:2]
    return dict(zip(SITES, zip(bootstraps, urls, strict=True), strict=True))


def test_each_site_decodes_what_the_other_has_written_by_a_schema_of_its_own(
    cluster_pair: ClusterPair, registries: list[str], tmp_path: Path
) -> None:
    """Given producers at both sites that register for one subject, each at its own registry / when
    links merge the topic, also with schemas that come later and after a restart / then consumers
    of either site decode each record at once, and have each once.
    """
    topic = fresh_name("merged")
    bootstraps = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    with ExitStack() as stack:
        places = {topic: apart(bootstraps, registries)}
        for cluster in (cluster_pair.source, cluster_pair.target):
            create_topic(cluster, topic)
        sites = [Site(site, *where, topic, stack) for site, where in places[topic].items()]
        summit, base = sites
        summit.write()
        base.write("qux")
        config = config_of(tmp_path, places, {topic: "rewrite"}, cuts={})
        with RunningLink(config) as link:
            wait_merged(sites)
            summit.write("later")
            base.write("other")
            summit.write()
            wait_merged(sites)
            assert link.stop() == 0, link.text()
        with RunningLink(config) as link:
            base.write("last")
            wait_merged(sites)
            for words in (("schemas", "status"), ("schemas", "verify")):
                answer = heliostat(config, *words)
                assert answer.returncode == 0, (words, answer.said)
            assert link.stop() == 0, link.text()
        assert len({len(site.reader.seen) for site in sites}) == 1
        here, there = (site.reader.ids for site in sites)
        assert min(there) > OWN_AT_BASE
        assert not here & there


def test_mirrors_go_on_with_rewrite_once_they_are_merged_in_place(
    cluster_pair: ClusterPair, registries: list[str], tmp_path: Path
) -> None:
    """Given mirrors with rewrite, with preserve, and with one registry for both sites / when each

    is merged in place, and a link leads back / then producers at either side register on, also
    where both registries give one id to different schemas, and consumers of either side decode
    each record at once, old and new. Both links prove it; then those of registries apart end.
    """
    bootstraps = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    rewritten, preserved, shared = (
        fresh_name(each) for each in ("rewritten", "preserved", "shared")
    )
    strategies = {rewritten: "rewrite", preserved: "preserve", shared: "off"}
    with ExitStack() as stack:
        doubles = [stack.enter_context(RegistryServer()).url for _ in SITES]
        places = {
            rewritten: apart(bootstraps, registries),
            preserved: apart(bootstraps, doubles),
            shared: apart(bootstraps, registries[:1]),
        }
        made: dict[str, list[Site]] = {}
        for topic, sites in places.items():
            create_topic(cluster_pair.source, topic)
            made[topic] = [Site(site, *where, topic, stack) for site, where in sites.items()]
            made[topic][0].write()
        mirror = config_of(tmp_path, places, strategies, merges=False)
        merged = config_of(tmp_path, places, strategies, merges=True)
        cuts: dict[str, Any] = {}
        with RunningLink(mirror):
            for sites in made.values():
                wait_merged(sites)
            with pytest.raises(SchemaRegistryError, match="not in read-write mode"):
                made[preserved][1].write("closed")
            for topic in places:
                words = "switch", f"away-{topic}", "--rolling", "--yes"
                turned = said(merged, *words)
                cuts |= turned["cuts"]
                opened = turned["schemas"]
                assert ("1 subjects opened" in opened) == (topic == preserved), opened
        assert set(cuts) == set(places)
        both = config_of(tmp_path, places, strategies, merges=True, cuts=cuts)
        with RunningLink(both) as link:
            for sites in made.values():
                sites[1].write("qux")
                sites[0].write("later")
                sites[0].write()
                sites[1].write()
            for sites in made.values():
                wait_merged(sites)
            summit, base = made[preserved]
            assert summit.ids("later") == base.ids("qux"), "registries of their own"
            assert summit.ids("later") != base.ids("later")
            same, as_there = (site.reader.ids for site in made[shared])
            assert same == as_there
            for words in (("schemas", "verify"), ("verify", "--complete")):
                answer = heliostat(both, *words)
                assert answer.returncode == 0, (words, answer.said)
            for topic in (rewritten, preserved):
                words = "switch", f"away-{topic}", "--rolling", "--finish", "--yes"
                options = "--still-s", "1", "--watch-s", "0", "--accept", "groups_apart"
                answer = heliostat(both, *words, *options)
                assert answer.returncode == 0, answer.said
            base.write("last")
            assert link.stop() == 0, link.text()
