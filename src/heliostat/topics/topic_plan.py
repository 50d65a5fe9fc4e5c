"""The plan for topics as a value: can be printed, compared and serialised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from heliostat.changes import Change
from heliostat.names import Offset, PartitionId, TopicId, TopicName, TopicPartition
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.deletion_rule import DeletionRule
from heliostat.topics.drift import Drift, drift_lines
from heliostat.topics.values import MirrorRecord

NAMED_MAX = 10
"""How many topics with followed deletions a line names."""


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A target topic to create."""

    source: TopicName
    target: TopicName
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """A target topic to raise to the source's number of partitions."""

    source: TopicName
    target: TopicName
    has: int
    wants: int


@dataclass(frozen=True, slots=True)
class SetConfigs:
    """Settings to set, or to unset (None), at an existing target topic, with old values and why."""

    source: TopicName
    target: TopicName
    changes: Mapping[str, str | None]
    was: Mapping[str, str | None]
    why: Mapping[str, str] = field(default_factory=dict)


class RefusalCode(StrEnum):
    """Why a topic is not mirrored."""

    INTERNAL = "internal"
    """An internal topic of the source's brokers."""
    NAME = "name"
    """Kafka does not allow the name that its mirror would have."""
    NAME_COLLISION = "name_collision"
    """Two mirrors, or a mirror and a topic of the target, would have names that Kafka cannot tell
    apart."""
    TWO_LINKS = "two_links"
    """Another link writes into the same target topic."""
    MAYBE_TWO_LINKS = "maybe_two_links"
    """It is not known now whether another link writes into the same target topic."""
    CYCLE = "cycle"
    """Its records come from the target, or would return to the source: links form a cycle."""
    SOURCE_CHANGED = "source_changed"
    """Its mirror was copied from another cluster."""
    RENAMED = "renamed"
    """Its mirror has another name than the configured naming gives now."""
    FAN_IN_CHANGED = "fan_in_changed"
    """Its mirror has other partitions than `topics.fan_in` gives now."""
    SOURCE_RECREATED = "source_recreated"
    """It was deleted and created again at the source."""
    TARGET_RECREATED = "target_recreated"
    """Its mirror was deleted and created again, and written to since."""
    TARGET_NOT_OURS = "target_not_ours"
    """A topic with its mirror's name exists and has been written to, and the state has no row for
    it: it is somebody else's, or the row was lost."""
    TARGET_HAS_MORE_PARTITIONS = "target_has_more_partitions"
    """The topic with its mirror's name has more partitions than the source."""
    MERGE = "merge"
    """It can't be merged with the target's topic, or its mirror was begun the other way
    (`topics.naming`)."""
    UNREADABLE = "unreadable"
    """One of the clusters does not return what must be known about it."""
    CONFIGS = "configs"
    """Settings of the target topic would reject its records or delete them."""
    REPLICATION_FACTOR = "replication_factor"
    """The target has fewer brokers than the mirror's replication factor."""
    START = "start"
    """The group or the file of `topics.start` is not known, or gives an offset above the source's
    log end."""


@dataclass(frozen=True, slots=True)
class RefusedTopic:
    """Why a topic is not mirrored, and what to do; `code` is for machines."""

    code: str
    reason: str
    hint: str

    def text(self) -> str:
        """Return reason and hint in one line."""
        return f"{self.reason} (hint: {self.hint})" if self.hint else self.reason


