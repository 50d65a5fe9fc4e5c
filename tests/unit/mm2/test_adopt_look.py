"""How far back both logs are read until a resume point is certain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from heliostat.clusters.plain_records import LogBounds, PlainRecord
from heliostat.mm2 import adopt_look as adoption_look
from heliostat.mm2.adopt_look import PartitionLogs, look_for_resume_point
from heliostat.mm2.resume_point import NoResumePoint, ResumePoint
from heliostat.names import PartitionId, TopicName, TopicPartition

SOURCE = TopicPartition(TopicName("t"), PartitionId(0))
TARGET = TopicPartition(TopicName("A.t"), PartitionId(0))


class Log:
    """Stands for a reader of one partition; counts what is read."""

    def __init__(self, contents: Sequence[int | None], start: int = 0) -> None:
        self.contents = contents
        self.start = start
        self.asked: list[tuple[int, int]] = []

    @property
    def bounds(self) -> LogBounds:
        return LogBounds(self.start, self.start + len(self.contents))

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[PlainRecord]:
        self.asked.append((start, end))
        for offset in range(start, end):
            content = self.contents[offset - self.start]
            if content is not None:
                yield PlainRecord(offset, 5, None, b"%d" % content, ())


def look(
    source: Log,
    target: Log,
    committed: int | None,
    *,
    step: int | None = 0,
    stable: Log | None = None,
) -> ResumePoint | NoResumePoint:
    logs = PartitionLogs(
        SOURCE,
        TARGET,
        source.bounds,
        target.bounds,
        committed,
        step,
        with_timestamps=True,
    )
    return look_for_resume_point(source, stable or source, target, logs)


def resume_point(found: ResumePoint | NoResumePoint) -> ResumePoint:
    assert isinstance(found, ResumePoint), found
    return found


def numbers(count: int) -> list[int]:
    return list(range(count))


def test_a_long_log_without_open_questions_is_read_at_its_end_only() -> None:
    source, target = Log(numbers(50_000)), Log(numbers(50_000))
    found = resume_point(look(source, target, 49_999))
    assert (found.source, found.is_exact) == (50_000, True)
    assert source.asked == [(49_500, 50_000)]
    assert target.asked == [(49_000, 50_000)]


def test_more_is_read_if_more_landed_than_the_first_window_holds() -> None:
    source, target = Log(numbers(60_000)), Log(numbers(45_000))
    found = resume_point(look(source, target, 40_000))
    assert (found.source, found.is_exact) == (45_000, True)
    assert len(target.asked) > 1


def test_more_is_read_if_an_earlier_run_may_have_copied_further() -> None:
    # 0..29,999 landed, 20,000 was committed; the next run copied to 20,500 and committed it.
    source = Log(numbers(40_000))
    target = Log([*numbers(30_000), *range(20_001, 20_503)])
    found = resume_point(look(source, target, 20_500, step=10_000))
    assert found.source == 30_000
    assert resume_point(look(source, target, 20_500, step=None)).source == 30_000


def test_unequal_offsets_are_mapped_as_far_back_as_is_cheap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = Log(numbers(5_000), 70), Log(numbers(5_000))
    found = resume_point(look(source, target, 5_069))
    assert (found.source, found.target) == (5_070, 5_000)
    assert found.map.target_of(70) == 0  # all of it was compared
    assert target.asked[-1] == (0, 5_000)


def test_copied_aborted_records_decide_how_the_source_is_read() -> None:
    everything = Log([0, 1, 2, 3, 4, 5])
    stable = Log([0, 1, None, None, 4, 5])  # 2 and 3 were aborted
    found = resume_point(look(everything, Log([0, 1, 4]), 1, stable=stable))
    assert (found.source, found.target) == (5, 3)
    found = resume_point(look(everything, Log([0, 1, 2, 3, 4]), 1, stable=stable))
    assert (found.source, found.is_exact) == (5, True)


def test_a_mirror_that_no_window_explains_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoption_look, "LOOKS", (10, 20))
    source, target = Log(numbers(1_000)), Log(numbers(900))
    found = look(source, target, 100)
    assert isinstance(found, NoResumePoint)
    assert "is not at the source" in found.reason


def test_a_window_that_ends_with_the_target_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoption_look, "LOOKS", (10, 1_000))
    source, target = Log(numbers(1_000)), Log(numbers(600))
    # The first window of the source ends with 599, so that later records could not be seen.
    found = resume_point(look(source, target, 589))
    assert found.source == 600
    assert len(source.asked) == 2


def test_without_a_committed_position_both_are_read_whole() -> None:
    source, target = Log(numbers(3_000)), Log(numbers(1_500))
    assert resume_point(look(source, target, None)).source == 1_500
