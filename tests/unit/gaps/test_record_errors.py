"""What rules say about records that can't be copied: when they are tried again, kept, given up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import Mock

import pytest
from support.gap_turns import NEW_ID, NOW_MS, OLD_ID, RECORD, P, Turns, stopped

from heliostat.clusters.plain_records import PlainRecord
from heliostat.config import ErrorRule, ErrorsConfig, SchemaErrorRule
from heliostat.errors import ConnectionLost
from heliostat.framed_ids import Headers
from heliostat.gaps import originals
from heliostat.gaps.choices import Cause, FailingRange, GapChoice
from heliostat.gaps.originals import Failing, Original
from heliostat.gaps.record_errors import RecordErrors
from heliostat.names import LaneId, Offset
from heliostat.records.copier.lane import (
    PartitionReport,
    PartitionSpec,
    PartitionState,
    RoundReport,
)

Policy = Literal["stop", "skip", "dead_letter"]
SPEC = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
CODES = {
    "TRANSFORM_FAILED": "transform",
    "TOO_LARGE": "too_large",
    "RECORD_REFUSED": "refused",
    "CORRUPT": "corrupt",
}


def blocked(code: str, position: int = 100, since_ms: int = 5) -> PartitionReport:
    return replace(stopped(position, code, since_ms), state=PartitionState.BLOCKED)


class World:
    """Errors of a link whose source has records with the schema ids that `values` names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch | None = None, **rules: ErrorRule) -> None:
        self.now_s = 0.0
        self.readable: set[int] = set()
        self.ids: list[int | None] = []
        """By offset: the schema id of a record; None: it has none."""
        self.retried: list[Any] = []
        self.letters = Mock()
        clock: Any = SimpleNamespace(monotonic_s=lambda: self.now_s, wall_ms=lambda: NOW_MS)
        self.errors = RecordErrors(
            ErrorsConfig(**rules),  # type: ignore[arg-type]  # checked by pydantic
            Mock(),
            Mock(),
            self.letters,
            clock=clock,
            schemas=self,
            on_retry=self.retried.append,
        )
        if monkeypatch is not None:
            monkeypatch.setattr(originals, "PlainReader", self._reader)

    def is_readable(self, schema_id: int) -> bool:
        return schema_id in self.readable

    def missing_id(
        self, _topic: Any, _key: bytes | None, value: bytes | None, headers: Headers
    ) -> int | None:
        assert headers == ()
        schema_id = int(value or b"0")
        return schema_id if schema_id and schema_id not in self.readable else None

    @contextmanager
    def _reader(self, _access: Any, *, committed: bool) -> Iterator[Any]:
        assert committed in {True, False}

        def read(_partition: Any, start: int, end: int) -> Iterator[PlainRecord]:
            for offset in range(start, min(end, len(self.ids))):
                schema_id = self.ids[offset]
                value = None if schema_id is None else b"%d" % schema_id
                yield PlainRecord(offset, 0, None, value, ())

        bounds = {P: SimpleNamespace(start=0, end=len(self.ids))}
        yield SimpleNamespace(read=read, bounds=lambda _: bounds)

    def waits(self, position: int) -> PartitionReport:
        report = stopped(position, "SCHEMA_UNREADABLE")
        return replace(report, state=PartitionState.RETRYING)

    def give_up(self, *reports: PartitionReport) -> None:
        for report in self.errors.waiting(reports):
            self.errors.give_up(report)

    def spec(self) -> PartitionSpec:
        return self.errors.marked({P: SPEC})[P]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("policy", "choice"),
    [("stop", None), ("skip", GapChoice.CONTINUE), ("dead_letter", GapChoice.DEAD_LETTER)],
)
def test_each_class_has_its_rule(code: str, policy: Policy, choice: GapChoice | None) -> None:
    """Given a rule for one class / then it counts for that class, and for no other."""
    world = World(**{CODES[code]: ErrorRule(policy=policy)})
    assert world.errors.chosen(P, code, 7) is choice
    others = [other for other in CODES if other != code]
    assert [world.errors.chosen(P, other, 7) for other in others] == [None] * 3


