"""Deleting links that lie on the home; what they have made at the target stays unless asked for.

Topics go only once the link has no owner any more. Until then its row says that it is leaving: no
`run` has it, and whoever deletes it again goes on there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import STATE_TOPIC_PREFIX, ClusterConfig, Config, ConfigFile, LinkConfig
from heliostat.config.defined import with_definitions
from heliostat.connect.home_contents import home_contents
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.errors import BrokerError, Refused
from heliostat.names import LinkName, TopicName
from heliostat.operate.home import home_book
from heliostat.operate.link_definitions import (
    Asker,
    DefinitionAnswer,
    notes_between,
    require_definition,
    require_no_connector,
    require_not_in_file,
)
from heliostat.operate.protection import lift_protection
from heliostat.operate.reach import require_answer
from heliostat.slots import WHOLE_TOPIC
from heliostat.state.link_state import LinkState
from heliostat.status.reader import last_heard
from heliostat.status.snapshot import DRIVER_SILENT_AFTER_S

OWNER_ENDS_WITHIN_S, LOOK_AGAIN_S = 30.0, 0.5
CLIENT_ID = "heliostat-links"


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes with a link."""

    state: bool = False
    """Its own topics at the target, `heliostat.<link>.*`, dead letters among them."""
    mirrors: bool = False
    """Its mirrors at the target."""

    @property
    def has_topics(self) -> bool:
        """Whether any topics go."""
        return self.state or self.mirrors

    def to_json(self) -> dict[str, Any]:
        """Return it for the link's row."""
        return {"state": self.state, "mirrors": self.mirrors}


def delete_link(
    file: ConfigFile,
    name: str,
    asker: Asker,
    removal: Removal,
    *,
    expected: int | None = None,
    within_s: float = OWNER_ENDS_WITHIN_S,
) -> DefinitionAnswer:
    """Delete a link of the home: whoever runs it lets it go.

    Parameters
    ----------
    removal
        What goes with it.
    expected
        Generation that is to be deleted; None: whichever it is.
    within_s
        How long its owner may take to end before topics are deleted.

    Raises
    ------
    LinkOfFile, LinkOfConnector, NoSuchLink, StaleGeneration
        It stands in the file, is a connector, there is none of that name, or it was changed since.
    Refused
        Its topics can't be deleted: it still has an owner, or its target is unknown here.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    require_not_in_file(file, name)
    key = DefinitionKey(DefinitionKind.LINK, name)
    with home_book(file.config) as book:
        require_no_connector(file, book, name)
        row = book.definitions.get(key)
        if row is None or not row.is_leaving:
            row = require_definition(book, name, expected)
        link = _link(file, book, row) if removal.has_topics else None
        topics, notes = ((), ()) if link is None else _topics(file, link, removal)
        answer = DefinitionAnswer(LinkName(name), "deleted", None, None, topics=topics, notes=notes)
        if asker.dry_run:
            return replace(answer, is_tried=True)
        notes = (*notes, *_leave(book, row, asker, removal))
        if link is not None:
            topics = _delete_topics(file, link, removal, within_s)
        generation = book.remove([key])
        notes = (*notes, *notes_between(book, key, generation))
        return replace(answer, topics=topics, notes=notes)


def _link(file: ConfigFile, book: DefinitionBook, row: Definition) -> LinkConfig:
    name = LinkName(row.key.name)
    contents = home_contents(file, book.definitions)
    others = {link: content for link, content in contents.items() if link != name}
    whole = with_definitions(file, {**others, name: row.content})
    if problems := whole.waits.get(name, ()):
        raise Refused(
            f"topics of link {name} can't be deleted from here: {'; '.join(problems)}",
            hint="delete it without its topics, or ask where its clusters are known",
        )
    return whole.config.link(name)


def _leave(
    book: DefinitionBook, row: Definition, asker: Asker, removal: Removal
) -> tuple[str, ...]:
    """Write who deletes the link, when and why; return what others did meanwhile."""
    now_ms = SystemClock().wall_ms()
    generation = book.write(row.leaving(asker.by, now_ms, asker.why, removal.to_json()))
    return notes_between(book, row.key, generation)


def _topics(
    file: ConfigFile, link: LinkConfig, removal: Removal
) -> tuple[tuple[TopicName, ...], tuple[str, ...]]:
    """Return which topics go, mirrors first, and what must be known of others."""
    target = file.config.clusters[link.target]
    require_answer(target)
    notes: list[str] = []
    with ClusterAdmin(target.access(), CLIENT_ID) as admin:
        mirrors = tuple(_mirrors(link, target, admin, notes)) if removal.mirrors else ()
        own = tuple(_own(link, admin.describe_topics())) if removal.state else ()
    if removal.state and not removal.mirrors:
        notes.append("without its state no link takes its mirrors for its own again")
    return (*mirrors, *own), tuple(notes)


def _own(link: LinkConfig, names: Iterable[TopicName]) -> Iterator[TopicName]:
    yield from sorted(
        name for name in names if name.startswith(f"{STATE_TOPIC_PREFIX}{link.name}.")
    )


def _mirrors(
    link: LinkConfig, target: ClusterConfig, admin: ClusterAdmin, notes: list[str]
) -> Iterator[TopicName]:
    """Yield topics that are still, by their ids, the mirrors that the link's state names."""
    with closing(LinkState(link, target)) as state:
        records = {record.target: record for record in state.read().mirrors.values()}
    topics = admin.confirm_topics(records) if records else {}
    for name, record in sorted(records.items()):
        if topics[name].is_missing:
            continue
        if record.slot != WHOLE_TOPIC:
            notes.append(f"{name} stays: other links write into it (fan_in)")
        elif record.target_id is None or topics[name].topic_id != record.target_id:
            notes.append(f"{name} stays: it can't be shown to be the topic that the link made")
        else:
            yield name


