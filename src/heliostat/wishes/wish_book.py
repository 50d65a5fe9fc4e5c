"""The topic that holds an operator's wishes: `heliostat.<link>.wishes`, compacted.

Whoever may pause needs no right on the link's state. A record that is no wish is ignored and told.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.access import Reachable
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.keyed_topic import Change, KeyedTopic, OwnRows
from heliostat.names import LinkName, Offset
from heliostat.state_topics import wishes_topic
from heliostat.wishes.wish import Place, Wish, Wishes

CLIENT_ID = "heliostat-wishes"


class WishBook:
    """Reads and writes wishes. Reads from one thread only; every write is durable when it returns.

    Every method raises `ConnectionLost` when the target does not answer and `BrokerError` when it
    refuses.
    """

    def __init__(
        self, link: LinkName, target: Reachable, foreign: ForeignRecords | None = None
    ) -> None:
        self._foreign = foreign or ForeignRecords()
        own = OwnRows((), self._foreign)
        self._topic = KeyedTopic(target, wishes_topic(link), CLIENT_ID, own)
        self._reader = self._topic.reader()
        self.wishes = Wishes()
        """What was read so far."""

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic if it is missing."""
        self._topic.ensure(replication_factor)

    def exists_now(self) -> None:
        """Note that the topic exists."""
        self._topic.exists_now()

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._topic.close()

    def read(self) -> None:
        """Read all wishes; a topic that does not exist holds none."""
        self.wishes = Wishes()
        for change in self._reader.read_changes():
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
                self.wishes.forget(Place.of_key(change.key))
            else:
                self.wishes.take(Wish.from_json(change.key, change.value))
        except NOT_A_ROW as error:
            self._foreign.note(self._topic.topic, change.offset, change.key, error)

    def write(self, wishes: Iterable[Wish]) -> Offset:
        """Write wishes; return the offset after the last one."""
        offsets = self._topic.write_many({wish.place.key: wish.to_json() for wish in wishes})
        return Offset(max(offsets.values()) + 1)