def test_it_is_tried_again_with_growing_pauses_until_its_time_is_over() -> None:
    """Given a rule to try for 100 s / then pauses double, and the policy decides after it; another

    position begins anew.
    """
    world = World(transform=ErrorRule(policy="skip", retry_for_s=100))
    tries = []
    for second in range(100):
        world.now_s = float(second)
        before = len(world.retried)
        assert world.errors.chosen(P, "TRANSFORM_FAILED", 7) is None
        if len(world.retried) > before:
            tries.append(second)
            assert world.spec().attempt == len(tries)
    assert tries == [1, 3, 7, 15, 31, 63]
    world.now_s = 100.0
    assert world.errors.chosen(P, "TRANSFORM_FAILED", 7) is GapChoice.CONTINUE
    assert world.errors.chosen(P, "TRANSFORM_FAILED", 8) is None
    world.now_s = 200.0
    assert world.errors.chosen(P, "TRANSFORM_FAILED", 8) is GapChoice.CONTINUE


def test_a_person_may_have_it_tried_again_with_or_without_a_rule() -> None:
    """Given a stop whose time is over / when it is ordered / then it has a new try and its time."""
    world = World(transform=ErrorRule(policy="skip", retry_for_s=1))
    assert world.errors.chosen(P, "TRANSFORM_FAILED", 7) is None
    world.errors.try_again(P)
    assert (world.spec().attempt, world.retried) == (1, [P])
    world.now_s = 5.0
    assert world.errors.chosen(P, "TRANSFORM_FAILED", 7) is None, "its time began anew"
    world.errors.try_again(P)
    assert world.spec().attempt == 2


def test_a_rule_may_only_try_again() -> None:
    world = World(refused=ErrorRule(retry_for_s=5))
    for second in range(20):
        world.now_s = float(second)
        assert world.errors.chosen(P, "RECORD_REFUSED", 7) is None
    assert len(world.retried) == 2


def test_a_schema_is_given_up_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given records that miss schemas / then the lane is stopped at the first whose schema has

    been missed for long enough, and all in a row behind it are passed at once.
    """
    rule = SchemaErrorRule(policy="dead_letter", retry_for_s=10)
    world = World(monkeypatch, schema_missing=rule)
    world.readable = {1}
    world.ids = [1, None, 2, 2, 3, 1, 2]
    world.give_up(world.waits(0))
    assert world.spec() == SPEC
    world.now_s = 10.0
    world.give_up(world.waits(0))
    assert (world.spec().fails_at, world.spec().fail_code) == (2, "SCHEMA_UNREADABLE")
    assert "schema id 2" in world.spec().why_fails
    assert world.errors.chosen(P, "SCHEMA_UNREADABLE", 2) is GapChoice.DEAD_LETTER
    facts: Any = SimpleNamespace(source=P, position=Offset(2), cause=Cause.SCHEMA_MISSING)
    found = world.errors.failing(facts)
    assert found is not None
    assert (found.range.end, found.range.count) == (4, 2)  # id 3 has not been missed long enough
    world.errors.passed(P)
    assert world.spec() == SPEC
    world.give_up(world.waits(6))
    assert world.spec().fails_at == 6  # at once: it is missed all the time


def test_a_schema_that_comes_is_waited_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a schema that was given up / when it can be read / then nothing fails any more; and if

    it is gone again, its time begins anew.
    """
    rule = SchemaErrorRule(policy="skip", retry_for_s=10)
    world = World(monkeypatch, schema_missing=rule)
    world.ids = [2, 2]
    world.give_up(world.waits(0))
    world.now_s = 10.0
    world.give_up(world.waits(0))
    assert world.spec().fails_at == 0
    world.readable = {2}
    facts: Any = SimpleNamespace(source=P, position=Offset(0), cause=Cause.SCHEMA_MISSING)
    assert world.errors.failing(facts) is None
    assert world.spec() == SPEC
    world.give_up()
    world.readable = set()
    world.give_up(world.waits(1))
    assert world.spec() == SPEC


def test_without_a_rule_schemas_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.ids = [2]
    for world.now_s in (0.0, 1e9):
        world.give_up(world.waits(0))
        assert world.spec() == SPEC