def _delete_topics(
    file: ConfigFile, link: LinkConfig, removal: Removal, within_s: float
) -> tuple[TopicName, ...]:
    """Delete the link's topics once it has no owner."""
    _await_no_owner(file, link, within_s)
    topics, _ = _topics(file, link, removal)
    lift_protection(link, file.config.clusters[link.target].access())
    with ClusterAdmin(file.config.clusters[link.target].access(), CLIENT_ID) as admin:
        answers = admin.delete_topics(topics)
    for name, error in answers.items():
        if error is not None:
            raise BrokerError(
                f"topic {name} of link {link.name} can't be deleted, nor may others be",
                kafka_code=error.kafka_code,
            )
    return topics


def _await_no_owner(file: ConfigFile, link: LinkConfig, within_s: float) -> None:
    if owner := owner_after(file.config, link, within_s):
        raise Refused(
            f"link {link.name} still has an owner, at {owner}: its topics are there yet, and "
            "no `run` takes it any more",
            hint="delete it again; a `run` whose file has another home, or none, must end",
        )


def owner_after(config: Config, link: LinkConfig, within_s: float) -> str:
    """Return the host of a link's owner once it has had so long to end; empty: there is none.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    clock, name = SystemClock(), LinkName(link.name)
    target = config.clusters[link.target].access()
    until_s = clock.monotonic_s() + within_s
    silent_ms = max(DRIVER_SILENT_AFTER_S, link.lanes.lease_s) * 1000
    with closing(LentClusters(target, DialSettings(CLIENT_ID))) as lent:
        while (report := last_heard(name, lent, clock)) is not None:
            board, now_ms = report
            at_ms = board.driver_at_ms
            if at_ms is None or now_ms - at_ms > silent_ms:
                return ""
            if clock.monotonic_s() >= until_s:
                return str(board.driver.get("owner", {}).get("host", "unknown"))
            clock.sleep(LOOK_AGAIN_S)
    return ""
