"""Which mirrors have their holes filled, and the note where they can't."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliostat.config import LinkConfig
from heliostat.config.model import TopicsConfig
from heliostat.errors import BrokerError
from heliostat.link.exact import filling_notes, with_filling
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionSpec

MIRROR = TopicPartition(TopicName("t"), PartitionId(0))
SPEC = PartitionSpec(MIRROR, MIRROR, None, None, Offset(0), 1_000_000, is_compacted=False)
EXACT = LinkConfig(name="l", source="a", target="b", topics=TopicsConfig(offsets="exact"))
AUTO = LinkConfig(name="l", source="a", target="b")


@pytest.mark.parametrize(
    ("known", "may_fill", "fills"),
    [
        (None, True, True),
        (None, False, False),
        (True, False, True),  # its map counts records: nothing else can continue with it
        (False, True, False),
    ],
)
def test_a_mirror_keeps_the_way_it_began_with(
    known: bool | None, may_fill: bool, fills: bool
) -> None:
    found = with_filling({MIRROR: SPEC}, lambda *_: known, may_fill=may_fill)
    assert found[MIRROR].fills is fills


def test_the_reason_why_a_mirror_is_not_exact_is_noted() -> None:
    refused = BrokerError("write transaction markers", kafka_code=31)
    assert filling_notes(AUTO, {MIRROR: SPEC}, None) == ()
    assert filling_notes(EXACT, {MIRROR: replace(SPEC, fills=True)}, None) == ()
    (note,) = filling_notes(EXACT, {MIRROR: SPEC}, refused)
    assert "can't be filled" in note
    assert refused.hint in note
    (note,) = filling_notes(EXACT, {MIRROR: SPEC}, None)
    assert "t are mapped already" in note
