"""Source offsets at which mirrors begin, and what retention deletes before their first record.

Between looking up where a partition begins and its first fetch, retention may delete records.
Records that existed at that look and are gone before the first one was copied are no gap: the
mirror begins later. Records written since then are one, as the link was there to copy them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from heliostat.clusters.admin import EARLIEST, LATEST, NO_OFFSET, ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.names import Offset, TopicPartition
from heliostat.records.copier.lane import PartitionCode, PartitionReport


class _Begun(NamedTuple):
    """A partition of which nothing was copied yet."""

    start: Offset
    end: Offset
    """The source's log end when its start was looked up."""


class Beginnings:
    """Looks offsets up, and again for partitions that retention overtook at once.

    Parameters
    ----------
    source
        The source cluster.
    warn
        Logs a warning.
    """

    def __init__(self, source: ClusterAdmin, warn: Callable[[str], None]) -> None:
        self._source = source
        self._warn = warn
        self._begun: dict[TopicPartition, _Begun] = {}

    def look_up(
        self,
        asked: Mapping[TopicPartition, int],
        given: Mapping[TopicPartition, Offset] | None = None,
    ) -> dict[TopicPartition, Offset]:
        """Look up source offsets by time; the log end if no record is that young.

        Partitions that can't be looked up now are left out, with a warning, and so are those whose
        given offset is above the log end.

        Parameters
        ----------
        asked
            Partitions with the time.
        given
            Where some of them begin instead, unless the log starts later.

        Raises
        ------
        ConnectionLost
            The source does not answer at all.
        """
        # The ends first: records below them existed before the link could copy anything.
        ends = self._source.list_offsets(dict.fromkeys(asked, LATEST), confirmed=True)
        found: dict[TopicPartition, Offset] = {}
        for partition, answer in self._source.list_offsets(asked).items():
            end = ends.get(partition, answer)
            if isinstance(answer, BrokerError) or isinstance(end, BrokerError):
                problem = answer if isinstance(answer, BrokerError) else end
                self._warn(f"{partition}: its start offset can't be looked up: {problem}")
                continue
            start = end.offset if answer.offset == NO_OFFSET else answer.offset
            wanted = (given or {}).get(partition, start)
            if wanted > end.offset:
                self._warn(
                    f"{partition}: it is to begin at {wanted}, but the source's log ends at "
                    f"{end.offset}; it is not copied"
                )
                continue
            if wanted < start:
                self._warn(
                    f"{partition}: it was to begin at {wanted}, but the source's log starts at "
                    f"{start}; the mirror begins there"
                )
            start = max(start, wanted)
            found[partition] = start
            self._begun[partition] = _Begun(start, end.offset)
        return found

    def overtaken(self, reports: Iterable[PartitionReport]) -> dict[TopicPartition, Offset]:
        """Return new start offsets of partitions that retention overtook before their first record.

        Raises
        ------
        ConnectionLost
            The source does not answer at all.
        """
        overtaken: list[TopicPartition] = []
        for report in reports:
            begun = self._begun.get(report.source)
            if begun is None:
                continue
            if report.position > begun.start:
                del self._begun[report.source]
            elif report.position == begun.start and report.code == PartitionCode.SOURCE_OVERTOOK:
                overtaken.append(report.source)
        found: dict[TopicPartition, Offset] = {}
        starts = dict.fromkeys(overtaken, EARLIEST)
        answers = self._source.list_offsets(starts, confirmed=True) if starts else {}
        for partition, answer in answers.items():
            begun = self._begun[partition]
            if isinstance(answer, BrokerError) or answer.offset <= begun.start:
                continue
            if answer.offset > begun.end:
                del self._begun[partition]  # newer records are deleted as well: a gap
                continue
            found[partition] = answer.offset
            self._begun[partition] = begun._replace(start=answer.offset)
            self._warn(
                f"{partition}: the source deleted offsets {begun.start} to {answer.offset - 1} "
                f"before the first record was copied; the mirror begins at {answer.offset}"
            )
        return found
