"""Answers for which clusters are asked; `as_of_ms` says when they answered."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class OfClusters(BaseModel):
    """What all of them have."""

    as_of_ms: int


class GroupPartition(BaseModel):
    """Where a group stands in one partition; null: not known, or there is none."""

    source_topic: str
    partition: int
    target_topic: str | None
    source_offset: int | None
    target_offset: int | None
    wanted_offset: int | None
    reread_records: int | None
    reason: str
    why: str


class GroupRow(BaseModel):
    """A group of the source."""

    group: str
    target_group: str
    """Its name at the target."""
    selected: bool
    why: str
    in_sync: bool
    problem: str | None
    partitions: int
    """Of mirrored topics."""
    open_partitions: int
    """Those that are not in sync."""
    reread_records: int
    source_state: str | None
    target_state: str | None


class GroupPage(OfClusters):
    """Groups of a link; `next` is the cursor of the next page, null at the last."""

    sync: bool
    """Whether offsets are published; if not, the answer tells what would be."""
    reasons: dict[str, int]
    items: list[GroupRow]
    next: str | None


class GroupDetails(OfClusters, GroupRow):
    """One group, partition by partition."""

    sync: bool
    items: list[GroupPartition]
    target_members: list[dict[str, str]]


class Gap(BaseModel):
    """Records that the mirror will never have, as docs/gaps.md describes."""

    topic: str
    partition: int
    first: int
    last: int | None
    count: int | None
    cause: str
    at_ms: int
    choice: str
    decided_by: str
    mirror: str
    source_id: str
    target_id: str
    mirror_partition: int | None
    jump: tuple[int, int] | None
    is_done: bool
    text: str


class OpenDecision(BaseModel):
    """A partition, or a whole topic, that waits for a decision."""

    topic: str
    partition: int | None
    state: str
    code: str
    reason: str
    since_ms: int | None
    decision: dict[str, Any] | None
    position: int | None


class GapPage(OfClusters):
    """Gaps of a link, the newest first, and what waits for a decision."""

    policy: str
    stopped: list[OpenDecision]
    total: int
    items: list[Gap]
    next: str | None


class Letter(BaseModel):
    """A record that could not be copied; its key in base64."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    last: int
    kind: str
    timestamp_ms: int
    key: str | None
    value_is_null: bool
    cause: str
    reason: str
    mirror: str
    decided_by: str
    at_ms: int


class LetterPage(OfClusters):
    """Dead letters of a link, the newest first."""

    total: int
    items: list[Letter]
    next: str | None


class WholeLetter(Letter):
    """With the record's value and headers, in base64."""

    value: str | None
    headers: list[tuple[str, str | None]]


class WholeLetters(OfClusters):
    """Letters of one offset: several, if the topic was deleted and created again."""

    items: list[WholeLetter]


class SchemaVersionRow(BaseModel):
    """A version of the source's registry, and what is of it at the target's."""

    subject: str
    version: int
    id: int
    is_deleted: bool
    state: str
    target_subjects: list[str]
    target_id: int | None
    code: str
    reason: str
    hint: str


class SchemaPage(OfClusters):
    """Schemas of a link; `strategy` is `off` if it mirrors none."""

    strategy: str
    in_sync: bool
    states: dict[str, int]
    derived: list[dict[str, Any]]
    """What pipelines make of schemas."""
    items: list[SchemaVersionRow]
    next: str | None


class PlanLine(BaseModel):
    """One thing to do, that is refused or left out, or a note."""

    kind: str
    text: str


class PlanPage(OfClusters):
    """What the link would do to the target's topics now."""

    is_empty: bool
    mirrors: int
    kinds: dict[str, int]
    items: list[PlanLine]
    next: str | None


class TranslatedOffset(BaseModel):
    """The offset of the other side; `why` says why it is not of the same record."""

    topic: str
    partition: int
    offset: int
    to_topic: str | None
    to_partition: int | None
    to_offset: int | None
    exact: bool
    why: str | None
    text: str


class TranslatedOffsets(OfClusters):
    """Answers to the questions, in their order."""

    link: str
    to: str
    items: list[TranslatedOffset]
    is_source_known: bool
