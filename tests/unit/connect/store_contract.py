"""What holds for every place in which connectors are kept."""

from __future__ import annotations

from dataclasses import replace

from unit.connect.technote import HEARTBEAT, SOURCE, stored

from heliostat.connect.link_copies import LinkCopies
from heliostat.connect.store import ConnectorStore
from heliostat.names import Alias, LinkName
from heliostat.wishes.wish import WishedState


def what_is_written_is_read_at_once(store: ConnectorStore) -> None:
    (one,) = stored(SOURCE, state=WishedState.STOPPED, link="a-to-b", by="ann", at_ms=5)
    generation = store.write(one)
    assert store.read()[one.name] == replace(one, generation=generation)


def later_versions_have_larger_generations(store: ConnectorStore) -> None:
    one, other = stored(SOURCE, HEARTBEAT)
    store.remove(one.name, "ann", 7)
    first = store.write(one)
    store.write(other)
    store.remove(one.name, "ann", 7)
    assert one.name not in store.read()
    assert store.write(one) > first
    store.remove(one.name, "ann", 7)


def what_is_not_there_is_removed_without_a_word(store: ConnectorStore) -> None:
    before = dict(store.read())
    store.remove("nobody", "ann", 7)
    assert store.read() == before


def what_its_links_copy_stays_when_it_goes(store: ConnectorStore) -> None:
    (one,) = stored(SOURCE, link="a-to-b", by="ann", at_ms=5)
    link, copies = LinkName("a-to-b"), LinkCopies(Alias("a"), Alias("b"), "a.${topic}")
    store.write(one, {link: copies})
    store.write(one)
    store.remove(one.name, "ann", 7)
    assert store.copies()[link] == copies


def a_state_and_a_configuration_lose_nothing_of_each_other(store: ConnectorStore) -> None:
    """Given two services that know a connector / when one pauses it, the other changes it by what

    it had read / then both count.
    """
    (one,) = stored(HEARTBEAT, by="ann", at_ms=5)
    store.write(one)
    as_read = store.read()[one.name]
    store.wish(replace(as_read, state=WishedState.PAUSED))
    store.write(replace(as_read, config={**as_read.config, "tasks.max": "2"}))
    now = store.read()[one.name]
    assert (now.state, now.config["tasks.max"]) == (WishedState.PAUSED, "2")
    store.wish(replace(as_read, state=WishedState.RUNNING))
    now = store.read()[one.name]
    assert (now.state, now.config["tasks.max"]) == (WishedState.RUNNING, "2")
    store.wish(replace(now, state=WishedState.PAUSED))
    store.remove(one.name, "ann", 7)
    store.write(one)
    assert store.read()[one.name].state is WishedState.RUNNING, "a new one of that name runs"
    store.remove(one.name, "ann", 7)


RULES = (
    a_state_and_a_configuration_lose_nothing_of_each_other,
    what_its_links_copy_stays_when_it_goes,
    what_is_written_is_read_at_once,
    later_versions_have_larger_generations,
    what_is_not_there_is_removed_without_a_word,
)
