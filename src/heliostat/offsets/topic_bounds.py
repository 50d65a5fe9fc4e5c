"""Where the topic of the offset maps begins and ends now, and whether it lacks what it had."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.names import PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.log_bounds import bounds_of
from heliostat.offsets.marks import MapTopic
from heliostat.ops.asked import asked_at_once

CLIENT_ID = "heliostat-offsets"


class TopicBounds:
    """Asks for them as an admin, by default one of its own, opened when it is first needed."""

    def __init__(
        self, cluster: Reachable, topic: TopicName, admin: ClusterAdmin | None = None
    ) -> None:
        self._cluster = cluster
        self._lent = admin
        self._partition = TopicPartition(topic, PartitionId(0))
        self._admin: ClusterAdmin | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def look(self, *, was_there: bool, confirmed: bool = False) -> MapTopic | None:
        """Return the topic's present bounds; None if it does not exist and never did.

        Parameters
        ----------
        was_there
            Whether the topic existed before: then it is an error if a broker doesn't know it, and
            the driver's reconciliation finds out whether it is gone.
        confirmed
            Whether all brokers are asked who leads, not one.

        Raises
        ------
        ConnectionLost, BrokerError
            The target can't answer.
        """
        admin, topic = self._opened(), self._partition.topic
        describe = admin.confirm_topics if confirmed else admin.describe_topics
        asks: dict[str, Callable[[], Any]] = {
            "topic": partial(describe, [topic]),
            "bounds": partial(bounds_of, admin, [self._partition], confirmed=confirmed),
        }
        answers = asked_at_once(asks)
        info, bounds = answers["topic"][topic], answers["bounds"][self._partition]
        if info.error is not None:
            if info.is_missing and not was_there:
                return None
            raise info.error
        if isinstance(bounds, BrokerError):
            raise bounds
        return MapTopic(id_text(info.topic_id), *bounds)

    def prepare(self) -> None:
        """Find out who leads the topic, if it exists: `look` then asks everything at once."""
        self._opened().describe_topics([self._partition.topic])

    def has_all_of(self, was: MapTopic) -> bool:
        """Return whether the topic still has all rows that it had once, by its epochs (KIP-320).

        Raises
        ------
        ConnectionLost, BrokerError
            The target can't answer.
        """
        now = self.look(was_there=True)
        if now is None or was.epoch < 0 or was.why_lost(now):
            return False
        asked = {self._partition: was.epoch}
        end = self._opened().epoch_ends(asked, confirmed=True)[self._partition]
        if isinstance(end, BrokerError):
            raise end
        return end.epoch == was.epoch and end.end >= was.end

    def _opened(self) -> ClusterAdmin:
        if self._lent is not None:
            return self._lent
        if self._admin is None:
            self._admin = ClusterAdmin(self._cluster, CLIENT_ID)
        return self._admin
