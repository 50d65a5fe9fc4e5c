"""Avro in a topic that two sites write, each with a registry that gives ids of its own.

Both registries are Apicurios; another topic's sites share one of them. Mirrors that are merged in
place may have been copied with `preserve` as well, between registries that take ids. What
registries get, and what is deleted there: `tests/unit/link/test_schemas_both_ways.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from support.shipped import EXAMPLES
from support.toy import foo

from heliostat.names import TopicName
from heliostat_sandbox.registry import SandboxRegistry

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

Places = dict[TopicName, dict[str, tuple[str, str]]]
"""Cluster and registry of each site, by topic."""
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


def links_of(
    topic: TopicName, *ways: str, start: Path | None = None, **more: Any
) -> Iterator[dict[str, Any]]:
    """Yield a topic's links `away-…` and `back-…`, or one.

    Parameters
    ----------
    start
        Where the one back begins.
    more
        Naming and strategy, if not those of the shipped example; it syncs groups as well.
    """
    for way in ways:
        one, other = SITES if way == "away" else SITES[::-1]
        topics: dict[str, Any] = {"include": [topic], "refresh_interval_s": 2}
        topics |= {"naming": more["naming"]} if more else {}
        topics |= {"start": {"offsets": str(start)}} if start and way == "back" else {}
        schemas = {"strategy": more["strategy"]} if more else {}
        yield {
            "name": f"{way}-{topic}",
            "source": f"{one}-{topic}",
            "target": f"{other}-{topic}",
            "topics": topics,
            "schemas": {"exclude": ["own.*"], **schemas},
            **({"groups": {"sync": False}} if more else {}),
        }


def config_of(path: Path, places: Places, links: Iterable[dict[str, Any]]) -> Path:
    """Write links between clusters of each topic's own name that are the same two.

    Their defaults are those of the shipped example.
    """
    example = yaml.safe_load((EXAMPLES / "one-topic" / "heliostat.yaml").read_text())
    clusters = {
        f"{name}-{topic}": {
            "bootstrap": bootstrap.split(","),
            "schema_registry": {"urls": registry},
        }
        for topic, sites in places.items()
        for name, (bootstrap, registry) in sites.items()
    }
    defaults = {**example["defaults"], "lanes": {"lease_s": 5}}
    settings = {"spark": {"master": "local[8]"}, "defaults": defaults}
    path.write_text(yaml.safe_dump({**settings, "clusters": clusters, "links": list(links)}))
    return path


def fill(url: str) -> None:
    for number in range(OWN_AT_BASE):
        text = json.dumps({"type": "record", "name": f"Own{number}", "fields": []})
        with AvroWriter("", url, text) as writer:
            writer.encode(f"own-{number}", {})


def apart(bootstraps: tuple[str, str], registries: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return cluster and registry of each site; of one registry: both have it."""
    urls = [*registries, *registries][:2]
    return dict(zip(SITES, zip(bootstraps, urls, strict=True), strict=True))


def places_of(pair: ClusterPair, stack: ExitStack) -> Places:
    """Return topics with their sites: two have Apicurios apart, one of them for both, and doubles

    that take ids.
    """
    urls = [stack.enter_context(SandboxRegistry.start()).url for _ in SITES]
    fill(urls[1])
    doubles = [stack.enter_context(RegistryServer()).url for _ in SITES]
    bootstraps = pair.source.bootstrap, pair.target.bootstrap
    registries = {"merged": urls, "rewritten": urls, "preserved": doubles, "shared": urls[:1]}
    return {fresh_name(name): apart(bootstraps, each) for name, each in registries.items()}


def turn(config: Path, strategies: Mapping[TopicName, str]) -> dict[str, Any]:
    """Merge mirrors in place; return their cuts. What `preserve` has closed is open then."""
    cuts: dict[str, Any] = {}
    for topic, strategy in strategies.items():
        answer = said(config, "switch", f"away-{topic}", "--rolling", "--yes")
        cuts |= answer["cuts"]
        opened = " ".join(part["text"] for part in answer["opening"])
        assert ("1 subjects opened" in opened) == (strategy == "preserve"), opened
    assert cuts.keys() == strategies.keys()
    return cuts


def assert_ids(sites: Mapping[TopicName, list[Site]]) -> None:
    """Assert that registries of their own gave ids of their own, and one for both sites the same.

    Where both count on from the same, they have given one id to different schemas.
    """
    merged, rewritten, preserved, shared = sites.values()
    for summit, base in (merged, rewritten):
        assert min(base.reader.ids) > OWN_AT_BASE
        assert not base.reader.ids & summit.reader.ids
    summit, base = preserved
    assert summit.ids("later") == base.ids("qux")
    assert summit.ids("later") != base.ids("later")
    assert shared[0].reader.ids == shared[1].reader.ids


def test_each_site_decodes_what_the_other_has_written_also_where_mirrors_were_merged(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given producers at both sites that register for one subject, each at its own registry / when
    links merge the topic, also with schemas that come later and after a restart / then consumers
    of either site decode each record at once, and have each once. Given mirrors with rewrite, with
    preserve, and with one registry for both sites / when each is merged in place, and a link leads
    back / then the same, both links prove it, and those of registries apart are finished.
    """
    with ExitStack() as stack:
        places = places_of(cluster_pair, stack)
        made: dict[TopicName, list[Site]] = {}
        for topic, each in places.items():
            create_topic(cluster_pair.source, topic)
            made[topic] = [Site(site, *where, topic, stack) for site, where in each.items()]
            made[topic][0].write()
        merged, *mirrors = places
        create_topic(cluster_pair.target, merged)
        made[merged][1].write("other")
        before = dict(zip(mirrors, ("rewrite", "preserve", "off"), strict=True))
        first = list(links_of(merged, "away", "back"))
        start = tmp_path / "cuts.json"
        links = [*first]
        for topic, strategy in before.items():
            links += links_of(topic, "away", naming="same", strategy=strategy)
        mirror = config_of(tmp_path / "mirror.yaml", places, links)
        links = [*first]
        for topic, strategy in before.items():
            after = "off" if strategy == "off" else "rewrite"
            links += links_of(topic, "away", "back", start=start, naming="merge", strategy=after)
        both = config_of(tmp_path / "both.yaml", places, links)
        start.write_text("{}")
        with RunningLink(mirror):
            for sites in made.values():
                wait_merged(sites)
            with pytest.raises(SchemaRegistryError, match="not in read-write mode"):
                made[mirrors[1]][1].write("closed")
            start.write_text(json.dumps(turn(both, before)))
        with RunningLink(both) as link:
            for sites in made.values():
                sites[1].write("qux")
                sites[0].write("later")
                sites[0].write()
                sites[1].write()
            for sites in made.values():
                wait_merged(sites)
            assert_ids(made)
            for words in (("schemas", "status"), ("schemas", "verify"), ("verify", "--complete")):
                answer = heliostat(both, *words)
                assert answer.returncode == 0, (words, answer.said)
            for topic in mirrors[:2]:
                words = "switch", f"away-{topic}", "--rolling", "--finish", "--yes"
                options = "--still-s", "1", "--watch-s", "0", "--accept", "groups_apart"
                answer = heliostat(both, *words, *options)
                assert answer.returncode == 0, answer.said
            made[mirrors[1]][1].write("last")
            assert link.stop() == 0, link.text()
        assert len({len(site.reader.seen) for site in made[merged]}) == 1
