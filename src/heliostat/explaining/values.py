"""What is asked about a link, what is known of it, and the explanation."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from typing_extensions import override

from heliostat.clusters.plain_records import LogBounds
from heliostat.config import LinkConfig
from heliostat.gaps.choices import Facts
from heliostat.gaps.ledger import GapRow
from heliostat.groups.plan import GroupDecision
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.values import Answer
from heliostat.status.history_records import PastEvent
from heliostat.status.values import LinkStatus, PartitionStatus
from heliostat.topics.topic_plan import RefusedTopic

_GROUP = re.compile(r"group\s+(\S.*)")
_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]{1,9})(?:@(?P<offset>[0-9]{1,18}))?")


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be explained; nothing: the link itself."""

    topic: TopicName | None = None
    partition: PartitionId | None = None
    offset: Offset | None = None
    group: GroupId | None = None

    @override
    def __str__(self) -> str:
        if self.group is not None:
            return f"group {self.group}"
        number = "" if self.partition is None else f"-{self.partition}"
        return f"{self.topic or ''}{number}{'' if self.offset is None else f'@{self.offset}'}"

    @property
    def place(self) -> TopicPartition | None:
        """The partition; None if none is named."""
        if self.topic is None or self.partition is None:
            return None
        return TopicPartition(self.topic, self.partition)


def read_question(text: str, topics: Container[str] = ()) -> Question:
    """Read `TOPIC`, `TOPIC-P`, `TOPIC-P@OFFSET` or `group G`; empty: the link.

    Parameters
    ----------
    topics
        Names that are topics: `ESS-0` is one, or partition 0 of `ESS`.
    """
    words = text.strip()
    if not words:
        return Question()
    if group := _GROUP.fullmatch(words):
        return Question(group=GroupId(group[1].strip()))
    parts = _PARTITION.fullmatch(words)
    if parts is None or words in topics:
        return Question(TopicName(words))
    number, offset = PartitionId(int(parts["partition"])), parts["offset"]
    return Question(
        TopicName(parts["topic"]), number, None if offset is None else Offset(int(offset))
    )


class Kind(StrEnum):
    """What an explanation comes down to."""

    COPIED = "copied"
    """All that the source has, or the record asked for, is at the target."""
    LATE = "late"
    """It is copied, and not all of it is at the target yet."""
    WAITING = "waiting"
    """It is not copied at the moment, and goes on by itself."""
    STOPPED = "stopped"
    """It is not copied until a person does something."""
    PAUSED = "paused"
    """It is not copied as long as an operator wishes so."""
    NOT_MIRRORED = "not_mirrored"
    """The link doesn't copy it."""
    LOST = "lost"
    """The record will never be at the target; the ledger has its gap."""
    NO_RECORD = "no_record"
    """No record of that offset is to be found at either side."""
    UNKNOWN = "unknown"
    """It can't be known now."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next; `command` is empty where there is none."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceShown:
    """What can be decided, what it would do, and the command.

    Parameters
    ----------
    does
        Its effect by both clusters as they are now; empty: it could not be read.
    why_not
        Why it is not possible; empty: it is, as far as known.
    """

    choice: str
    does: str
    why_not: str
    command: str


@dataclass(frozen=True, slots=True)
class Landing:
    """Where a record is at the target, and when it came there: between two times.

    Parameters
    ----------
    from_ms, to_ms
        In ms since the epoch; no `from_ms`: some time before `to_ms`.
    """

    topic: str
    partition: int
    offset: int
    from_ms: int | None
    to_ms: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer in sentences, and what to do.

    Parameters
    ----------
    asked
        What was asked; empty: the link.
    answer
        The answer in a sentence.
    reasons
        More sentences, the most important first.
    code
        Why it is so, as a code; empty: there is none.
    since_ms
        Since when, in ms since the epoch; None: not known.
    hint
        What a person can do about the code; empty: nothing is wrong.
    as_of_ms
        The moment of what is known, in ms since the epoch.
    age_s
        How old that was when this was asked; None: not known.
    """

    link: str
    asked: str
    kind: Kind
    answer: str
    reasons: tuple[str, ...] = ()
    code: str = ""
    since_ms: int | None = None
    hint: str = ""
    next_steps: tuple[Step, ...] = ()
    choices: tuple[ChoiceShown, ...] = ()
    landing: Landing | None = None
    as_of_ms: int = 0
    age_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class GroupKnown:
    """A group as both sides show it.

    Parameters
    ----------
    is_there
        Whether the source has it.
    is_selected
        Whether the link syncs it.
    why
        Why it is, or is not, selected.
    """

    is_there: bool
    is_selected: bool = False
    why: str = ""
    is_synced: bool = True
    """Whether the link publishes offsets at all."""
    decided: GroupDecision | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of what is asked; what was not read, or not needed, is None or empty.

    Parameters
    ----------
    partitions
        Those of the topic that is asked about.
    source_topics
        All topics of the source; None: it was not asked, or did not answer.
    refusal, left_out
        What a new plan says of the topic.
    stops
        Stopped partitions as both clusters show them now.
    translated
        Where the record is by the offset map.
    landed_to
        Next source offset that lands, by the target's log end.
    source_bounds
        Where the source's log begins and ends.
    gaps
        Rows of the ledger of the partition.
    followed
        Deletions of the source that the topic's mirror has followed, the oldest first.
    copied_s
        Between which two times (s since the epoch) the record was copied, by the history.
    level_in_s
        Seconds until the link is level, by its lag a little earlier.
    unread
        What could not be read, and why.
    """

    link: LinkConfig
    status: LinkStatus
    now_ms: int
    partitions: tuple[PartitionStatus, ...] = ()
    source_topics: frozenset[str] | None = None
    refusal: RefusedTopic | None = None
    left_out: str = ""
    stops: tuple[Facts, ...] = ()
    translated: Answer | None = None
    landed_to: Offset | None = None
    source_bounds: LogBounds | None = None
    gaps: tuple[GapRow, ...] = ()
    followed: tuple[PastEvent, ...] = ()
    copied_s: tuple[float, float] | None = None
    level_in_s: float | None = None
    group: GroupKnown | None = None
    unread: tuple[str, ...] = ()
