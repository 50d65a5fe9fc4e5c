"""What refused appends and corrupt batches mean for a partition; pure."""

from __future__ import annotations

from heliostat.clusters import kafka_codes
from heliostat.errors import Append, Verdict, kafka_error
from heliostat.records.batches.converted import ConvertedBatch, RefusedRecord, Stop, StopReason
from heliostat.records.copier.begin_checks import Stopped
from heliostat.records.copier.lane import PartitionState
from heliostat.records.copier.mirror_map import MirrorMap

REFUSALS_MAX = 2
"""So often refused at one log end for its sequence: what the log holds there is not ours."""
CORRUPT_TRIES_MAX = 3
"""Fetches of a batch that the target, or we, find corrupt: it is stored so at the source."""


class RefusedAppends:
    """Counts refusals of one partition's appends, and decides between retry and stop (I1, I7).

    Parameters
    ----------
    offset_map
        The partition's: where its batches are to land.
    """

    def __init__(self, offset_map: MirrorMap) -> None:
        self._map = offset_map
        self._sequence = self._corrupt = (-1, 0)

    def acknowledged(self) -> None:
        """An append was accepted: refusals for the sequence are counted from zero again."""
        self._sequence = (-1, 0)

    def is_foreign_end(self, end: int) -> bool:
        """Whether appends at this target offset were refused so often that it is not our log."""
        return self._sequence == (end, REFUSALS_MAX)

    def may_pass(self, stop: Stop) -> bool:
        """Whether to fetch a damaged batch again: the damage may have happened in transit."""
        if stop.reason is not StopReason.CORRUPT:
            return False
        self._corrupt = _counted(self._corrupt, stop.offset)
        return self._corrupt[1] < CORRUPT_TRIES_MAX

    def verdict(
        self, batch: ConvertedBatch, error: int, message: str, number: int
    ) -> Stopped | RefusedRecord | None:
        """Decide on Kafka's `error` for an append; None: the append is retried.

        Parameters
        ----------
        batch, error, message
            What was refused, and the broker's answer.
        number
            Position within the batch of the record that the broker named (KIP-467), -1: none.
        """
        kind = kafka_error(error)
        if batch.fills:
            is_final = kind.verdict is Verdict.HALT
            return Stopped(PartitionState.BLOCKED, kind.name, message) if is_final else None
        if error == kafka_codes.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._sequence = _counted(self._sequence, self._map.lands_at(batch))
        elif error == kafka_codes.INVALID_PRODUCER_EPOCH:
            return Stopped(
                PartitionState.DIVERGED,
                kind.name,
                "the link's producer id was used with a newer epoch by somebody else",
            )
        elif error == kafka_codes.CORRUPT_MESSAGE:
            return self._why_corrupt(batch)
        elif kind.verdict is Verdict.HALT and kind.append is Append.NOT_APPENDED:
            at = batch.source_of(max(0, number))
            text = f"the target refuses what stands at source offset {at}: {message or kind.name}"
            return RefusedRecord(at, f"{text}. {kind.hint}".strip())
        return None

    def _why_corrupt(self, batch: ConvertedBatch) -> Stopped | None:
        self._corrupt = _counted(self._corrupt, batch.base_offset)
        if self._corrupt[1] < CORRUPT_TRIES_MAX:
            return None
        return Stopped(
            PartitionState.BLOCKED,
            StopReason.CORRUPT.name,  # the same code, whether the target or we notice it first
            f"the batch at source offset {batch.source_offset} is stored corrupt at the "
            "source: its checksum does not match its bytes",
        )


def _counted(seen: tuple[int, int], offset: int) -> tuple[int, int]:
    """Count how often in a row something happened at one offset: (offset, times)."""
    return (offset, seen[1] + 1) if seen[0] == offset else (offset, 1)
