"""A driver's report of thousands of topics with problems stays small."""

from __future__ import annotations

import json

from heliostat.link.known import REPORTED_MAX, Known
from heliostat.names import LaneId, PartitionId, TopicName, TopicPartition

TOPICS = 3_000


def test_a_report_names_some_topics_and_counts_the_others() -> None:
    """Given 3,000 refused topics and as many notes / when logged / then a few and the counts."""
    known = Known({}, {})
    known.refused = {TopicName(f"topic-{number:05d}"): "why " * 20 for number in range(TOPICS)}
    known.notes = tuple(f"note {number}" for number in range(TOPICS))
    told = known.report()
    assert len(json.dumps(told)) < 40_000
    refused, notes = told["refused"], told["notes"]
    assert isinstance(refused, dict)
    assert isinstance(notes, list)
    assert len(refused) == REPORTED_MAX
    assert notes[0] == f"{TOPICS - REPORTED_MAX} more topics are refused"
    assert notes[-1] == f"and {TOPICS - REPORTED_MAX} more remarks"


def test_few_are_reported_in_full() -> None:
    """Given one refused topic and one note / when logged / then both in full."""
    known = Known({}, {})
    known.refused = {TopicName("topic"): "why"}
    known.notes = ("note",)
    known.nothing_selected = "no topic"
    known.packing = {LaneId(0): (TopicPartition(TopicName("t"), PartitionId(0)),)}
    assert known.report() == {
        "refused": {"topic": "why"},
        "notes": ["note"],
        "turns": 0,
        "drift": None,
        "topics": {},
        "partitions": 1,
        "troubles": ["no topic"],
    }
