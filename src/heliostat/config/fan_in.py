"""A link's share of target topics that several links fill, see `heliostat.slots`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from heliostat.config.frozen import Frozen

FAN_IN_LIMIT = 1000  # links of one topic; each takes partitions of it


class FanInConfig(Frozen):
    """Share of one link in target topics that several links fill, each from its own source.

    Source partition p is kept in target partition p x `of` + `slot`: each has one writer and equal
    offsets, and shows which source a record is from. All links of a topic have the same `of`, each
    with another `slot`; settings of the topic follow the source of slot 0.
    """

    slot: Annotated[int, Field(title="Slot", ge=0, lt=FAN_IN_LIMIT)]
    """This link's share: 0 to `of` - 1."""
    of: Annotated[int, Field(title="Of", ge=2, le=FAN_IN_LIMIT)]
    """How many links fill the topics. It can't be changed later: partitions stay where they are."""


def check_slot(share: FanInConfig) -> FanInConfig:
    """Refuse a slot that does not exist."""
    if share.slot >= share.of:
        raise ValueError(f"slot must be below `of`, which is {share.of}")
    return share
