"""Which partitions are named as moving nothing though they lag: a table of reports over time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from unit.status.test_in_sync import texts

from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.status.board import StatusBoard
from heliostat.status.nagios import Service, nagios_line
from heliostat.status.progress_watch import ProgressWatch, report_of, reported

SOURCE = TopicPartition(TopicName("t"), PartitionId(3))
COPYING, RETRYING = PartitionState.COPYING, PartitionState.RETRYING


@dataclass(frozen=True, slots=True)
class Told:
    """What a lane reports of a partition at some second."""

    at_s: int
    position: int = 5
    end: int = 9
    state: PartitionState = COPYING
    code: str = ""
    target_end: int = 5
    held: int = 0

    def report(self) -> PartitionReport:
        return PartitionReport(
            SOURCE, SOURCE, self.state, self.position, self.end, 0, 0, -1, -1, 0,
            code=self.code, open_records=self.held, target_end=self.target_end,
        )  # fmt: skip


def watched(*reports: Told) -> ProgressWatch:
    watch = ProgressWatch()
    for each in reports:
        watch.take(each.report(), each.at_s * 1000)
    return watch


@pytest.mark.parametrize(
    ("reports", "since_s"),
    [
        ([Told(0), Told(30), Told(60)], 0),
        ([Told(0), Told(30), Told(59)], None),  # not yet
        ([Told(0), Told(30)], None),  # its lane is silent since: that is told otherwise
        ([Told(0, end=5), Told(300, end=5)], None),  # level
        ([Told(0, end=5), Told(300), Told(330)], None),  # it lags since then only
        ([Told(0), Told(30, position=6), Told(60, position=6), Told(80, position=6)], None),
        ([Told(0), Told(30, position=6), Told(60, position=6), Told(90, position=6)], 30),
        ([Told(0), Told(30, end=99), Told(60, end=999)], 0),  # the lag grows
        ([Told(0, held=4), Told(90, held=4)], None),  # behind an open transaction
        ([Told(0), Told(90, state=RETRYING, code="CONNECTION_LOST")], None),
        ([Told(0), Told(30, state=RETRYING, code="X"), Told(60), Told(90)], None),
        ([Told(0), Told(90, state=PartitionState.PAUSED)], None),
        ([Told(0), Told(90, state=PartitionState.GAP, code="SOURCE_OVERTOOK")], None),
        # A new round that does not know yet where it stands is no progress ...
        ([Told(0), Told(40, position=-1, end=-1, state=PartitionState.STARTING), Told(70)], 0),
        ([Told(0), Told(70, position=-1, end=-1)], None),  # ... and no news of standing either.
        # Fillers and markers are appended though the position stays.
        ([Told(0), Told(30, target_end=6), Told(60, target_end=7)], None),
    ],
)
def test_who_is_named(reports: list[Told], since_s: int | None) -> None:
    found = watched(*reports).found()
    assert [each.since_ms for each in found] == ([] if since_s is None else [since_s * 1000])


def test_one_that_is_not_copied_any_more_is_forgotten() -> None:
    watch = watched(Told(0), Told(60))
    watch.keep({SOURCE})
    assert watch.found()
    watch.keep(set())
    assert watch.found() == []


def test_a_report_names_it_and_is_read_as_it_was_written() -> None:
    found = watched(Told(0), Told(75, end=1209)).found()
    told = report_of(found * 30)
    assert (told["count"], len(told["partitions"])) == (30, 20)
    driver = {"no_progress": report_of(found)}
    assert reported(driver) == found
    assert reported({}) == []
    assert found[0].text() == (
        "t-3 has not moved for 75 s at source offset 5, though 1,204 records are missing: its lane "
        "reports, and tells no reason"
    )


def test_a_status_and_the_events_name_it_on_any_machine() -> None:
    """Given a driver that reports one / then it is a trouble, an alarm, and critical."""
    told = {"at_ms": 90_000, "state": "running", "instance": "i", "claim": 1, "turns": 1}
    board = StatusBoard(LinkName("l"))
    board.consume("driver", {**told, "no_progress": report_of(watched(Told(0), Told(75)).found())})
    status = board.status(90_000)
    assert status.troubles[0].startswith("t-3 has not moved for 75 s")
    assert list(texts(board.alarms(90_000))) == ["no progress of t-3"]
    service, line = nagios_line([status], 10.0)
    assert service is Service.CRITICAL
    assert "t-3 has not moved" in line
    board.consume("driver", {**told, "no_progress": {"count": 0, "partitions": []}})
    assert texts(board.alarms(90_000)) == {}
