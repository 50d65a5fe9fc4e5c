"""How a task handles logs that move while it reads, and explanations that don't apply."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.clusters.kafka_codes import OFFSET_OUT_OF_RANGE
from heliostat.errors import BrokerError
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.verify import work
from heliostat.verify.align import Difference, Findings
from heliostat.verify.compaction import Cleaning, CleaningRule, Compacted, Judged
from heliostat.verify.compare import Compared
from heliostat.verify.places import EXACT, Places
from heliostat.verify.ranges import Chunk, Stretch
from heliostat.verify.reader import Bounds
from heliostat.verify.work import ChunkResult, ComparedClusters, Differing

P = TopicPartition(TopicName("t"), PartitionId(0))
NOBODY: Any = None
SIDES = ComparedClusters(NOBODY, NOBODY)
RULE = CleaningRule(Cleaning(compacts=True), Cleaning(compacts=True), 0)


def side(start: int) -> Any:
    return SimpleNamespace(bounds=lambda partitions: {p: Bounds(start, 100) for p in partitions})


def compared_after(
    monkeypatch: pytest.MonkeyPatch, *errors: int, start: int, places: Places = EXACT
) -> tuple[ChunkResult, list[int]]:
    """Compare [10, 100) of logs that give these errors before; which beginnings were tried."""
    left, tried = list(errors), []

    def compared(chunk: Chunk, *_: object, decode_all: bool) -> Compared:
        tried.append(chunk.start)
        if left:
            raise BrokerError("gone", kafka_code=left.pop(0))
        return Compared(chunk.end - chunk.start, None, 0)

    monkeypatch.setattr(work, "_compared", compared)
    chunk = Chunk(0, P, P, 10, 100, 100, places)
    sides: ComparedClusters = SIDES
    return work._compare_chunk(sides, side(start), side(0), chunk, (None, None)), tried


def test_if_retention_overtakes_reading_the_rest_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given records deleted while they are read / then the rest is compared, and it is reported."""
    result, tried = compared_after(monkeypatch, OFFSET_OUT_OF_RANGE, start=40)
    assert (result.error, result.records, tried) == (None, 60, [10, 40])
    assert result.notes == ["records [10, 40) were deleted before they were read"]


def test_an_offset_out_of_range_that_is_in_range_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result, tried = compared_after(monkeypatch, OFFSET_OUT_OF_RANGE, start=10)
    assert isinstance(result.error, BrokerError)
    assert tried == [10]


def test_other_errors_are_the_chunks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    result, tried = compared_after(monkeypatch, 29, start=40)
    assert isinstance(result.error, BrokerError)
    assert (tried, result.notes) == ([10], [])


@pytest.mark.parametrize(("target_stop", "is_clean"), [(100, True), (101, False)])
def test_compaction_explains_nothing_after_the_sources_end(
    monkeypatch: pytest.MonkeyPatch, target_stop: int, *, is_clean: bool
) -> None:
    """Given a difference that compaction explains / when the target has more / then it is named."""
    named = Findings()
    named.add(Difference("foreign", None, None, 100, None, "x", 100))
    monkeypatch.setattr(work, "judge", lambda *_: Judged(Compacted(compacted_target=3)))
    monkeypatch.setattr(work, "_explain", lambda *_: named)
    stretch = Stretch(P, P, 0, 100, 100, target_stop)
    found = work._explained(side(0), side(0), Differing(0, stretch, 0, RULE))
    assert found.findings.is_clean is is_clean
    assert found.compacted == Compacted(compacted_target=3)
