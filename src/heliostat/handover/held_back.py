"""An open transaction at a source, and what it holds back; a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class HeldBack:
    """An open transaction at the source, which holds back the records after it."""

    source: str
    """Name of the topic at the source."""
    partition: int
    """Number of the partition."""
    first: int
    """Source offset of its first record."""
    records: int
    """Records held back in this partition: its own, and later ones of others."""
    producer_id: int
    """Its producer."""
    transactional_id: str
    """Empty if we have no permission to see it, or brokers can't list it (before Kafka 3.0)."""
    age_s: float
    """How long it has been open."""

    @property
    def key(self) -> str:
        """Unique key of this transaction in this partition."""
        return f"{self.source}-{self.partition}/{self.producer_id}/{self.first}"

    def text(self) -> str:
        """Return a line about it."""
        return (
            f"{self.source}-{self.partition}: a transaction of {self._producer} "
            f"is open since offset {self.first}, {self.age_s:.0f} s, and holds back "
            f"{self.records} records"
        )

    def ended_text(self) -> str:
        """Return a line about its end."""
        return (
            f"{self.source}-{self.partition}: the transaction of {self._producer} that was open "
            f"since offset {self.first} has ended"
        )

    @property
    def _producer(self) -> str:
        name = f" ({self.transactional_id})" if self.transactional_id else ""
        return f"producer {self.producer_id}{name}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, and as a part of a row."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row's part; raises `LookupError`, `TypeError` or `ValueError`."""
        return cls(
            str(value["source"]),
            int(value["partition"]),
            int(value["first"]),
            int(value["records"]),
            int(value["producer_id"]),
            str(value["transactional_id"]),
            float(value["age_s"]),
        )
