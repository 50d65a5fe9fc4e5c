"""The topic that holds definitions: `heliostat.links` on the home cluster, compacted.

A record that is no definition is ignored and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heliostat.access import Reachable
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.keyed_topic import Change, KeyedTopic, OwnRows
from heliostat.definitions.definition import Definition, DefinitionKey
from heliostat.names import Offset
from heliostat.state_topics import DEFINITIONS_TOPIC

CLIENT_ID = "heliostat-definitions"


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

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic if it is missing."""
        self._topic.ensure(replication_factor)

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._topic.close()

    @property
    def definitions(self) -> Mapping[DefinitionKey, Definition]:
        """What was read so far."""
        return self._definitions

    def read(self) -> None:
        """Read all definitions; a topic that does not exist holds none."""
        changes = self._reader.read_changes()
        self._definitions = {}
        for change in changes:
            self._take(change)

    def consume(self, wait_s: float) -> bool:
        """Take what was written since; return whether anything was, within `wait_s`."""
        changes = self._reader.poll(wait_s)
        for change in changes:
            self._take(change)
        return bool(changes)

    @property
    def position(self) -> Offset:
        """Offset of the first record that was not read yet."""
        return self._reader.position

    def _take(self, change: Change) -> None:
        try:
            if change.value is None:
                self._definitions.pop(DefinitionKey.of_key(change.key), None)
            else:
                row = Definition.from_json(change.key, change.value, change.offset)
                self._definitions[row.key] = row
        except NOT_A_ROW as error:
            self._foreign.note(self._topic.topic, change.offset, change.key, error)

    def write(self, definition: Definition) -> Offset:
        """Write one; return its generation."""
        return self._topic.write(definition.key.key, definition.to_json())

    def remove(self, keys: Iterable[DefinitionKey]) -> None:
        """Remove definitions."""
        self._topic.write_many({key.key: None for key in keys})
