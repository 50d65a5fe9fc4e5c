"""The gap ledger: what was lost, why, when, and who decided to continue; all on the target.

    heliostat.<link>.gaps   compacted: rows, which stay; decisions of operators, deleted once they
                            are carried out; how far was copied, and from which leader epoch; how
                            far tails are rescued (`heliostat.rescue.notes`)

Rows are in the order in which they were written, as the topic has them: the clocks by which they
are dated may be put right in between.

I6  A row is durable before anything is passed: `LaneSet` is given a jump only afterwards. If its
    action is not finished (`is_done`), the next driver finishes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

from heliostat.access import Reachable
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.keyed_topic import Change, KeyedTopic, OwnRows, read_as_row
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.gaps.choices import CAUSE_OF_CODE, Cause, GapChoice
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break

ROW_PREFIX = "gap/"
DECISION_PREFIX = "decision/"
COPIED_PREFIX = "copied/"
TAIL_PREFIX = "tail/"
OLDER_CAUSES = {Cause.SKIPPED: Cause.TAIL_DROPPED}
"""What a row names as the cause to versions up to 0.2.0, which halt at one that they don't know."""
CHANGES_WITHIN_S = 0.05
"""How long a reconciliation waits for decisions written since the last one."""


@dataclass(frozen=True, slots=True)
class GapRow:
    """One gap; offsets `first` to `last` are the source's, both included.

    Parameters
    ----------
    last
        None: not known; below `first`: nothing was lost.
    count
        Records of the source that the mirror will never have; None: not known.
    mirror, mirror_partition
        The target topic and partition; None: the partition has the source partition's number.
    source_id, target_id
        Ids of the topics, empty before Kafka 2.8; a row holds only for topics of these ids.
    decided_by
        `user NAME` or `policy`.
    jump
        Target offset and source offset at which the mirror continues; None: it is recreated.
    is_done
        Whether the target was changed as the choice requires.
    """

    topic: TopicName
    partition: PartitionId
    first: Offset
    last: Offset | None
    count: int | None
    cause: Cause
    at_ms: int
    choice: GapChoice
    decided_by: str
    mirror: TopicName
    source_id: str = ""
    target_id: str = ""
    mirror_partition: PartitionId | None = None
    jump: Break | None = None
    is_done: bool = True
    text: str = ""

    @property
    def source(self) -> TopicPartition:
        """The source's partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """The mirror's partition."""
        number = self.mirror_partition
        return TopicPartition(self.mirror, self.partition if number is None else number)

    @property
    def key(self) -> str:
        """Its key in the ledger."""
        return f"{ROW_PREFIX}{self.topic}/{self.partition}/{self.at_ms}"

    def told(self) -> str:
        """Return what was lost, why and by whose decision, in words."""
        return f"{self.cause.words}; {self.choice.value}, decided by {self.decided_by}: {self.text}"

    def done(self) -> GapRow:
        """Return the same row, its action finished."""
        return replace(self, is_done=True)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, for `--json` output."""
        return {**asdict(self), "cause": self.cause.value, "choice": self.choice.value}

    def to_row(self) -> dict[str, Any]:
        """Return it as JSON, for the ledger."""
        row = self.to_json()
        if self.cause in OLDER_CAUSES:
            row |= {"cause": OLDER_CAUSES[self.cause].value, "exact_cause": self.cause.value}
        return row

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Back from the JSON of the ledger."""
        last, jump = value["last"], value["jump"]
        return cls(
            topic=TopicName(value["topic"]),
            partition=PartitionId(value["partition"]),
            first=Offset(value["first"]),
            last=None if last is None else Offset(last),
            count=value["count"],
            cause=Cause(value.get("exact_cause", value["cause"])),
            at_ms=value["at_ms"],
            choice=GapChoice(value["choice"]),
            decided_by=value["decided_by"],
            mirror=TopicName(value["mirror"]),
            source_id=value["source_id"],
            target_id=value["target_id"],
            mirror_partition=value.get("mirror_partition"),
            jump=None if jump is None else Break(*jump),
            is_done=value["is_done"],
            text=value["text"],
        )


