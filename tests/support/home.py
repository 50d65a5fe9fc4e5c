"""A home cluster in memory: definitions as a log, with others that write between two steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from heliostat.config import Config
from heliostat.definitions.definition import Definition, DefinitionKey
from heliostat.definitions.definition_book import DefinitionRow
from heliostat.errors import HeliostatError
from heliostat.names import Offset


class HomeLog:
    """What the topic holds."""

    def __init__(self) -> None:
        self.rows: list[DefinitionRow] = []
        self.before_write: Callable[[], None] = lambda: None
        self.lost: HeliostatError | None = None

    def append(self, key: DefinitionKey, definition: Definition | None) -> Offset:
        offset = Offset(len(self.rows))
        if definition is not None:
            definition = Definition.from_json(key.key, definition.to_json(), offset)
        self.rows.append(DefinitionRow(key, definition, offset))
        return offset

    @contextmanager
    def book(self, _: Config) -> Iterator[MemoryBook]:
        """Stand for `home_book`."""
        if self.lost is not None:
            raise self.lost
        made = MemoryBook(self)
        made.read()
        yield made


class MemoryBook:
    """As `DefinitionBook`."""

    def __init__(self, log: HomeLog) -> None:
        self._log = log
        self.position = Offset(0)
        self.definitions: dict[DefinitionKey, Definition] = {}
        self._taken_out: dict[DefinitionKey, Definition] = {}
        self.is_there = True

    def exists_now(self) -> None:
        """Nothing to note."""

    def ensure(self) -> None:
        """It is there."""

    def close(self) -> None:
        """Nothing to close."""

    def taken_out(self) -> dict[DefinitionKey, Definition]:
        rows, self._taken_out = self._taken_out, {}
        return rows

    def read(self) -> None:
        self.position, self.definitions = Offset(0), {}
        self._take()

    def consume(self, _: float) -> bool:
        return bool(self._take())

    def rows_to(self, end: Offset) -> list[DefinitionRow]:
        rows = self._take()
        assert self.position > end
        return rows

    def write(self, *definitions: Definition) -> Offset:
        self._others_write()
        return [self._log.append(each.key, each) for each in definitions][-1]

    def remove(self, keys: Sequence[DefinitionKey]) -> Offset:
        self._others_write()
        return [self._log.append(key, None) for key in keys][-1]

    def _others_write(self) -> None:
        others, self._log.before_write = self._log.before_write, lambda: None
        others()

    def _take(self) -> list[DefinitionRow]:
        if self._log.lost is not None:
            raise self._log.lost
        rows = self._log.rows[self.position :]
        for row in rows:
            if row.definition is None:
                if (last := self.definitions.pop(row.key, None)) is not None:
                    self._taken_out[row.key] = last
            else:
                self.definitions[row.key] = row.definition
        self.position = Offset(len(self._log.rows))
        return rows