@dataclass(frozen=True, slots=True)
class Mirror:
    """A topic that can be copied, now or once the plan is applied.

    Parameters
    ----------
    source_id, target_id
        None if brokers have no topic ids, or before the target topic is created.
    partitions
        Number of partitions at the source.
    initial_partitions, start
        The start policy (`earliest`, `latest` or ms since the epoch) holds for partitions below
        `initial_partitions`; later ones are copied from their beginning.
    given
        Where partitions begin instead, by a group's or a file's offsets.
    target_max_message_bytes
        The largest batch in bytes that the target accepts, once the plan is applied.
    is_compacted
        Whether the source compacts, so that holes between offsets are expected.
    is_log_append_time
        Whether the source's brokers stamp records: its consumers don't see the producers'
        timestamps.
    slot
        Which partitions of the target topic are the mirror's.
    """

    source: TopicName
    target: TopicName
    source_id: TopicId | None
    target_id: TopicId | None
    partitions: int
    initial_partitions: int
    start: str
    target_max_message_bytes: int
    is_compacted: bool
    is_log_append_time: bool
    slot: Slot = WHOLE_TOPIC
    given: Mapping[PartitionId, Offset] = field(default_factory=dict)

    def mirror_of(self, partition: PartitionId) -> TopicPartition:
        """Target partition of a source partition."""
        return TopicPartition(self.target, self.slot.target_partition(partition))

    @property
    def target_partitions(self) -> int:
        """The least number of partitions of the target topic."""
        return self.slot.target_partitions(self.partitions)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What to do at the target, what is refused, and what can be copied.

    `refuse` is by source topic. `remember` are new or changed records of mirrors; they must be
    durable before the first record is copied. `left_out` are source topics that come from the
    target through other links, each with its origin; `let_go` claimed mirrors that are left to
    another link; `starts` where new mirrors begin by a group or a file; `gone` source records that
    can't be copied any more, a line each; `pipelines` why pipelines are refused, so that their
    topics stop, a line each; `follow` source topics whose deletions are followed at the target;
    `rights` what would be done about ACLs and quotas, a line each.
    `drift` is where existing mirrors differ from what is wanted, what this plan mends included;
    `publish` offsets of groups that would be published: they go on by themselves, and are no reason
    to say that there is something to do.
    """

    create: tuple[CreateTopic, ...] = ()
    grow: tuple[GrowTopic, ...] = ()
    configure: tuple[SetConfigs, ...] = ()
    refuse: Mapping[TopicName, RefusedTopic] = field(default_factory=dict)
    mirrors: tuple[Mirror, ...] = ()
    remember: tuple[MirrorRecord, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: Mapping[TopicName, str] = field(default_factory=dict)
    let_go: tuple[TopicName, ...] = ()
    starts: Mapping[TopicName, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    follow: Mapping[TopicName, DeletionRule] = field(default_factory=dict)
    rights: tuple[str, ...] = ()
    drift: tuple[Drift, ...] = ()
    publish: tuple[Change, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do, refused or gone: the pair is in sync."""
        to_do = self.create or self.grow or self.configure or self.remember or self.let_go
        return not (to_do or self.refuse or self.gone or self.pipelines or self.rights)

    def lines(self) -> list[tuple[str, str]]:
        """Return kind and text of each line for people, in the order of execution."""
        targets = {t.target for t in self.create} | {t.target for t in self.configure}
        remembered = (r for r in self.remember if r.target not in targets)
        return [
            *(("create", created_text(t)) for t in self.create),
            *(("grow", f"grow {t.target}: {t.has} → {t.wants} partitions") for t in self.grow),
            *(("configure", _configured(t)) for t in self.configure),
            *(("remember", f"remember {r.target} as the mirror of {r.source}") for r in remembered),
            *(("start", f"begin {name} {where}") for name, where in self.starts.items()),
            *(
                ("refuse", f"refuse {name}: {refusal.reason} (hint: {refusal.hint})")
                for name, refusal in self.refuse.items()
            ),
            *(("pipeline", line) for line in self.pipelines),
            *(("rights", line) for line in self.rights),
            *(("gone", f"gone {line}") for line in self.gone),
            *(("leave_out", f"leave out {name}: {why}") for name, why in self.left_out.items()),
            *(("follow", line) for line in _followed(self.follow)),
            *(("publish", change.text()) for change in self.publish),
            *(("drift", f"drift {line}") for line in drift_lines(_to_mend(self.drift))),
            *(("note", f"note: {note}") for note in self.notes),
        ]

    def describe(self) -> list[str]:
        """Return the lines for people."""
        return [text for _, text in self.lines()]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        plan = asdict(self)
        for mirror in plan["mirrors"]:
            for key in ("source_id", "target_id"):
                mirror[key] = None if mirror[key] is None else str(mirror[key])
        plan["remember"] = [record.to_json() for record in self.remember]
        return {**plan, "is_empty": self.is_empty}


def _to_mend(drift: Iterable[Drift]) -> Iterator[Drift]:
    """Yield what the plan itself does not mend: that has lines of its own."""
    return (row for row in drift if not row.difference.is_mended)


def _followed(rules: Mapping[TopicName, DeletionRule]) -> Iterator[str]:
    """Yield a line for each reason: a pattern may match thousands of topics."""
    names: dict[str, list[TopicName]] = {}
    for name, rule in rules.items():
        names.setdefault(rule.why, []).append(name)
    for why, some in names.items():
        more = f" and {len(some) - NAMED_MAX} more" if some[NAMED_MAX:] else ""
        yield f"follow deletions in {', '.join(some[:NAMED_MAX])}{more}: {why}"


def created_text(topic: CreateTopic) -> str:
    """Return what is created, for people."""
    settings = ", ".join(f"{key}={value}" for key, value in topic.configs.items())
    origin = "" if topic.source == topic.target else f" (mirror of {topic.source})"
    return (
        f"create {topic.target}{origin}: {topic.partitions} partitions, replication factor "
        f"{topic.replication_factor}, {settings}"
    )


def _configured(topic: SetConfigs) -> str:
    words = [
        (f"unset {key}" if value is None else f"set {key}={value}")
        + f" (was {topic.was.get(key)}"
        + (f"; {topic.why[key]})" if key in topic.why else ")")
        for key, value in topic.changes.items()
    ]
    return f"configure {topic.target}: {', '.join(words)}"
