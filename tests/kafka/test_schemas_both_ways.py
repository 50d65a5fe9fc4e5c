"""Links that mirror both ways, and their schemas: each side can read the other's, nothing returns.

What registries get by each strategy: `tests/unit/link/test_schemas_both_ways.py`.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from support.avro_clients import AvroReader, AvroWriter
from support.clusters import ClusterPair, create_topic
from support.toy import (
    JANE,
    JOHN,
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

LATER = {**JANE, "qux": "x"}


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
        self.topic, self.others = toy.foo, "west" if is_east else "east"
        create_topic(self.cluster, self.topic)
        there = self.cluster.bootstrap, self.registry.url
        self.writer = stack.enter_context(AvroWriter(*there, schema))
        context = f"/contexts/.{self.others}" if toy.strategy == "isolate" else ""
        mirror = f"{self.others}.{self.topic}"
        self.reader = stack.enter_context(AvroReader(there[0], there[1] + context, mirror))

    def check(self, toy: Toy) -> None:
        """Check that neither topics nor subjects came back."""
        mirror, own = f"{self.others}.{self.topic}", f"{self.topic}-value"
        assert topics_of(self.cluster, self.topic) == {self.topic: 1, mirror: 1}
        mirrored = {f"{mirror}-value"}
        if toy.strategy == "isolate":
            mirrored = {f":.{self.others}:{own}", f":.{self.others}:{mirror}-value"}
        assert subjects(self.registry, self.topic) == {own, *mirrored}


def facing(tour: Tour, strategy: str, stack: ExitStack) -> tuple[Toy, Site, Site]:
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
    return toy, east, west


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
        for toy, east, west in places:
            east.check(toy)
            west.check(toy)


def _read(places: list[tuple[Toy, Site, Site]]) -> None:
    """Each side sees the other's records, once."""
    for _, east, west in places:
        west.reader.wait([JOHN] * 3)
        east.reader.wait([LATER])