class CopyNote(NamedTuple):
    """All source offsets below `offset` are at the target; the last of them is of `epoch`."""

    offset: int
    epoch: int
    """The source's leader epoch in the header of the last copied batch."""
    end: int = -1
    """The target's log end then, the offset after its last record (-1: not known): while the log
    ends there, nothing was lost, and source offsets from that record to `offset` are holes."""

    def is_older(self, other: CopyNote) -> bool:
        """Return whether another note of the same partition tells more."""
        return self.offset < other.offset or self.is_rewritten(other)

    def is_rewritten(self, other: CopyNote) -> bool:
        """Return whether the source's log was cut before `offset` and written again meanwhile.

        The source has lost holes only: a lane reads nothing of a later leader where an earlier
        one's log ends before the mirror's last record.
        """
        return other.offset <= self.offset and other.epoch > self.epoch >= 0


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """What was copied of one source topic; holds only for the topic with this `source_id`."""

    source_id: str
    partitions: dict[PartitionId, CopyNote]

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        rows = {str(number): list(row) for number, row in sorted(self.partitions.items())}
        return {"source_id": self.source_id, "partitions": rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Back from JSON."""
        rows = value["partitions"].items()
        return cls(value["source_id"], {PartitionId(int(n)): CopyNote(*row) for n, row in rows})


def copied_of(copied: CopiedTopic | None, source_id: str) -> Mapping[PartitionId, CopyNote]:
    """Return what was copied of the source topic of this id; nothing if it was recreated."""
    return {} if copied is None or copied.source_id != source_id else copied.partitions


@dataclass(frozen=True, slots=True)
class GapDecision:
    """What an operator decided for a partition, or for a whole refused topic.

    Parameters
    ----------
    partition
        Number of the partition; None: the topic as a whole.
    code
        The code of the stop; a decision holds for that trouble only.
    source_id
        Id of the source's topic as the mirror knew it, and only for that one; empty: not known.
    """

    topic: TopicName
    partition: PartitionId | None
    code: str
    choice: GapChoice
    decided_by: str
    at_ms: int
    source_id: str = ""

    @property
    def key(self) -> str:
        """Its key in the ledger: one for each partition, so the newest counts."""
        which = "*" if self.partition is None else str(self.partition)
        return f"{DECISION_PREFIX}{self.topic}/{which}"

    def is_about(self, code: str) -> bool:
        """Return whether it holds for that trouble.

        One cause may have several codes: a round may meet it while it copies, or at its start.
        """
        return CAUSE_OF_CODE.get(self.code, self.code) == CAUSE_OF_CODE.get(code, code)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "choice": self.choice.value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Back from JSON."""
        partition = value["partition"]
        return cls(
            topic=TopicName(value["topic"]),
            partition=None if partition is None else PartitionId(partition),
            code=value["code"],
            choice=GapChoice(value["choice"]),
            decided_by=value["decided_by"],
            at_ms=value["at_ms"],
            source_id=value.get("source_id", ""),
        )


def gaps_topic(link: LinkName) -> str:
    """Return the name of the link's ledger topic."""
    return f"{STATE_TOPIC_PREFIX}{link}.gaps"


class GapLedger:
    """Rows and decisions; reads from one thread only. Every write is durable when it returns.

    Every method raises `ConnectionLost` when the target does not answer and `BrokerError` when it
    refuses.
    """

    def __init__(
        self, link: LinkName, target: Reachable, foreign: ForeignRecords | None = None
    ) -> None:
        own = OwnRows(
            (ROW_PREFIX, DECISION_PREFIX, COPIED_PREFIX, TAIL_PREFIX), foreign or ForeignRecords()
        )
        self._topic = KeyedTopic(target, gaps_topic(link), own=own)
        self._reader = self._topic.reader()
        self.rows: dict[str, GapRow] = {}
        """By key, the oldest first."""
        self.decisions: dict[str, GapDecision] = {}
        self.copied: dict[TopicName, CopiedTopic] = {}

    @property
    def topic(self) -> TopicName:
        """Its topic."""
        return self._topic.topic

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic if it is missing."""
        self._topic.ensure(replication_factor)

    def exists_now(self) -> None:
        """Note that the topic exists."""
        self._topic.exists_now()

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._topic.close()

    def read(self) -> None:
        """Read all of it; a topic that does not exist is empty."""
        self.rows, self.decisions, self.copied = {}, {}, {}
        for key, value in self._reader.read_all().items():
            self._take(key, value)

    def consume(self) -> None:
        """Take what was written since the last look."""
        for change in self._reader.tail(CHANGES_WITHIN_S):
            self._consume(change)

    def _consume(self, change: Change) -> None:
        if change.value is None:
            self.rows.pop(change.key, None)
            self.decisions.pop(change.key, None)
        else:
            self._take(change.key, change.value)

    def _take(self, key: str, value: Mapping[str, Any]) -> None:
        with read_as_row(self._topic.topic, key):
            if key.startswith(ROW_PREFIX):
                self.rows[key] = GapRow.from_json(value)
            elif key.startswith(DECISION_PREFIX):
                self.decisions[key] = GapDecision.from_json(value)
            elif key.startswith(COPIED_PREFIX):
                topic = TopicName(key.removeprefix(COPIED_PREFIX))
                self.copied[topic] = CopiedTopic.from_json(value)

    def record(self, rows: Iterable[GapRow]) -> None:
        """Write rows; only when this returns may anything be passed (I6)."""
        found: dict[str, GapRow] = {}
        for row in rows:
            free = self._with_free_key(row, found)
            found[free.key] = free
        if found:
            self._topic.write_many({key: row.to_row() for key, row in found.items()})
            self.rows.update(found)

    def _with_free_key(self, row: GapRow, new: Mapping[str, GapRow]) -> GapRow:
        """Return the row, dated later if another one has its time: a clock may have gone back."""
        while (known := new.get(row.key, self.rows.get(row.key))) is not None:
            if replace(known, is_done=row.is_done) == row:
                break
            row = replace(row, at_ms=row.at_ms + 1)
        return row

    def decide(self, decision: GapDecision) -> None:
        """Write what an operator decided."""
        self._topic.write(decision.key, decision.to_json())
        self.decisions[decision.key] = decision

    def forget(self, decision: GapDecision) -> None:
        """Delete a decision that was carried out, or no longer holds."""
        self._topic.write(decision.key, None)
        self.decisions.pop(decision.key, None)

    def put_copied(self, topics: Mapping[TopicName, CopiedTopic]) -> None:
        """Write how far topics were copied."""
        if topics:
            self._topic.write_many(
                {f"{COPIED_PREFIX}{name}": topic.to_json() for name, topic in topics.items()}
            )
            self.copied.update(topics)

    def restore(self, replication_factor: int | None = None) -> None:
        """Recreate the topic, which somebody deleted, with all that is known."""
        self.close()
        self.ensure(replication_factor)
        self._topic.write_many(
            {
                **{key: row.to_row() for key, row in self.rows.items()},
                **{key: decision.to_json() for key, decision in self.decisions.items()},
                **{f"{COPIED_PREFIX}{n}": topic.to_json() for n, topic in self.copied.items()},
            }
        )

    def decision_for(
        self, topic: TopicName, partition: PartitionId | None, code: str
    ) -> GapDecision | None:
        """Return what was decided for a partition, or else for its topic, about that trouble."""
        for which in (str(partition), "*") if partition is not None else ("*",):
            found = self.decisions.get(f"{DECISION_PREFIX}{topic}/{which}")
            if found is not None and found.is_about(code):
                return found
        return None

    def jumps(self) -> dict[TopicPartition, GapRow]:
        """Return, by source partition, the last row written that moves its mirror's position."""
        found: dict[TopicPartition, GapRow] = {}
        for row in self.rows.values():
            if row.jump is not None:
                found[row.source] = row
        return found


def read_copied(link: LinkName, target: Reachable) -> Mapping[TopicName, CopiedTopic]:
    """Read how far a link's topics were copied, as it has noted.

    Raises
    ------
    ConnectionLost, BrokerError, ProtocolError
        The ledger can't be read.
    """
    with closing(GapLedger(link, target)) as ledger:
        ledger.read()
    return ledger.copied
