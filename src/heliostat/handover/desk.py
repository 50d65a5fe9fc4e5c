"""What the steps of a switch ask and do, and what they are answered; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from heliostat.names import Offset, TopicName, TopicPartition

TRANSACTIONS_UNKNOWN, GROUPS_APART = "transactions_unknown", "groups_apart"
"""Codes of problems whose acceptance concerns later steps, too."""


class Compared(StrEnum):
    """How much of the contents is compared before a promotion."""

    NONE = "none"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class SwitchOptions:
    """How a switch is to be done; times are the longest ones to wait.

    Parameters
    ----------
    lag_threshold
        Records that may be missing when the source's producers are fenced.
    still_s
        How long the source's ends must stand still.
    producers_s
        How long the source's producers may take to end, where no rule keeps them out.
    transactions_s
        How long open transactions may take to end.
    records_s
        How long the last records may take.
    groups_s
        How long groups may go on reading at the source.
    watch_s
        How long the source is watched afterwards.
    verify
        How much is compared.
    accepted
        Codes of preflight's problems that are accepted.
    """

    lag_threshold: int = 1_000
    lag_s: float = 600.0
    still_s: float = 10.0
    producers_s: float = 60.0
    transactions_s: float = 120.0
    records_s: float = 300.0
    groups_s: float = 300.0
    watch_s: float = 10.0
    verify: Compared = Compared.NONE
    accepted: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return its part of a row."""
        return {
            "lag_threshold": self.lag_threshold,
            "lag_s": self.lag_s,
            "still_s": self.still_s,
            "producers_s": self.producers_s,
            "transactions_s": self.transactions_s,
            "records_s": self.records_s,
            "groups_s": self.groups_s,
            "watch_s": self.watch_s,
            "verify": self.verify.value,
            "accepted": list(self.accepted),
        }


class Weight(StrEnum):
    """What a problem of preflight means for the run."""

    STOPS = "stops"
    """It must be solved before."""
    ASKS = "asks"
    """The run begins if its code is accepted."""
    TOLD = "told"
    """The run waits for it, or does without."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that preflight has seen."""

    code: str
    text: str
    hint: str
    weight: Weight

    def to_json(self) -> dict[str, str]:
        """Return it for reports."""
        return {
            "code": self.code,
            "text": self.text,
            "hint": self.hint,
            "weight": self.weight.value,
        }


@dataclass(frozen=True, slots=True)
class Copied:
    """How far partitions are copied, by the owner's reports and by both logs.

    Parameters
    ----------
    ends
        Log ends of the source, beyond the last stable offset.
    missing
        Offsets between what is copied and those ends, where there are some.
    unknown
        Partitions of which it is not known, and why.
    """

    ends: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    missing: Mapping[TopicPartition, int] = field(default_factory=dict)
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """How many offsets are missing in all, of those that are known."""
        return sum(self.missing.values())

    def lines(self) -> list[str]:
        """Return a line for each partition that is not copied to its end."""
        return [
            *(f"{partition}: {count} records are missing" for partition, count in self._sorted()),
            *(f"{partition}: {why}" for partition, why in sorted(self.unknown.items())),
        ]

    def _sorted(self) -> list[tuple[TopicPartition, int]]:
        return sorted(self.missing.items(), key=lambda item: (-item[1], item[0]))


class Stillness(Protocol):
    """What was seen of the source's ends over a while."""

    @property
    def is_still(self) -> bool:
        """Whether all are known to have stood still."""

    @property
    def ends(self) -> Mapping[TopicPartition, Offset]:
        """The last ends."""

    def lines(self) -> list[str]:
        """Return a line for each that did not, with who wrote there."""


@dataclass(frozen=True, slots=True)
class FenceAnswer:
    """What became of a fence.

    Parameters
    ----------
    is_whole
        Whether it stands; without rules this is for the operator, and shown by ends that stand.
    by_rules
        Whether rules keep producers out, all but super users.
    is_closed
        Whether they keep all out: there are no super users.
    """

    is_whole: bool
    by_rules: bool
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    is_closed: bool = False

    @property
    def holds(self) -> bool:
        """Whether it stands, and by rules."""
        return self.is_whole and self.by_rules


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """Transactions that are open in these topics.

    Parameters
    ----------
    lines
        One for each.
    unknown
        A line for each partition of which its brokers don't tell.
    """

    lines: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def awaited(self, accepted: Collection[str]) -> list[str]:
        """Return what is waited for: what nobody tells as well, unless that is accepted."""
        return [*self.lines, *(() if TRANSACTIONS_UNKNOWN in accepted else self.unknown)]


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """Groups that read these topics.

    Parameters
    ----------
    is_synced
        Whether the link syncs groups.
    reading
        Those of the link that have members at the source, with what is known of these.
    apart
        Others that do: the link does not sync them.
    behind
        A line for each whose offsets at the target are not the source's.
    level
        Number of those whose offsets are published.
    rereads
        How many records behind its place each has read already (merged topics), where there are
        some.
    """

    is_synced: bool
    reading: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    level: int = 0
    apart: tuple[str, ...] = ()
    rereads: Mapping[str, int] = field(default_factory=dict)

    def reread_lines(self) -> list[str]:
        """Return a line for each that reads records again, those with most of them first."""
        most = sorted(self.rereads.items(), key=lambda item: (-item[1], item[0]))
        return [f"{name} {count:,}" for name, count in most]

    def awaited(self, accepted: Collection[str]) -> list[str]:
        """Return which are waited for: those that are not synced as well, unless accepted."""
        return [*self.reading, *(() if GROUPS_APART in accepted else self.apart)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a step of one request came to."""

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    differences: tuple[str, ...] = ()
    """Of a comparison: what differs, or could not be compared."""


class SwitchDesk(Protocol):
    """What a switch asks of both clusters, and does there.

    Every method may raise a `HeliostatError`, and may be called again after that, by another
    process too.
    """

    def wall_ms(self) -> int:
        """Return the wall clock, for people."""

    def monotonic_s(self) -> float:
        """Return a clock that never jumps."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def problems(self) -> Sequence[Problem]:
        """Return all that is in the way, at once."""

    def copied(self) -> Copied:
        """Return how far the topics are copied."""

    def open_transactions(self) -> OpenTransactions:
        """Return the transactions that are open in these topics."""

    def rest(self) -> Answer:
        """Let the link back rest until the fence is lifted: it would look like a producer."""

    def put_up_fence(self) -> FenceAnswer:
        """Keep the source's producers out."""

    def lift_fence(self) -> str:
        """Let them in again, and return what that came to; without a fence nothing happens."""

    def watch(self, seconds: float, *, until_first: bool) -> Stillness:
        """Watch the source's ends for so long."""

    def groups(self) -> GroupsSeen:
        """Return where groups are."""

    def offsets(self, starts: Mapping[TopicPartition, Offset]) -> int:
        """Return how many offsets of the source are to be compared, of partitions from there on."""

    def compare(
        self, options: SwitchOptions, starts: Mapping[TopicPartition, Offset], *, is_complete: bool
    ) -> Answer:
        """Compare contents of partitions from there on; complete: what is not there is missing."""

    def promote(self) -> Answer:
        """Give the mirrors away."""

    def open_target(self) -> Answer:
        """Open the target for producers: rights and registry."""

    def written_after(
        self, ends: Mapping[TopicName, Sequence[int]], seconds: float
    ) -> Sequence[str]:
        """Return a line for each partition of the source that others have written after `ends`."""
