"""Links that mirror both ways, and their schemas: each side can read the other's, nothing returns.

What registries get by each strategy: `tests/unit/link/test_schemas_both_ways.py`.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest
from support.avro_clients import AvroReader, AvroWriter
from support.clusters import ClusterPair, create_topic
from support.toy import (
    JOHN,
    LATER,
    Tour,
    Toy,
    both_ways,
    foo,
    subjects,
    topics_of,
    wait_turns,
    with_own,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


class Site:
    """One side of a toy's links: its own topic, and the mirror of the other side's.

    Parameters
    ----------
    toy
        Both clusters and registries.
    alias
        `east` or `west`.
    schema
        That of its own topic's records.
    """

    def __init__(self, toy: Toy, alias: str, schema: str, stack: ExitStack) -> None:
        is_east = alias == "east"
        self.cluster = toy.pair.source if is_east else toy.pair.target
        self.registry = toy.source if is_east else toy.target
        self.topic, others = toy.foo, "west" if is_east else "east"
        self.mirror = f"{others}.{self.topic}"
        self.context = f".{others}" if toy.strategy == "isolate" else ""
        create_topic(self.cluster, self.topic)
        there, url = self.cluster.bootstrap, self.registry.url
        self.writer = stack.enter_context(AvroWriter(there, url, schema))
        url += f"/contexts/{self.context}" if self.context else ""
        self.reader = stack.enter_context(AvroReader(there, url, self.mirror))

    def check(self) -> None:
        """Check that neither topics nor subjects came back."""
        assert topics_of(self.cluster, self.topic) == {self.topic: 1, self.mirror: 1}
        own, mirrored = f"{self.topic}-value", {f"{self.mirror}-value"}
        if self.context:
            mirrored = {f":{self.context}:{each}" for each in {own, *mirrored}}
        assert subjects(self.registry, self.topic) == {own, *mirrored}


def facing(tour: Tour, strategy: str, stack: ExitStack) -> tuple[Site, Site]:
    """Links of one strategy, and records at both sides."""
    registries = tour.serve(with_own(5)), tour.serve(with_own(5))
    toy = tour.add(strategy, *registries, strategy=strategy)
    both_ways(toy)
    east = Site(toy, "east", foo(toy.foo), stack)
    west = Site(toy, "west", foo(toy.foo, "qux"), stack)
    [value] = east.writer.encode(toy.foo, JOHN)
    [other] = west.writer.encode(toy.foo, LATER)
    assert value[:5] == other[:5]
    east.writer.send(toy.foo, [value] * 3)
    west.writer.send(toy.foo, [other])
    return east, west


def test_topics_of_one_name_at_both_sides_are_mirrored_both_ways(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given the same topic and the same id at both sides, for different schemas / when links of

    one file mirror both ways / then each side decodes the other's records, in a context or by ids
    of its own, and nothing comes back.
    """
    with Tour(cluster_pair, tmp_path) as tour, ExitStack() as stack:
        places = [facing(tour, strategy, stack) for strategy in ("isolate", "rewrite")]
        tour.start()
        _read(places)
        wait_turns(tour.config)
        _read(places)
        tour.stop()
        for site in chain(*places):
            site.check()


def _read(places: list[tuple[Site, Site]]) -> None:
    """Each side sees the other's records, once."""
    for east, west in places:
        west.reader.wait([JOHN] * 3)
        east.reader.wait([LATER])