def test_only_new_stops_with_a_rule_are_news() -> None:
    """Given reports, one a second / then a stop is news once, if a rule says what to do with it."""
    world = World(transform=ErrorRule(policy="skip"))

    def report(*items: PartitionReport) -> RoundReport:
        return RoundReport(LaneId(0), 1, 0, 0, 0, "", list(items))

    assert not world.errors.is_news(report(blocked("TOO_LARGE")))
    assert not world.errors.is_news(report(blocked("FOREIGN_TAIL")))
    assert world.errors.is_news(report(blocked("TRANSFORM_FAILED")))
    assert not world.errors.is_news(report(blocked("TRANSFORM_FAILED")))
    assert world.errors.is_news(report(blocked("TRANSFORM_FAILED", position=101)))
    assert not world.errors.is_news(report(blocked("")))
    assert world.errors.is_news(report(blocked("TRANSFORM_FAILED", position=101)))


def test_a_record_is_kept_before_its_row_is_written() -> None:
    """Given a rule to keep records / when one fails / then it is kept, recorded and passed."""
    world = Turns(errors=ErrorsConfig(transform=ErrorRule(policy="dead_letter")))
    world.errors.listen(lambda: world.done.append("keep"))
    world.turn(blocked("TRANSFORM_FAILED"))
    assert world.done.index("keep") < world.done.index("write gap")
    (row,) = world.rows()
    assert (row.first, row.last, row.count, row.choice) == (100, 100, 1, GapChoice.DEAD_LETTER)
    assert world.spec().jump == (100, 101)
    assert world.errors.kept == [100]
    assert world.errors.retried == [P]


def test_all_records_in_a_row_are_kept_with_the_id_of_their_topic() -> None:
    """Given records in a row that miss schemas / then each is a letter; a topic of the same name,

    created anew, has other letters.
    """
    world = World()
    originals_found = tuple(
        Original(PlainRecord(offset, 5, b"k", b"v%d" % offset, ()), Offset(offset))
        for offset in (7, 8, 9)
    )
    failing = Failing(FailingRange(Offset(10), 3), originals_found)
    facts: Any = SimpleNamespace(source=P, cause=Cause.SCHEMA_MISSING)
    for source_id in (OLD_ID, NEW_ID):
        world.errors.keep(failing, facts, replace(RECORD, source_id=source_id), "why", "policy")
    found = [each for call in world.letters.put.call_args_list for each in call.args[0]]
    assert [(each.offset, each.value) for each in found[:3]] == [
        (7, b"v7"),
        (8, b"v8"),
        (9, b"v9"),
    ]
    assert len({each.name for each in found}) == 6


def test_a_rule_wins_over_the_policy_for_gaps_which_counts_without_one() -> None:
    """Given `gaps.policy: continue` / then records that the target refuses are skipped, unless a

    rule says to keep them; those at which a pipeline fails stop.
    """
    for errors, choices in (
        (ErrorsConfig(), [GapChoice.CONTINUE]),
        (ErrorsConfig(too_large=ErrorRule(policy="dead_letter")), [GapChoice.DEAD_LETTER]),
    ):
        world = Turns("continue", errors=errors)
        world.turn(blocked("TOO_LARGE"))
        assert [row.choice for row in world.rows()] == choices
    world = Turns("continue")
    world.turn(blocked("TRANSFORM_FAILED"))
    assert world.rows() == []


def test_what_can_not_be_read_or_kept_stays_and_the_others_go_on() -> None:
    """Given a source or dead letters that do not answer / then nothing is recorded or passed, it is

    said, and the reconciliation goes on (I7).
    """
    world = Turns(errors=ErrorsConfig(transform=ErrorRule(policy="dead_letter")))

    def gone() -> None:
        raise ConnectionLost("the broker with the dead letters is gone")

    world.errors.listen(gone)
    world.turn(blocked("TRANSFORM_FAILED"))
    assert world.rows() == []
    assert world.spec().jump is None
    (call,) = world.events.warn.call_args_list
    assert "the broker with the dead letters is gone" in call.args[0]
    world.errors.listen(lambda: None)
    world.turn(blocked("TRANSFORM_FAILED"))
    assert len(world.rows()) == 1
