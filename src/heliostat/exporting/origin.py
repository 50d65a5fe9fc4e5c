"""Where a record that was appended elsewhere stood at first: one header says it.

    heliostat.origin: <cluster id>/<topic>/<partition>/<offset>

Records are recognized by it: who goes on after a crash finds those that it has appended before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from typing_extensions import override

from heliostat.names import ClusterId, Offset, PartitionId, TopicName, TopicPartition

HEADER = "heliostat.origin"
_PARTS = 4


class Origin(NamedTuple):
    """The place of a record at the cluster where it was written first."""

    cluster: ClusterId
    partition: TopicPartition
    offset: Offset

    @override
    def __str__(self) -> str:
        place = self.partition
        return f"{self.cluster}/{place.topic}/{place.partition}/{self.offset}"

    @property
    def header(self) -> tuple[str, bytes]:
        """The header that a record gets."""
        return HEADER, str(self).encode()

    @classmethod
    def of(cls, headers: Iterable[tuple[str, bytes | None]]) -> Self | None:
        """Return what the last such header says; None: there is none, or it is not ours.

        A record that was written elsewhere twice has two: that of the first time comes first.
        """
        origin = None
        for name, content in headers:
            if name == HEADER:
                origin = cls._parsed(content or b"")
        return origin

    @classmethod
    def _parsed(cls, content: bytes) -> Self | None:
        parts = content.decode(errors="replace").split("/")
        if len(parts) != _PARTS or not (_is_number(parts[2]) and _is_number(parts[3])):
            return None
        place = TopicPartition(TopicName(parts[1]), PartitionId(int(parts[2])))
        return cls(ClusterId(parts[0]), place, Offset(int(parts[3])))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
