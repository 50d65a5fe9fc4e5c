"""Client quotas in Kafka's terms (KIP-546): values only, no requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Kinds of entity parts (`ClientQuotaEntity`)."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom a quota is for: a user, a client id, both, or an address; None is the default of a kind.

    Parameters
    ----------
    parts
        Kind and name of each part, sorted by kind.
    """

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, names: Mapping[str, str | None]) -> QuotaEntity:
        """Make one of names by kind."""
        return cls(tuple(sorted(names.items())))

    @override
    def __str__(self) -> str:
        """Text for people: `user a, client-id (default)`."""
        return ", ".join(
            f"{kind} {'(default)' if name is None else name}" for kind, name in self.parts
        )

    @property
    def sort_key(self) -> tuple[tuple[str, bool, str], ...]:
        """For a stable order."""
        return tuple((kind, name is not None, name or "") for kind, name in self.parts)


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""Limits by key, such as `producer_byte_rate`, of each entity."""
