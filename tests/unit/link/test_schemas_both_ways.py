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


def _taking_turns(links: tuple[Running, Running]) -> list[int]:
    """Writes to each registry while both links look at it, and again until all is there."""
    for _ in range(2):
        for link in links:
            link.turn()
    before = [_writes(link.target) for link in links]
    for link in links:
        link.turn()
    return [_writes(link.target) - had for link, had in zip(links, before, strict=True)]


@pytest.mark.parametrize("first", [0, 1])
def test_both_sites_of_a_merged_topic_register_and_nothing_goes_back_and_forth(
    servers: Sides, first: int
) -> None:
    """Given another schema at each site, under one subject / then both have both. What is deleted
    at a site stays so there, and alive at the other, whichever link looks first.
    """
    subject = f"{MINE}-value"
    texts = [record().text, record("b").text]
    for server, text in zip(servers, texts, strict=True):
        server.double.set_level(subject, "NONE")
        server.double.register(subject, {"schema": text})
    with ExitStack() as stack:
        made = [
            Running(*sides, strategy="rewrite", naming="merge", exclude=["own.*"])
            for sides in (servers, servers[::-1])
        ]
        for link in made:
            link.mirrors, link.topics = {MINE: MINE}, frozenset({MINE})
            stack.callback(link.part.close)
        links = made[first], made[1 - first]
        assert _taking_turns(links) == [0, 0]
        for server in servers:
            assert server.double.versions(subject, deleted=False) == [1, 2]
        servers[0].double.delete_version(subject, "1", permanent=False)
        assert _taking_turns(links) == [0, 0]
        assert servers[0].double.versions(subject, deleted=False) == [2]
        assert servers[1].double.versions(subject, deleted=False) == [1, 2]
        ids = {link: [*link.told[-1].readable] for link in made}
        servers[0].double.delete_subject(subject, permanent=False)
        assert _taking_turns(links) == [0, 0]
        assert servers[0].double.names(subject, deleted=False) == []
        assert servers[1].double.versions(subject, deleted=False) == [1, 2]
        assert {link: [*link.told[-1].readable] for link in made} == ids


def _writes(server: RegistryServer) -> int:
    return sum(asked.method != "GET" for asked in server.asked)
