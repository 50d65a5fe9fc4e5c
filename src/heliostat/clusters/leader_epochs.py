"""The newest leader epoch of each partition that any answer has named (KIP-320).

A broker that was paused, or is cut off from the others, goes on answering as the leader that it
was: its log may end before records that its successor has taken since. Requests that carry a newer
epoch are refused by it (`UNKNOWN_LEADER_EPOCH`), and metadata with an older one is not believed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

from heliostat.errors import BrokerError
from heliostat.names import LeaderEpoch, TopicId, TopicPartition, is_another

NO_EPOCH = LeaderEpoch(-1)
"""Of brokers before 2.1, and in a request: any epoch will do."""


class Described(Protocol):
    """What one broker's metadata say of a topic."""

    @property
    def topic_id(self) -> TopicId | None:
        """Its id, if brokers have such."""

    @property
    def error(self) -> BrokerError | int | None:
        """Why nothing else is known: an error, or Kafka's code."""


_View = TypeVar("_View", bound=Described)


def agreeing(views: Sequence[_View]) -> list[_View]:
    """Return the views by which the topic exists, with the id that most of them name."""
    existing = [view for view in views if not view.error]
    for topic_id, _ in Counter(view.topic_id for view in existing).most_common(1):
        return [view for view in existing if view.topic_id == topic_id]
    return []


class LeaderEpochs:
    """Remembers epochs; one never goes down for the same topic id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epochs: dict[TopicPartition, tuple[str, LeaderEpoch]] = {}
        self.changes = 0
        """How often one has changed."""

    def of(self, partition: TopicPartition) -> LeaderEpoch:
        """Return the newest epoch; `NO_EPOCH` if none is known."""
        return self._epochs.get(partition, ("", NO_EPOCH))[1]

    def take(self, partition: TopicPartition, topic_id: str, epoch: int) -> bool:
        """Note an epoch; return False if a newer one is known: what came with it is out of date."""
        with self._lock:
            known_id, newest = self._epochs.get(partition, (topic_id, NO_EPOCH))
            if is_another(known_id, topic_id):
                newest = NO_EPOCH  # recreated: its epochs begin again
            if epoch < newest:
                return epoch < 0
            if epoch > newest or known_id != topic_id:
                self._epochs[partition] = topic_id, LeaderEpoch(epoch)
                self.changes += 1
            return True
