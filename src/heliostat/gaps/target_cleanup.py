"""Carries out decisions at the target: deletes a mirror's topic, or empties partitions of it.

I6  Both happen after their rows are durable; a row is done only when the target has done it. Work
    that an earlier driver left undone is finished here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.errors import BrokerError
from heliostat.gaps.choices import Cause
from heliostat.gaps.ledger import GapLedger, GapRow
from heliostat.gaps.rows import Memory
from heliostat.gaps.warn_once import WarnOnce
from heliostat.names import Offset, TopicId, TopicName, id_text
from heliostat.ops.events import Events
from heliostat.topics.same_topics import delete_in_same_topics, not_shown_same
from heliostat.topics.values import MirrorRecord


class TargetCleanup:
    """Deletes as rows of the ledger say, and marks these as done.

    Parameters
    ----------
    target
        The cluster that is copied to.
    ledger
        Holds the rows.
    events, warnings
        Log what could not be done.
    """

    def __init__(
        self, target: ClusterAdmin, ledger: GapLedger, events: Events, warnings: WarnOnce
    ) -> None:
        self._target = target
        self._ledger = ledger
        self._events = events
        self._warnings = warnings
        self._deleted: dict[TopicName, str] = {}
        """Ids of target topics that were deleted here to be created again."""

    def has_deleted(self, target: TopicName, target_id: TopicId | None) -> bool:
        """Return whether this target topic, of the same id, was deleted here."""
        return self._deleted.get(target) == id_text(target_id)

    def delete_topic(self, record: MirrorRecord, rows: Sequence[GapRow]) -> bool:
        """Delete the target topic; return whether it is gone, so that the plan recreates it.

        Parameters
        ----------
        rows
            Its recorded rows (I6); they are done once the topic is gone.
        """
        ids = {record.target: id_text(record.target_id)}
        was_theirs = any(row.cause is Cause.TARGET_RECREATED for row in rows)
        if not was_theirs and not_shown_same(self._target.describe_topics(ids), ids):
            why = f"{record.target} may have been recreated: it is not deleted"
            self._warnings.warn(record.source, why)
            return False
        error = self._target.delete_topics([record.target])[record.target]
        if error is not None and error.kafka_code != UNKNOWN_TOPIC_OR_PARTITION:
            self._warnings.warn(record.source, f"{record.target} can't be deleted: {error}")
            return False
        self._deleted[record.target] = id_text(record.target_id)
        self._ledger.record([replace(row, is_done=True) for row in rows])
        return True

    def undone(self) -> list[GapRow]:
        """Return rows whose mirrors must still be emptied before lanes get the jump."""
        rows = self._ledger.rows.values()
        return [row for row in rows if not row.is_done and row.jump is not None]

    def empty_partitions(self, memory: Memory) -> None:
        """Delete records where rows say so and it is not done, also if another driver began it.

        Never in a topic that is no mirror of the link, whatever a row says.
        """
        undone = {row.target: row for row in self.undone() if memory.is_of_mirror(row)}
        if not undone:
            return
        ids = {row.target.topic: row.target_id for row in undone.values()}
        jumps = {mirror: Offset(row.jump.target) for mirror, row in undone.items() if row.jump}
        deleted = delete_in_same_topics(self._target, jumps, ids)
        # Those that were recreated are gone with all they had.
        done = [row for row in undone.values() if row.target.topic in deleted.gone]
        for mirror, answer in deleted.answers.items():
            if isinstance(answer, BrokerError):
                source = undone[mirror].source
                self._warnings.warn(str(source), f"{mirror} can't be emptied: {answer}")
            else:
                done.append(undone[mirror])
        self._ledger.record([replace(row, is_done=True) for row in done])
        for name in sorted(deleted.meanwhile):
            self._events.warn(
                f"{name} was recreated at the target while its mirror was emptied: records that "
                "others wrote there may be gone as well"
            )
