"""Shows how far a link has copied as the committed offsets of a group at its source.

Any exporter of consumer lag then sees the link. The group has no members, and nobody reads by it:
where a link continues is told by its target's logs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.clusters.kafka_codes import UNKNOWN_MEMBER_ID
from heliostat.config.service import LINK_PLACE
from heliostat.errors import BrokerError, GroupsFailed, Verdict
from heliostat.groups.apply import Guard
from heliostat.names import GroupId, LinkName, Offset, TopicPartition
from heliostat.offsets.landed import Landed

EVERY_S = 10.0
ALL_AGAIN_S = 3600.0
"""Brokers forget offsets that were not committed for `offsets.retention.minutes`, a week."""
PARTITIONS_AT_ONCE = 1000
"""Their broker writes the offsets of one request as one batch, which has a limit."""
MARK = "heliostat link "
"""What the metadata of our commits begins with: others' offsets are not written over."""
HINT = "choose another metrics.progress_group; heliostat acls prints the rights that it needs"


def progress_group(name: str | None, link: LinkName) -> GroupId | None:
    """Return the group of a link, by the name in the configuration; None: there is none."""
    return None if name is None else GroupId(name.replace(LINK_PLACE, link))


class ProgressGroup:
    """Commits how far a link has copied; one thread.

    Parameters
    ----------
    group
        The group.
    link
        Name of the link.
    source
        The source.
    landed
        Returns how far source partitions are copied.
    mirrored
        Returns the source partitions that are mirrored now.
    clock
        The clock.
    guard
        Raises if we no longer own the link (I10).
    """

    def __init__(
        self,
        group: GroupId,
        link: LinkName,
        source: ClusterAdmin,
        *,
        landed: Callable[[], Mapping[TopicPartition, Landed]],
        mirrored: Callable[[], Iterable[TopicPartition]],
        clock: Clock,
        guard: Guard,
    ) -> None:
        self._group = group
        self._metadata = MARK + link
        self._source = source
        self._landed = landed
        self._mirrored = mirrored
        self._clock = clock
        self._guard = guard
        self._committed: dict[TopicPartition, Offset] = {}
        self._is_ours = False
        self._all_again_s = 0.0

    def turn(self) -> None:
        """Commit what has moved since the last turn.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer; the next turn tries again.
        GroupsFailed
            The group has members or offsets of others, or we have no right.
        LinkTakenOver
            Another instance owns the link.
        """
        now_s = self._clock.monotonic_s()
        if now_s >= self._all_again_s:
            self._committed, self._all_again_s = {}, now_s + ALL_AGAIN_S
        landed, mirrored = self._landed(), set(self._mirrored())
        moved = {
            partition: Offset(known.position)
            for partition, known in landed.items()
            if partition in mirrored
            and known.position >= 0
            and self._committed.get(partition) != known.position
        }
        if not moved:
            return
        self._check_ours()
        pending = iter(sorted(moved.items()))
        while some := dict(islice(pending, PARTITIONS_AT_ONCE)):
            self._guard()
            self._commit(some)

    def _check_ours(self) -> None:
        """Refuse a group in which somebody else has committed: it would be moved."""
        if self._is_ours:
            return
        answer = self._source.committed_offsets([self._group])[self._group]
        if isinstance(answer, BrokerError):
            raise self._failed(answer)
        for partition, row in answer.items():
            if isinstance(row, BrokerError):
                raise self._failed(row)
            if not row.metadata.startswith(MARK):
                raise GroupsFailed(
                    f"group {self._group} at the source has offsets that no link committed, as for "
                    f"{partition.topic}-{partition.partition}: they are not written over",
                    hint=HINT,
                )
        self._is_ours = True

    def _commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        rows = {
            partition: CommittedOffset(offset, self._metadata)
            for partition, offset in offsets.items()
        }
        answers = self._source.commit_offsets({self._group: rows}).get(self._group, {})
        if isinstance(answers, BrokerError):
            raise self._failed(answers)
        for partition, offset in offsets.items():
            error = answers.get(partition)
            if error is not None:
                raise self._failed(error)
            self._committed[partition] = offset

    def _failed(self, error: BrokerError) -> BrokerError | GroupsFailed:
        """Return the error to raise: nothing here may halt the link."""
        if error.kafka_code == UNKNOWN_MEMBER_ID:
            self._is_ours = False
            return GroupsFailed(
                f"group {self._group} at the source has members: nothing is committed", hint=HINT
            )
        if error.verdict is Verdict.RETRY:
            return error
        return GroupsFailed(f"group {self._group} at the source: {error}", hint=HINT)
