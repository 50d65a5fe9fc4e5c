"""The topic that holds definitions: `heliostat.links` on the home cluster, compacted.

A record that is no definition is ignored and told.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliostat.access import Reachable
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.keyed_topic import Change, KeyedTopic, OwnRows
from heliostat.definitions.definition import Definition, DefinitionKey
from heliostat.errors import ConnectionLost
from heliostat.names import Offset
from heliostat.state_topics import DEFINITIONS_TOPIC

CLIENT_ID = "heliostat-definitions"
READ_BACK_S, LOOK_S = 10.0, 0.1


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A row as it was written: a definition, or None where one was removed."""

    key: DefinitionKey
    definition: Definition | None
    offset: Offset


class DefinitionBook:
    """Reads and writes definitions. Reads from one thread only; writes are durable on return.

    Every method raises `ConnectionLost` when the home does not answer and `BrokerError` when it
    refuses.
    """

    def __init__(self, home: Reachable, foreign: ForeignRecords | None = None) -> None:
        self._foreign = foreign or ForeignRecords()
        self._topic = KeyedTopic(home, DEFINITIONS_TOPIC, CLIENT_ID, OwnRows((), self._foreign))
        self._reader = self._topic.reader()
        self._definitions: dict[DefinitionKey, Definition] = {}
        self._taken_out: dict[DefinitionKey, Definition] = {}

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic if it is missing."""
        self._topic.ensure(replication_factor)

    def exists_now(self) -> None:
        """Note that the topic exists: it is not taken for empty if a broker doesn't know it."""
        self._topic.exists_now()

    @property
    def is_there(self) -> bool:
        """Whether the topic existed when it was read last."""
        return self._reader.is_there

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._topic.close()

    @property
    def definitions(self) -> Mapping[DefinitionKey, Definition]:
        """What was read so far."""
        return self._definitions

    def taken_out(self) -> Mapping[DefinitionKey, Definition]:
        """Return those removed since the last call, as they were last."""
        rows, self._taken_out = self._taken_out, {}
        return rows

    def read(self) -> None:
        """Read all definitions; a topic that does not exist holds none."""
        changes = self._reader.read_changes()
        self._definitions = {}
        self._take(changes)

    def consume(self, wait_s: float) -> bool:
        """Take what was written since; return whether anything was, within `wait_s`."""
        changes = self._reader.poll(wait_s)
        self._take(changes)
        return bool(changes)

    def rows_to(self, end: Offset) -> list[DefinitionRow]:
        """Take what was written since, at least to this offset; return it in order."""
        rows: list[DefinitionRow] = []
        until_s = time.monotonic() + READ_BACK_S
        while self.position <= end:
            changes = self._reader.poll(LOOK_S)
            rows += self._take(changes)
            if not changes and time.monotonic() > until_s:
                raise ConnectionLost("what was written to the home can't be read back in time")
            if not self.is_there:  # brokers hear of a new topic one after the other
                time.sleep(LOOK_S)
        return rows

    @property
    def position(self) -> Offset:
        """Offset of the first record that was not read yet."""
        return self._reader.position

    def _take(self, changes: Iterable[Change]) -> list[DefinitionRow]:
        rows: list[DefinitionRow] = []
        for change in changes:
            try:
                key = DefinitionKey.of_key(change.key)
                row = None
                if change.value is not None:
                    row = Definition.from_json(change.key, change.value, change.offset)
            except NOT_A_ROW as error:
                self._foreign.note(self._topic.topic, change.offset, change.key, error)
                continue
            if row is None:
                if (last := self._definitions.pop(key, None)) is not None:
                    self._taken_out[key] = last
            else:
                self._definitions[key] = row
            rows.append(DefinitionRow(key, row, change.offset))
        return rows

    def write(self, *definitions: Definition) -> Offset:
        """Write them in this order; a topic that was missing when it was read is made.

        Returns
        -------
        Offset
            Generation of the last one.
        """
        return self._write({definition.key.key: definition.to_json() for definition in definitions})

    def remove(self, keys: Sequence[DefinitionKey]) -> Offset:
        """Remove definitions; return the offset of the last one's removal."""
        return self._write({key.key: None for key in keys})

    def _write(self, rows: Mapping[str, Mapping[str, object] | None]) -> Offset:
        if not self.is_there:
            self.ensure()
        return max(self._topic.write_many(rows).values())
