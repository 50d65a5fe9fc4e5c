"""When a mirror is reported as clean: each possible finding by itself."""

from __future__ import annotations

import pytest

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.verify.align import Difference, Findings
from heliostat.verify.ranges import NotCompared, Stretch
from heliostat.verify.report import PartitionResult, VerifyReport, joined


def result(number: int = 0, topic: str = "t") -> PartitionResult:
    one = TopicPartition(TopicName(topic), PartitionId(number))
    return PartitionResult(Stretch(one, one, 0, 10, 10, 10), records=10)


def difference(kind: str, at: int) -> Difference:
    return Difference(kind, None, at, at, "x", "y", at)


def test_equal_sides_are_clean() -> None:
    report = VerifyReport([result()], [])
    assert (report.is_clean, report.offsets_equal, report.first_difference) == (True, True, None)


@pytest.mark.parametrize("kind", ["lost", "doubled", "reordered", "different", "foreign", "moved"])
def test_each_kind_of_finding_is_one(kind: str) -> None:
    """Given one record that is not as it should be / then the mirror is not clean."""
    broken = result(1)
    broken.findings.add(difference(kind, 5))
    report = VerifyReport([result(), broken], [])
    assert not report.is_clean
    assert report.offsets_equal is (kind in {"different", "foreign"})
    assert [row["partition"] for row in report.to_json()["details"]] == [1]


@pytest.mark.parametrize("is_problem", [False, True])
def test_uncompared_records_in_the_range_are_a_finding(*, is_problem: bool) -> None:
    left_out = NotCompared("t", "t", 3, "the target lacks this partition", 9, is_problem)
    assert VerifyReport([result()], [left_out]).is_clean is not is_problem


def test_findings_beyond_those_shown_count() -> None:
    findings = Findings()
    findings.count("foreign", 7)
    assert (findings.foreign, findings.different, findings.is_clean) == (7, 7, False)


def test_the_first_difference_is_by_topic_partition_and_offset() -> None:
    made = []
    for topic, number, at in (("b", 0, 1), ("a", 2, 1), ("a", 1, 7), ("a", 1, 3)):
        each = result(number, topic)
        each.findings.add(difference("lost", at))
        made.append(each)
    first = VerifyReport(made, []).first_difference
    assert first is not None
    assert (first["topic"], first["partition"], first["source_offset"]) == ("a", 1, 3)


def test_what_compared_nothing_is_not_clean() -> None:
    """Given no topic, or a source with records of which none was compared / then not clean."""
    nothing = VerifyReport([], [])
    assert not nothing.is_clean
    assert any(line.startswith("nothing was compared") for line in nothing.lines())
    none_yet = result()
    none_yet.records = 0
    assert VerifyReport([none_yet], []).is_clean  # both sides are empty
    assert not VerifyReport([none_yet], [], behind_records=9).is_clean
    left_out = NotCompared("a", "b", None, "it comes from the target", 9, is_problem=False)
    assert VerifyReport([], [left_out]).is_clean


def test_a_mirror_that_the_link_refuses_is_not_clean_though_its_records_are_equal() -> None:
    report = VerifyReport([result()], [], refused={"a": "another's records"})
    assert not report.is_clean
    assert "the link refuses a: another's records" in report.lines()
    assert joined([VerifyReport([result()], []), report]).refused == {"a": "another's records"}
    assert report.to_json()["refused"] == {"a": "another's records"}
