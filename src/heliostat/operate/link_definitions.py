"""Making, changing and listing links that are not in the file: they lie on the home cluster.

A change is compared with what is there before it is written, and read back after that: another one
that came in between is told. The last one in the topic counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from heliostat.clock import SystemClock
from heliostat.config import ConfigFile
from heliostat.config.defined import with_definitions
from heliostat.connect.home_contents import connector_links, home_contents
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.definitions.home_links import links_in
from heliostat.errors import ConfigError, HeliostatError, Refused
from heliostat.names import LinkName, Offset
from heliostat.operate.definition_change import differing_fields, merge_patch, notes_on
from heliostat.operate.definition_reach import DefinitionReach, reach_of
from heliostat.operate.home import home_book
from heliostat.operate.idempotency import KeyUsed

NAME_CHARS_MAX, WHY_CHARS_MAX = 200, 1_000
KEY_KEPT_MS = 24 * 3_600_000
_LINK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")


class Origin(Enum):
    """Where a link is defined."""

    FILE = "file"
    HOME = "home"
    CONNECTOR = "connector"
    """By Kafka Connect's API, on the home as well."""


class LinkOfFile(Refused):
    """The link stands in the file, and is changed there."""


class LinkOfConnector(Refused):
    """The link is a connector, and is changed by Kafka Connect's API."""


class NoSuchLink(Refused):
    """No link of that name is defined."""


class LinkExists(Refused):
    """A link of that name is defined already."""


class StaleGeneration(Refused):
    """The definition is another one than the one that was to be changed."""


class NameRefused(ConfigError):
    """A link can't be called that."""


@dataclass(frozen=True, slots=True)
class LinkDefinition:
    """A link as it is defined."""

    name: LinkName
    origin: Origin
    content: Mapping[str, Any]
    """What `links:` has of it, or would have, without its name; defaults are not in it."""
    generation: Offset | None = None
    """Grows with each change; None: the link is in the file."""
    by: str = ""
    at_ms: int | None = None
    why: str = ""
    waits: tuple[str, ...] = ()
    """Why this machine's file can't take it; none: it can."""
    state: str = ""
    """As `heliostat status` names it; empty: it was not asked for, or the link waits."""
    owner: str = ""
    """Host of the driver that owns it; empty: none does, or it was not asked for."""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "name": self.name,
            "origin": self.origin.value,
            "content": dict(self.content),
            "generation": self.generation,
            "by": self.by,
            "at_ms": self.at_ms,
            "why": self.why,
            "waits": list(self.waits),
            "state": self.state,
            "owner": self.owner,
        }


@dataclass(frozen=True, slots=True)
class LinkListing:
    """All links that are defined."""

    links: tuple[LinkDefinition, ...]
    """Those of the file first, then those of the home, the last changed last."""
    home: str | None
    """The home's alias; None: there is none."""
    error: HeliostatError | None = None
    """Why the home's links are not known."""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "items": [link.to_json() for link in self.links],
            "home": self.home,
            "error": None if self.error is None else self.error.text,
        }


