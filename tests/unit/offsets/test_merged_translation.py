"""Offsets of merged topics translated by a log that others write as well."""

from __future__ import annotations

import pytest

from heliostat.errors import Refused
from heliostat.merge.crossing import Crossing
from heliostat.merge.landed_log import LandedLog, OwnBatches, Stretch
from heliostat.merge.own_end import BatchPlace, OwnNote
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.merged_translation import MergedPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.offsets.translation import OffsetTranslator
from heliostat.offsets.values import TranslatedMirrors, TranslatedPartition, Why

TOPIC, P0 = TopicName("telemetry"), PartitionId(0)
HERE = TopicPartition(TOPIC, P0)
LINK, OTHER = 7, 8
SENT = OffsetMap.of([Break(0, 10), Break(3, 20)])
"""Numbers 0 to 2 are source offsets 10 to 12; from number 3 on they are 20 and more."""
LANDED = [BatchPlace(LINK, 0, 2, 4), BatchPlace(LINK, 2, 6, 9)]
"""Target offsets 2, 3, 6, 7 and 8; all others are of the target's producers."""


def translator(start: int = 0, note: OwnNote | None = None) -> OffsetTranslator:
    end = Offset(12)
    one = TranslatedPartition(HERE, HERE, SENT, Offset(start), end, Offset(10), Offset(0))

    def read(offset: Offset) -> Stretch:
        found = next((each for each in LANDED if each.offset <= offset < each.next_offset), None)
        batch = found or BatchPlace(OTHER, 0, offset, offset + 1)
        return Stretch([batch], Offset(batch.next_offset))

    landed = LandedLog(OwnBatches({LINK}), read, note, Offset(start), end)
    merged = MergedPartition(one, Crossing(SENT, landed), Offset(start), end)
    return OffsetTranslator(TranslatedMirrors([one], names={TOPIC: TOPIC}), {HERE: merged})


NOTED = OwnNote(0, Offset(0))


@pytest.mark.parametrize(
    ("offset", "to", "why"),
    [
        (9, None, Why.BELOW_START),
        (10, 2, None),
        (12, 6, None),
        (13, 7, Why.HOLE),
        (20, 7, None),
        (21, 8, None),
        (22, None, Why.BEYOND),
    ],
)
def test_a_record_of_the_source_is_found_between_others(
    offset: int, to: int | None, why: Why | None
) -> None:
    answer = translator(note=NOTED).to_target(TOPIC, P0, Offset(offset))
    assert (answer.to_offset, answer.why, answer.to_partition) == (to, why, P0)


@pytest.mark.parametrize(
    ("offset", "to", "why"),
    [
        (1, None, Why.ELSEWHERE),
        (2, 10, None),
        (3, 11, None),
        (4, None, Why.ELSEWHERE),
        (6, 12, None),
        (8, 21, None),
        (11, None, Why.ELSEWHERE),
        (12, None, Why.BEYOND),
    ],
)
def test_a_record_at_the_target_is_the_links_or_somebody_elses(
    offset: int, to: int | None, why: Why | None
) -> None:
    answer = translator(note=NOTED).to_source(TOPIC, P0, Offset(offset))
    assert (answer.to_offset, answer.why) == (to, why)


def test_what_the_log_has_no_more_is_not_translated() -> None:
    """Given a log that begins later / then earlier records are below its start; where nothing tells
    how many have landed / then that is said.
    """
    found = translator(start=7, note=NOTED)
    assert found.to_target(TOPIC, P0, Offset(10)).why is Why.BELOW_START
    assert found.to_source(TOPIC, P0, Offset(2)).why is Why.BELOW_START
    assert found.to_target(TOPIC, P0, Offset(21)).to_offset == 8
    [one] = found.partitions()
    assert found.position_of(one) == 22
    blind = translator()
    assert blind.to_target(TOPIC, P0, Offset(21)).why is Why.NOT_TOLD
    assert blind.to_source(TOPIC, P0, Offset(11)).why is Why.ELSEWHERE


def test_its_map_is_shown_with_numbers_and_where_they_begin() -> None:
    """Given own records between others / then runs have numbers, and the first one's offset.

    What is gone from the log says so; where nobody knows how many there are, nothing is guessed.
    """
    shown = translator(note=NOTED)
    [summary] = shown.summaries(TOPIC, P0)
    assert (summary.kind, summary.landed, summary.extents, summary.target_end) == (
        "merged",
        5,
        2,
        12,
    )
    [one] = shown.partitions(TOPIC, P0)
    assert shown.merged_runs(one) == [(10, 0, 3, 2), (20, 3, 2, 7)]
    later = translator(4, NOTED._replace(is_closed=True))
    assert later.merged_runs(one) == [(10, 0, 3, None), (20, 3, 2, 7)]
    unknown = translator(note=None)
    assert unknown.summaries(TOPIC, P0)[0].landed is None
    with pytest.raises(Refused, match="has not noted"):
        unknown.merged_runs(one)
