"""Answers of clusters about consumer groups, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliostat.errors import BrokerError
from heliostat.names import BrokerId, GroupId, LeaderEpoch, Offset, TopicName

NO_COMMIT = Offset(-1)
"""OffsetFetch: the group has committed nothing for the partition."""
NO_EPOCH = LeaderEpoch(-1)
"""Epochs of one cluster mean nothing in another: with a wrong one consumers retry in a loop."""
CLASSIC_KIND, CONSUMER_KIND, STREAMS_KIND = "classic", "consumer", "streams"
"""Kinds of groups that commit offsets: the second of KIP-848, the third of KIP-1071."""
SHARE_KIND = "share"
"""KIP-932: what was acknowledged is in `__share_group_state`, which no request copies."""
WITHOUT_MEMBERS = frozenset({"empty", "dead"})
"""States of a group without members (`ClassicGroupState`, and as well of the newer kinds)."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One group as its coordinator lists it.

    Parameters
    ----------
    state
        Such as `Stable` or `Empty`; empty if the broker returns none (before 2.6, KIP-518).
    kind
        `classic`, `consumer` (KIP-848), `share`, `streams` (KIP-1071); empty before 3.8.
    protocol
        What the members agreed on: `consumer`, `connect`; of the newer kinds `consumer`, `share`,
        `streams`; empty for a group that only commits.
    """

    group: GroupId
    coordinator: BrokerId
    state: str
    kind: str
    protocol: str

    @property
    def has_members(self) -> bool:
        """Whether the group has, or may have, members."""
        return self.state.lower() not in WITHOUT_MEMBERS


@dataclass(frozen=True, slots=True)
class GroupListing:
    """All groups that we may see, without those of the brokers in `failed`."""

    groups: Mapping[GroupId, ListedGroup]
    failed: Mapping[BrokerId, BrokerError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group has committed for a partition: the next offset to read, and its own text."""

    offset: Offset
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group.

    Parameters
    ----------
    topics
        That it reads or asks for; empty where its broker does not show them.
    """

    client_id: str
    host: str
    topics: frozenset[TopicName] = frozenset()