@dataclass(frozen=True, slots=True)
class DefinitionAnswer:
    """What became of a change."""

    link: LinkName
    did: str
    """`created`, `changed`, `deleted`, or `nothing`: it was so already."""
    generation: Offset | None
    """Of the definition as it is now; None: there is none, or it was only tried."""
    content: Mapping[str, Any] | None
    """The definition as it is now, or would be."""
    differs: tuple[str, ...] = ()
    """Fields that differ from what was there before."""
    notes: tuple[str, ...] = ()
    """What else must be known."""
    topics: tuple[str, ...] = ()
    """Topics of the target that were deleted with it, or would be."""
    is_tried: bool = False
    """Whether nothing was written, as it was only asked what would be done."""
    is_repeated: bool = False
    """Whether the same was asked under the same idempotency key before, and nothing done now."""
    reach: DefinitionReach | None = None
    """Which partitions it would concern; None: it was not only tried, or nothing differs."""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "did": self.did,
            "generation": self.generation,
            "content": None if self.content is None else dict(self.content),
            "differs": list(self.differs),
            "notes": list(self.notes),
            "topics": list(self.topics),
            "is_tried": self.is_tried,
            "is_repeated": self.is_repeated,
            "reach": None if self.reach is None else self.reach.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for a change, and how."""

    by: str
    why: str = ""
    dry_run: bool = False
    """Whether only to tell what would change."""
    key: str = ""
    """Under which the same is done once, however often it is asked; empty: none."""


def list_definitions(file: ConfigFile) -> LinkListing:
    """Return all links that are defined: a home that does not answer is told, and harms nothing."""
    home = file.config.service.home
    own = tuple(_links_of_file(file))
    if home is None:
        return LinkListing(own, None)
    try:
        with home_book(file.config) as book:
            return LinkListing((*own, *_links_of_home(file, book)), home)
    except HeliostatError as error:
        return LinkListing(own, home, error)


def definition_of(file: ConfigFile, name: str) -> LinkDefinition:
    """Return how a link is defined.

    Raises
    ------
    NoSuchLink
        None of that name is.
    ConnectionLost, BrokerError
        It is not in the file, and the home does not answer, or refuses.
    """
    for link in _links_of_file(file):
        if link.name == name:
            return link
    if file.config.service.home is not None:
        with home_book(file.config) as book:
            for link in _links_of_home(file, book):
                if link.name == name:
                    return link
    raise _no_such(name)


def create_link(
    file: ConfigFile, name: str, content: Mapping[str, Any], asker: Asker
) -> DefinitionAnswer:
    """Define a new link on the home.

    Raises
    ------
    LinkOfFile, LinkExists, KeyUsed
        There is one of that name, or something else was asked under the same key.
    ConfigError
        The definition is wrong; all problems are named.
    ConnectionLost, BrokerError
        The home does not answer, or refuses.
    """
    require_not_in_file(file, name)
    if _LINK_NAME.fullmatch(name) is None:
        raise NameRefused(
            f"link {name!r} is refused",
            problems=(f"name: up to 100 letters, digits and - (got {name!r})",),
        )
    with home_book(file.config) as book:
        if (answer := _repeated(book, name, content, asker)) is not None:
            return answer
        names = {link.casefold() for link in home_contents(file, book.definitions)}
        if name.casefold() in names:
            raise LinkExists(
                f"there is a link {name} already",
                hint=f"change it by `heliostat links change {name}`, or take another name",
            )
        content = _fitting(file, book, name, content)
        answer = DefinitionAnswer(LinkName(name), "created", None, content)
        if asker.dry_run:
            return replace(answer, is_tried=True, reach=reach_of(file, name, None, content))
        _forget_old_keys(book)
        requests = [_request(name, content, asker)] if asker.key else []
        generation, notes = _written(book, name, content, asker, requests)
        return replace(answer, generation=generation, notes=notes)


def change_link(
    file: ConfigFile,
    name: str,
    change: Mapping[str, Any],
    asker: Asker,
    *,
    is_whole: bool,
    expected: int | None = None,
) -> DefinitionAnswer:
    """Change a link that lies on the home.

    Parameters
    ----------
    change
        What is there from now on, or a merge patch for it (RFC 7396).
    is_whole
        Whether it is all of it.
    expected
        Generation that is to be changed; None: whichever it is.

    Raises
    ------
    LinkOfFile, LinkOfConnector, NoSuchLink, StaleGeneration
        It stands in the file, is a connector, there is none of that name, or it was changed since.
    ConfigError
        It would be wrong then; all problems are named.
    ConnectionLost, BrokerError
        The home does not answer, or refuses.
    """
    require_not_in_file(file, name)
    with home_book(file.config) as book:
        require_no_connector(file, book, name)
        before = require_definition(book, name, expected)
        wanted = change if is_whole else merge_patch(before.content, change)
        content = _fitting(file, book, name, wanted)
        differs = tuple(differing_fields(before.content, content))
        notes = notes_on(differs)
        answer = DefinitionAnswer(
            LinkName(name), "changed" if differs else "nothing", None, content, differs, notes
        )
        if asker.dry_run:
            reach = reach_of(file, name, before.content, content) if differs else None
            return replace(answer, is_tried=True, reach=reach)
        if not differs:
            return replace(answer, generation=before.generation)
        generation, meanwhile = _written(book, name, content, asker)
        return replace(answer, generation=generation, notes=(*notes, *meanwhile))


def require_definition(book: DefinitionBook, name: str, expected: int | None) -> Definition:
    """Return the definition of a link of the home.

    Raises
    ------
    NoSuchLink, StaleGeneration
        There is none of that name, or it is of another generation.
    """
    definition = links_in(book.definitions).get(LinkName(name))
    if definition is None:
        raise _no_such(name)
    if expected is not None and definition.generation != expected:
        raise StaleGeneration(
            f"link {name} was changed by {definition.by} since: it is of generation "
            f"{definition.generation}, not {expected}",
            hint="look at it again, then change it",
        )
    return definition


def require_not_in_file(file: ConfigFile, name: str) -> None:
    """Refuse a link of the file.

    Raises
    ------
    LinkOfFile
        It is one.
    """
    if any(link.name.casefold() == name.casefold() for link in file.config.links):
        raise LinkOfFile(
            f"link {name} is declared in {file.path.name}",
            hint="change that file; a run takes it over while it goes on",
        )


def require_no_connector(file: ConfigFile, book: DefinitionBook, name: str) -> None:
    """Refuse a link that a connector is.

    Raises
    ------
    LinkOfConnector
        It is one.
    """
    connector_link = connector_links(file, book.definitions).get(LinkName(name))
    if connector_link is not None:
        raise LinkOfConnector(
            f"link {name} is connector {connector_link.connector.name}",
            hint="change that by Kafka Connect's API (docs/kafka-connect.md)",
        )


def notes_between(book: DefinitionBook, key: DefinitionKey, own: Offset) -> tuple[str, ...]:
    """Read back what was written; return what others did to the same link meanwhile."""
    notes: list[str] = []
    for row in book.rows_to(own):
        if row.key != key or row.offset == own:
            continue
        what = "its deletion" if row.definition is None else f"a change by {row.definition.by}"
        if row.offset < own:
            notes.append(f"{what} came in between (generation {row.offset}); this one counts")
        else:
            notes.append(f"{what} came after this one (generation {row.offset}), and counts")
    return tuple(notes)


def _links_of_file(file: ConfigFile) -> Iterator[LinkDefinition]:
    for raw, link in zip(file.raw.get("links", ()), file.config.links, strict=True):
        yield LinkDefinition(LinkName(link.name), Origin.FILE, _without_name(raw))


def _links_of_home(file: ConfigFile, book: DefinitionBook) -> Iterator[LinkDefinition]:
    waits = with_definitions(file, home_contents(file, book.definitions)).waits
    for name, link in connector_links(file, book.definitions).items():
        by = link.connector
        yield LinkDefinition(
            name,
            Origin.CONNECTOR,
            link.content,
            by.generation,
            by.by,
            by.at_ms,
            f"connector {by.name}",
            waits.get(name, ()),
        )
    for name, row in links_in(book.definitions).items():
        yield LinkDefinition(
            name,
            Origin.HOME,
            row.content,
            row.generation,
            row.by,
            row.at_ms,
            row.why,
            waits.get(name, ()),
        )


def _without_name(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "name"}


def _no_such(name: str) -> NoSuchLink:
    return NoSuchLink(f"no link {name} is defined", hint="`heliostat links list` has all")


def _fitting(
    file: ConfigFile, book: DefinitionBook, name: str, content: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a definition without the name; refuse one that the file can't take beside others."""
    contents = home_contents(file, book.definitions)
    others = {link: link_content for link, link_content in contents.items() if link != name}
    waits = with_definitions(file, {**others, LinkName(name): content}).waits
    if problems := waits.get(LinkName(name), ()):
        raise ConfigError(f"link {name} is refused", problems=problems)
    return _without_name(content)


