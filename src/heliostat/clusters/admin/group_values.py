"""What clusters answer about consumer groups, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliostat.errors import BrokerError
from heliostat.names import BrokerId, GroupId, LeaderEpoch, Offset

NO_COMMIT = Offset(-1)
"""OffsetFetch: the group has committed nothing for the partition."""
NO_EPOCH = LeaderEpoch(-1)
"""Epochs of one cluster mean nothing in another: a wrong one sends consumers round in circles."""
WITHOUT_MEMBERS = frozenset({"empty", "dead"})
"""States of a group that nobody is in (`ClassicGroupState`, `ConsumerGroupState`)."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One group as its coordinator lists it.

    Parameters
    ----------
    state
        Such as `Stable` or `Empty`; empty where the broker tells none (before 2.6, KIP-518).
    kind
        `classic`, `consumer` (KIP-848), `share`, `streams`; empty before 3.8.
    protocol
        What the members agreed on: `consumer`, `connect`; empty for a group that only commits.
    """

    group: GroupId
    coordinator: BrokerId
    state: str
    kind: str
    protocol: str

    @property
    def has_members(self) -> bool:
        """Whether somebody is, or may be, in it."""
        return self.state.lower() not in WITHOUT_MEMBERS


@dataclass(frozen=True, slots=True)
class GroupListing:
    """All groups that we may see; brokers in `failed` could not tell theirs."""

    groups: Mapping[GroupId, ListedGroup]
    failed: Mapping[BrokerId, BrokerError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group has committed for a partition: the next offset to read, and its own words."""

    offset: Offset
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """Somebody who is in a group."""

    client_id: str
    host: str
