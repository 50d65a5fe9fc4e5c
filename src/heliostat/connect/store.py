"""Where connectors are kept: on the home cluster, beside the definitions of links."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from heliostat.connect.connector import StoredConnector, has_state
from heliostat.connect.link_copies import Copies, LinkCopies
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.names import LinkName, Offset
from heliostat.wishes.wish import WishedState

NO_COPIES: Copies = MappingProxyType({})
LOOK_S, LOOKS_MAX = 0.1, 50
"""Until what was written has come back."""


class ConnectorStore(Protocol):
    """Connectors by name. Thread-safe; what was written is read at once by who has written it."""

    def read(self) -> Mapping[str, StoredConnector]:
        """Return all as they are now."""
        ...

    def copies(self) -> Copies:
        """Return what each link of a connector copies, or did when there was one."""
        ...

    def write(self, connector: StoredConnector, copies: Copies = NO_COPIES) -> Offset:
        """Write one, in place of another of its name, whose state stays; return its generation.

        Parameters
        ----------
        copies
            What links of it copy: noted with it.
        """
        ...

    def wish(self, connector: StoredConnector) -> None:
        """Write the state of one that is there; its configuration stays."""
        ...

    def remove(self, name: str, by: str, at_ms: int) -> None:
        """Remove one, by this word at this time; nothing happens if there is none."""
        ...


class HomeConnectors:
    """Connectors in the topic of the home cluster.

    Every method raises `ConnectionLost` when the home does not answer and `BrokerError` when it
    refuses.

    Parameters
    ----------
    book
        The topic; nobody else reads by it.
    """

    def __init__(self, book: DefinitionBook) -> None:
        self._book = book
        self._lock = threading.Lock()
        self._is_read = False
        self._is_made = False

    def read(self) -> Mapping[str, StoredConnector]:
        """Return all as they are now."""
        with self._lock:
            self._look(Offset(0))
            return self._connectors()

    def copies(self) -> Copies:
        """Return what each link of a connector copies, or did when there was one."""
        with self._lock:
            self._look(Offset(0))
            return {
                LinkName(key.name): LinkCopies.from_json(row.content)
                for key, row in self._book.definitions.items()
                if key.kind is DefinitionKind.COPIES
            }

    def write(self, connector: StoredConnector, copies: Copies = NO_COPIES) -> Offset:
        """Write one, in place of another of its name, whose state stays; return its generation."""
        with self._lock:
            if not self._is_made:
                self._book.ensure()
                self._is_made = True
            self._look(Offset(0))
            notes = [
                Definition(
                    DefinitionKey(DefinitionKind.COPIES, link),
                    link_copies.to_json(),
                    connector.by,
                    connector.at_ms,
                )
                for link, link_copies in copies.items()
            ]
            rows = [*notes, *self._state_of(connector), connector.to_definition()]
            offset = self._book.write(*rows)
            self._look(Offset(offset + 1))
            return offset

    def _state_of(self, connector: StoredConnector) -> list[Definition]:
        """Return the row of its state, if that must be written with its configuration."""
        definitions = self._book.definitions
        row, wished = (definitions.get(key) for key in (connector.key, connector.state_key))
        if row is None:
            is_needed = wished is not None or connector.state is not WishedState.RUNNING
            return [connector.to_state()] if is_needed else []
        return [_connector(row, wished).to_state()] if has_state(row, wished) else []

    def wish(self, connector: StoredConnector) -> None:
        """Write the state of one that is there; its configuration stays."""
        with self._lock:
            offset = self._book.write(connector.to_state())
            self._look(Offset(offset + 1))

    def remove(self, name: str, by: str, at_ms: int) -> None:
        """Remove one, by this word at this time; nothing happens if there is none."""
        with self._lock:
            self._look(Offset(0))
            connector = self._connectors().get(name)
            if connector is None:
                return
            self._book.write(self._book.definitions[connector.key].leaving(by, at_ms))
            self._book.remove([connector.state_key, connector.key])
            for _ in range(LOOKS_MAX):
                if name not in self._connectors():
                    return
                self._book.consume(LOOK_S)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._book.close()

    def _look(self, until: Offset) -> None:
        """Take what was written, at least what lies before an offset."""
        if not self._is_read:
            self._book.read()
            self._is_read = True
        while self._book.consume(0):
            pass
        for _ in range(LOOKS_MAX):
            if self._book.position >= until:
                return
            self._book.consume(LOOK_S)

    def _connectors(self) -> dict[str, StoredConnector]:
        return connectors_in(self._book.definitions)


def connectors_in(
    definitions: Mapping[DefinitionKey, Definition],
) -> dict[str, StoredConnector]:
    """Return the connectors among definitions, by name."""
    return {
        key.name: _connector(row, definitions.get(DefinitionKey(DefinitionKind.STATE, key.name)))
        for key, row in definitions.items()
        if key.kind is DefinitionKind.CONNECTOR and not row.is_leaving
    }


def _connector(row: Definition, wished: Definition | None) -> StoredConnector:
    """Return a row's connector; of one that is none, a connector that its status shows as such."""
    try:
        return StoredConnector.of_definition(row, wished)
    except ValueError:
        return StoredConnector(row.key.name, {}, by=row.by, generation=row.generation)