def _written(
    book: DefinitionBook,
    name: str,
    content: Mapping[str, Any],
    asker: Asker,
    requests: Sequence[Definition] = (),
) -> tuple[Offset, tuple[str, ...]]:
    """Write a definition; return its generation, and what others did meanwhile."""
    key = DefinitionKey(DefinitionKind.LINK, name)
    generation = book.write(*requests, _row(key, content, asker))
    return generation, notes_between(book, key, generation)


def _row(key: DefinitionKey, content: Mapping[str, Any], asker: Asker) -> Definition:
    by, why = asker.by[:NAME_CHARS_MAX], asker.why[:WHY_CHARS_MAX]
    return Definition(key, content, by, SystemClock().wall_ms(), why)


def _digest(name: str, content: Mapping[str, Any], why: str) -> str:
    text = json.dumps([name, content, why], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _request(name: str, content: Mapping[str, Any], asker: Asker) -> Definition:
    key = DefinitionKey(DefinitionKind.REQUEST, asker.key)
    return _row(key, {"link": name, "digest": _digest(name, content, asker.why)}, asker)


def _repeated(
    book: DefinitionBook, name: str, content: Mapping[str, Any], asker: Asker
) -> DefinitionAnswer | None:
    """Return the answer to what was asked before under the same key; None: nothing was."""
    if not asker.key:
        return None
    request = book.definitions.get(DefinitionKey(DefinitionKind.REQUEST, asker.key))
    if request is None or SystemClock().wall_ms() - request.at_ms > KEY_KEPT_MS:
        return None
    if request.content.get("digest") != _digest(name, content, asker.why):
        raise KeyUsed(f"another request was made under the key {asker.key}")
    now = links_in(book.definitions).get(LinkName(name))
    return DefinitionAnswer(
        LinkName(name),
        "created",
        None if now is None else now.generation,
        None if now is None else now.content,
        is_repeated=True,
    )


def _forget_old_keys(book: DefinitionBook) -> None:
    now_ms = SystemClock().wall_ms()
    old = [
        key
        for key, row in book.definitions.items()
        if key.kind is DefinitionKind.REQUEST and now_ms - row.at_ms > KEY_KEPT_MS
    ]
    if old:
        book.remove(old)
