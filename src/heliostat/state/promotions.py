"""Rows of a link's state about mirrors that are given away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from heliostat.handover.promotion import PROMOTED_PREFIX, Promotion
from heliostat.names import TopicName
from heliostat.topics.values import MirrorRecord

Rows = Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class PromotedMirror:
    """A former mirror; its record is None if the link had none of that name."""

    promotion: Promotion
    record: MirrorRecord | None

    @property
    def source(self) -> TopicName:
        """The topic's name at the source."""
        return self.promotion.topic

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        record = None if self.record is None else self.record.to_json()
        return {**self.promotion.to_json(), "record": record}

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        record = value["record"]
        of_row = None if record is None else MirrorRecord.from_json(record)
        return cls(Promotion.from_json(key, value), of_row)


class FormerMirrors(Protocol):
    """What the state has of mirrors, present and former."""

    @property
    def mirrors(self) -> Mapping[TopicName, MirrorRecord]:
        """The link's mirrors, by source topic."""

    @property
    def promoted(self) -> Mapping[TopicName, PromotedMirror]:
        """Former ones."""


class PromotionBook:
    """Moves rows of mirrors to rows of promotions. Thread-safe.

    Parameters
    ----------
    write
        Writes rows to the state topic; None deletes one.
    read
        Reads the state.
    without_mirrors
        Returns the rows that forget mirrors of these source topics.
    """

    def __init__(
        self,
        write: Callable[[Rows], object],
        read: Callable[[], FormerMirrors],
        without_mirrors: Callable[[Collection[TopicName]], Rows],
    ) -> None:
        self._write = write
        self._read = read
        self._without_mirrors = without_mirrors
        self._lock = threading.Lock()
        self._promoted: set[TopicName] = set()

    def put_mirrors(self, rows_of: Callable[[Collection[TopicName]], Rows]) -> None:
        """Write rows of mirrors, without those that this process has given away."""
        with self._lock:
            self._write(rows_of(self._promoted))

    def promote(self, promotions: Iterable[Promotion]) -> dict[TopicName, PromotedMirror]:
        """Record that mirrors are given away; return them as recorded. May be called again."""
        with self._lock:
            stored, given = self._read(), {promotion.topic: promotion for promotion in promotions}
            self._promoted |= given.keys()
            new = [
                PromotedMirror(promotion, stored.mirrors.get(name))
                for name, promotion in given.items()
                if name not in stored.promoted
            ]
            self.restore(new)
            before = {name: mirror for name, mirror in stored.promoted.items() if name in given}
            return before | {mirror.source: mirror for mirror in new}

    def take_back(self, names: Iterable[TopicName]) -> None:
        """Delete the rows of promotions: the topics become mirrors again."""
        with self._lock:
            given = list(names)
            self._promoted -= set(given)
            self._write({f"{PROMOTED_PREFIX}{name}": None for name in given})

    def restore(self, former: Iterable[PromotedMirror]) -> None:
        """Write their rows before the mirrors' go: a topic of neither would be a stranger's."""
        rows = {mirror.promotion.key: mirror.to_json() for mirror in former}
        if rows:
            self._write(rows)
            names = [TopicName(key.removeprefix(PROMOTED_PREFIX)) for key in rows]
            self._write(self._without_mirrors(names))
