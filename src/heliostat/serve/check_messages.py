"""The answers of `check` and `scan`, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class FindingRow(BaseModel):
    """One thing that was looked at."""

    subject: str
    standing: Literal["fine", "note", "problem"]
    text: str
    code: str
    """Empty where it is fine."""
    hint: str


class CheckAnswer(BaseModel):
    """Whether a link would run, and why not."""

    would_run: bool
    problems: int
    findings: list[FindingRow]
    as_of_ms: int


class ScannedTopicRow(BaseModel):
    """One topic of a cluster."""

    name: str
    partitions: int
    replication_factor: int
    is_internal: bool
    bytes: int | None
    """Of one copy; null: not shown."""
    records: int | None
    """Offsets between begin and end."""
    records_per_s: float | None
    bytes_per_s: float | None
    settings: dict[str, str]
    """Those that differ from defaults."""
    without_leader: int
    open_transactions: int


class ScannedGroupRow(BaseModel):
    """One consumer group of a cluster."""

    group: str
    kind: str
    state: str
    topics: int
    lag: int | None


class CareRow(BaseModel):
    """Something that can't move, or needs care."""

    code: str
    text: str
    items: list[str]


class ScanPage(BaseModel):
    """What a cluster has, with a page of its topics as `items`."""

    name: str
    addresses: str
    cluster_id: str
    release: str
    """Brokers are of this release of Kafka or newer."""
    brokers: list[str]
    has_authorizer: bool | None
    window_s: float
    groups: list[ScannedGroupRow]
    acls: int | None
    """How many; null: not shown."""
    quotas: int | None
    scram_users: int | None
    subjects: int | None
    """Of its schema registry; null: it has none, or it does not answer."""
    care: list[CareRow]
    unread: list[str]
    """Why a part is not shown."""
    items: list[ScannedTopicRow]
    next: str | None
    as_of_ms: int
