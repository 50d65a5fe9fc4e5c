"""The topic that holds an operator's wishes and orders: `heliostat.<link>.wishes`, compacted.

Beside them lies what is remembered of the link's restarts: it must be known where no owner is.

Whoever may pause needs no right on the link's state. A record that is no wish is ignored and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heliostat.access import Reachable
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.keyed_topic import Change, KeyedTopic, OwnRows
from heliostat.handover.promotion import PROMOTED_PREFIX, Promotion, is_promotion_key
from heliostat.handover.run import Runs, is_run_key
from heliostat.names import LinkName, Offset, TopicName
from heliostat.state_topics import wishes_topic
from heliostat.wishes.job import JobRows, is_job_key
from heliostat.wishes.levels import Level, is_level
from heliostat.wishes.order import Order, Orders, is_order_key
from heliostat.wishes.restarts import RESTARTS_KEY, RestartMemory
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
        self.orders = Orders()
        """The same of orders."""
        self.runs = Runs()
        """Verbs of several steps, as far as they are."""
        self.jobs = JobRows()
        """What services carry out beside the link."""
        self.restarts: RestartMemory | None = None
        """What is remembered of the link's restarts; None: it never halted."""

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic if it is missing."""
        self._topic.ensure(replication_factor)

    def exists_now(self) -> None:
        """Note that the topic exists."""
        self._topic.exists_now()

    @property
    def is_there(self) -> bool:
        """Whether the topic existed when it was read last."""
        return self._reader.is_there

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._topic.close()

    def read(self) -> None:
        """Read all wishes; a topic that does not exist holds none."""
        self.wishes, self.orders, self.restarts, self.runs = Wishes(), Orders(), None, Runs()
        self.jobs = JobRows()
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
            if is_level(change.key):
                self.wishes.levels.take(change.key, change.value)
            elif is_order_key(change.key):
                self.orders.take(change.key, change.value)
            elif is_promotion_key(change.key):
                self._take_promotion(change)
            elif is_job_key(change.key):
                self.jobs.take(change.key, change.value)
            elif is_run_key(change.key):
                self.runs.take(change.key, change.value)
            elif change.key == RESTARTS_KEY:
                of_value = RestartMemory.from_json
                self.restarts = None if change.value is None else of_value(change.value)
            elif change.value is None:
                self.wishes.forget(Place.of_key(change.key))
            else:
                self.wishes.take(Wish.from_json(change.key, change.value))
        except NOT_A_ROW as error:
            self._foreign.note(self._topic.topic, change.offset, change.key, error)

    def _take_promotion(self, change: Change) -> None:
        if change.value is None:
            topic = TopicName(change.key.removeprefix(PROMOTED_PREFIX))
            self.wishes.promotions.pop(topic, None)
        else:
            promotion = Promotion.from_json(change.key, change.value)
            self.wishes.promotions[promotion.topic] = promotion

    def write(
        self, wishes: Iterable[Wish | Level | Promotion], replication_factor: int | None = None
    ) -> Offset:
        """Write wishes; return the offset after the last one."""
        return self.put({wish.key: wish.to_json() for wish in wishes}, replication_factor)

    def order(self, orders: Iterable[Order], replication_factor: int | None = None) -> Offset:
        """Write orders; return the offset after the last one."""
        return self.put({order.key: order.to_json() for order in orders}, replication_factor)

    def remember(self, memory: RestartMemory, replication_factor: int | None = None) -> None:
        """Write what is remembered of the link's restarts."""
        self.put({RESTARTS_KEY: memory.to_json()}, replication_factor)

    def put(
        self,
        rows: Mapping[str, Mapping[str, Any] | None],
        replication_factor: int | None = None,
    ) -> Offset:
        """Write rows; the topic is made where no owner has made it yet."""
        if not self.is_there:
            self.ensure(replication_factor)
        offsets = self._topic.write_many(rows)
        return Offset(max(offsets.values()) + 1)
