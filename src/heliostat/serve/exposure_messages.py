"""The answer of what would be lost now, as the OpenAPI document describes it."""

from __future__ import annotations

from pydantic import BaseModel

from heliostat.status.loss import Loss, Rereads, Truth


class LossRow(BaseModel):
    """What would be lost of a topic."""

    source: str
    target: str
    records: int | None
    age_s: float | None
    truth: Truth


class PartitionLoss(BaseModel):
    """What would be lost of a partition."""

    source: str
    partition: int
    state: str
    records: int | None
    age_s: float | None
    truth: Truth


class GroupReread(BaseModel):
    """What a group would read again."""

    group: str
    target_group: str
    is_synced: bool
    records: int | None
    truth: Truth
    partitions_begun_anew: int
    """Of these the target has no offset: read from the mirror's first record on, unless the group's
    own `auto.offset.reset` says otherwise."""
    partitions_not_known: int
    partitions_without_mirror: int
    why: str
    """Why it is not synced, or not known."""


class ExposureAnswer(BaseModel):
    """What would be lost and read again if the source were gone now."""

    link: str
    state: str
    at_ms: int
    would_be_lost: Loss
    without_mirror: int
    """Selected topics that have no mirror: lost as a whole."""
    refused: dict[str, str]
    topics: list[LossRow]
    partitions: list[PartitionLoss]
    """With `partitions=true`."""
    rereads: Rereads | None
    """Of groups that the link selects, all together."""
    groups: list[GroupReread]
    groups_why: str
    """Why clusters did not tell of groups, so that it is what the driver reported last."""
    as_of_ms: int
