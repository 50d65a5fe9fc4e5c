"""What both registries get where links mirror both ways: turn by turn, until all is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.registry_contract import record
from support.registry_server import RegistryServer
from support.schema_turns import Running

from heliostat.names import TopicName

Sides = tuple[RegistryServer, RegistryServer]
MINE, THEIRS = TopicName("mine"), TopicName("theirs")
FIRST_OF_THEIRS = 1_000
"""Ids of the other side begin here: with `preserve` they must not collide."""


@pytest.fixture
def servers() -> Iterator[Sides]:
    with RegistryServer() as east, RegistryServer() as west:
        west.double.set_mode("own-value", "IMPORT", force=True)
        body = {"schema": record().text, "id": FIRST_OF_THEIRS, "version": 1}
        west.double.register("own-value", body)
        yield east, west


def facing(servers: Sides, strategy: str) -> tuple[Running, Running]:
    """Links between both sides, each of which mirrors one topic; all topics are known to both."""
    links = []
    names = ("east", MINE), ("west", THEIRS)
    for number, (alias, topic) in enumerate(names):
        sides = servers if number == 0 else servers[::-1]
        other, others = names[1 - number]
        context = {"context": f".{alias}"} if strategy == "isolate" else {}
        link = Running(*sides, strategy=strategy, exclude=["own.*"], **context)
        link.mirrors = {topic: TopicName(f"{alias}.{topic}")}
        link.topics = frozenset({topic, TopicName(f"{other}.{others}")})
        links.append(link)
    return links[0], links[1]


MIRRORED: dict[str, tuple[set[str], set[str]]] = {
    # What comes to the east's registry and to the west's.
    "preserve": ({"theirs-value", "west.theirs-value"}, {"mine-value", "east.mine-value"}),
    "isolate": (
        {":.west:theirs-value", ":.west:west.theirs-value"},
        {":.east:mine-value", ":.east:east.mine-value"},
    ),
    "rewrite": ({"west.theirs-value"}, {"east.mine-value"}),
}


@pytest.mark.parametrize("strategy", MIRRORED)
def test_no_subject_of_a_mirror_is_mirrored(servers: Sides, strategy: str) -> None:
    """Given a topic of its own at each side / when links of both ways take turns / then each

    registry has what is its own and what the other's topic needs, and nothing is written any more.
    """
    for server, subject in zip(servers, ("mine-value", "theirs-value"), strict=True):
        server.double.register(subject, {"schema": record().text})
    with ExitStack() as stack:
        links = facing(servers, strategy)
        for link in links:
            stack.callback(link.part.close)
        for _ in range(3):
            written = [_writes(server) for server in servers]
            for link in links:
                link.turn()
        assert [_writes(server) for server in servers] == written
    own = {"mine-value"}, {"own-value", "theirs-value"}
    for server, before, mirrored in zip(servers, own, MIRRORED[strategy], strict=True):
        assert set(server.double.subjects) == before | mirrored


def _writes(server: RegistryServer) -> int:
    return sum(asked.method != "GET" for asked in server.asked)
