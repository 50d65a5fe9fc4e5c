"""Finds the record at which a pipeline fails, from rounds that failed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.one_partition import lane_spec

from heliostat.access import access_of
from heliostat.errors import BatchError, ConnectionLost, TransformFailed
from heliostat.link.pipeline_faults import CAREFUL, CRASHES, PipelineFaults
from heliostat.names import LaneId, Offset, PartitionId, TopicId, TopicName, TopicPartition
from heliostat.records.copier.blame import Blame, RowsFailed, blame_of
from heliostat.records.copier.lane import LaneSpec, PartitionSpec, RoundReport, Suspect
from heliostat.records.copier.pipeline_steps import Pipeline, Where

P = TopicPartition(TopicName("orders"), PartitionId(1))
PIPELINE = Pipeline("hide", (Where("true"),))
SPEC = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False, pipeline="hide")
SQL = RowsFailed("[CAST_INVALID_INPUT] The value 'cancelled' can't be cast", Blame.RECORD)
CRASH = RowsFailed("Caused by: java.io.EOFException", Blame.UNSURE)
HANGS = TransformFailed("nothing has come back for 5 s: it hangs")
WHOLE, FEW, ONE = CAREFUL


class Rounds:
    """A lane's rounds as they fail."""

    def __init__(self, faults: PipelineFaults) -> None:
        self.faults = faults
        access = access_of(["here:9092"])
        self.lane = replace(lane_spec(access, access, SPEC), lane=LaneId(7), pipeline=PIPELINE)

    def fail(self, error: Exception, *suspects: Suspect | None) -> int:
        """Let a round report these suspects and fail; return how careful the next one is."""
        self.lane = replace(self.lane, round_number=self.lane.round_number + 1)
        for suspect in suspects:
            report = RoundReport(
                self.lane.lane, self.lane.generation, self.lane.round_number, 0, 0, "", []
            )
            report.suspect = suspect
            self.faults.heard(report)
        self.faults.failed(self.lane, blame_of(error), str(error))
        return self.faults.careful(self.lane.lane)

    def marked(self) -> tuple[int, str]:
        (found,) = self.faults.marked({P: SPEC}).values()
        return found.fails_at, found.why_fails


def rounds() -> Rounds:
    return Rounds(PipelineFaults({"hide": PIPELINE}, {}))


def test_each_failure_narrows_down_to_one_record() -> None:
    lane = rounds()
    assert lane.faults.careful(LaneId(7)) == WHOLE
    assert lane.fail(SQL) == FEW
    assert lane.fail(SQL, Suspect(P, 0, 64), Suspect(P, 64, 128)) == ONE
    assert lane.marked() == (-1, "")
    assert lane.fail(SQL, Suspect(P, 70, 71), Suspect(P, 71, 72)) == WHOLE
    assert lane.marked() == (71, f"pipeline hide fails at source offset 71: {SQL}")


def test_nothing_is_to_blame_that_had_come_back_before() -> None:
    lane = rounds()
    assert lane.fail(SQL) == FEW
    assert lane.fail(SQL, Suspect(P, 0, 64), None) == FEW
    assert lane.fail(SQL, Suspect(P, 0, 1), None) == FEW
    assert lane.marked() == (-1, "")


def test_no_record_is_to_blame_for_other_errors() -> None:
    lane = rounds()
    for error in (ConnectionLost("gone"), RowsFailed("ExecutorLostFailure", Blame.NONE)):
        assert lane.fail(error, Suspect(P, 3, 4)) == WHOLE
    assert lane.marked() == (-1, "")


@pytest.mark.parametrize(
    "words",
    [
        "cancelled",
        "[BROKER_FEE]",
        "[CONNECTION_LOST] gone",
        "ExecutorLost",
        "EOFException",
        "it hangs",
    ],
)
def test_a_record_names_no_cause(words: str) -> None:
    """Given a record that holds words of other errors / when the pipeline fails at it / then the

    record is found as any other: only an error's class says what it is.
    """
    lane = rounds()
    error = RowsFailed(f"[CAST_INVALID_INPUT] The value '{words}' can't be cast", Blame.RECORD)
    assert lane.fail(error) == FEW
    assert lane.fail(error, Suspect(P, 0, 64)) == ONE
    assert lane.fail(error, Suspect(P, 7, 8)) == WHOLE
    assert lane.marked() == (7, f"pipeline hide fails at source offset 7: {error}")


def test_a_batch_that_can_not_be_read_as_rows_is_to_blame() -> None:
    assert blame_of(BatchError("records are damaged")) is Blame.RECORD


@pytest.mark.parametrize("error", [CRASH, HANGS])
def test_a_worker_that_is_gone_or_slow_once_is_no_proof(error: Exception) -> None:
    lane = rounds()
    assert lane.fail(error) == FEW
    assert lane.fail(error, Suspect(P, 0, 64)) == ONE
    for _ in range(CRASHES - 1):
        assert lane.fail(error, Suspect(P, 9, 10)) == ONE
    assert lane.fail(error, Suspect(P, 10, 11)) == ONE  # elsewhere: it was killed
    for _ in range(CRASHES - 1):
        assert lane.marked() == (-1, "")
        lane.fail(error, Suspect(P, 10, 11))
    assert lane.marked()[0] == 10


def test_a_refused_pipeline_stops_its_partitions_and_no_other() -> None:
    faults = PipelineFaults({"hide": PIPELINE}, {"hide": "no good"})
    other = replace(SPEC, source=replace(P, partition=PartitionId(2)), pipeline="")
    found = faults.marked({P: SPEC, other.source: other})
    assert (found[P].fails_at, found[P].why_fails) == (-1, "no good")
    assert found[other.source] is other
    assert faults.pipeline("hide") is None
    assert isinstance(lane_of(faults), LaneSpec)


def lane_of(faults: PipelineFaults) -> LaneSpec:
    return Rounds(faults).lane


def test_what_fails_after_a_failing_record_is_looked_for_one_by_one() -> None:
    """Given a record that was found and is passed / when others fail / then they are found in fewer

    rounds, until the pipeline gets past what it failed at.
    """
    lane = rounds()
    lane.fail(SQL)
    lane.fail(SQL, Suspect(P, 0, 64))
    assert lane.fail(SQL, Suspect(P, 7, 8)) == WHOLE
    assert lane.marked()[0] == 7
    lane.faults.forget(P)
    assert lane.marked() == (-1, "")
    assert lane.fail(SQL) == ONE
    assert lane.fail(SQL, Suspect(P, 9, 10)) == WHOLE
    assert lane.marked()[0] == 9
    assert lane.fail(SQL) == ONE
    assert lane.fail(CRASH, Suspect(P, 12, 13), None) == FEW


def test_a_pipeline_that_learns_is_another_one() -> None:
    """Given a pipeline that is refused, then not / then rounds begin anew with what holds now."""
    faults = PipelineFaults({"hide": PIPELINE, "other": PIPELINE}, {"other": "no such column"})
    assert not faults.has_changed(PIPELINE)
    learnt = Pipeline("hide", (Where("false"),))
    faults.learn({"hide": learnt}, {"hide": "no such field"})
    assert faults.has_changed(PIPELINE)
    assert faults.has_changed(learnt)
    assert faults.pipeline("hide") is None
    assert faults.marked({P: SPEC})[P].why_fails == "no such field"
    faults.learn({"hide": learnt}, {})
    assert faults.pipeline("hide") == learnt
    assert not faults.has_changed(learnt)
    assert faults.marked({P: SPEC})[P].why_fails == ""
    assert faults.pipeline("other") is None


def test_a_topic_that_was_recreated_has_other_records() -> None:
    """Given an offset at which a pipeline fails / when the topic is another one of that name / then

    its record there is not to blame.
    """
    lane = rounds()
    was, now = (replace(SPEC, source_topic_id=TopicId(int=number)) for number in (1, 2))
    lane.faults.marked({P: was})
    lane.fail(SQL)
    lane.fail(SQL, Suspect(P, 0, 64))
    lane.fail(SQL, Suspect(P, 7, 8))
    assert lane.faults.marked({P: was})[P].fails_at == 7
    assert lane.faults.marked({P: now})[P].fails_at == -1


ALL = {name: Pipeline(name, (Where("true"),)) for name in ("hide", "other", "third")}
PARTITIONS = {name: TopicPartition(TopicName(name), PartitionId(0)) for name in ALL}


class Shared(Rounds):
    """Rounds of a lane that three pipelines share."""

    def __init__(self) -> None:
        super().__init__(PipelineFaults(dict(ALL), {}, lambda: True))
        specs = {at: replace(SPEC, source=at, pipeline=name) for name, at in PARTITIONS.items()}
        self.faults.marked(specs)
        self.faults.together()
        self.lane = replace(self.lane, pipeline=self.faults.lane_pipeline(["hide"]))


def test_pipelines_share_a_lane_only_where_places_are_few() -> None:
    few, enough = (
        PipelineFaults(dict(ALL), {"third": "no good"}, lambda is_few=is_few: is_few)
        for is_few in (True, False)
    )
    assert (few.together().rows, enough.together().rows) == (("hide", "other"), ())
    shared = few.lane_pipeline(["other"])
    assert shared is not None
    assert [each.name for each in shared.members] == ["hide", "other"]
    assert enough.lane_pipeline(["other"]) == ALL["other"]
    assert few.lane_pipeline(["third"]) is None  # it is refused: nothing of it is copied
    assert not few.has_changed(shared)
    few.learn({"other": Pipeline("other", (Where("false"),))}, {})
    assert few.has_changed(shared)


def test_one_that_fails_goes_on_by_itself_and_the_others_together() -> None:
    """Given three pipelines of one lane / when a record of one fails / then only its partition

    stops, in its own pipeline's name, and this pipeline shares a lane no more.
    """
    lane = Shared()
    at = PARTITIONS["other"]
    lane.fail(SQL)
    lane.fail(SQL, Suspect(at, 0, 64))
    lane.fail(SQL, Suspect(at, 3, 4))
    specs = {each: replace(SPEC, source=each, pipeline=name) for name, each in PARTITIONS.items()}
    found = lane.faults.marked(specs)
    assert [found[each].fails_at for each in PARTITIONS.values()] == [-1, 3, -1]
    assert found[at].why_fails.startswith("pipeline other fails at source offset 3: ")
    assert lane.faults.together().rows == ("hide", "third")
    assert lane.faults.lane_pipeline(["other"]) == ALL["other"]


def test_a_killed_worker_parts_no_pipeline_but_rounds_that_fail_blindly_part_all() -> None:
    lane = Shared()
    lane.fail(CRASH)
    lane.fail(CRASH, Suspect(PARTITIONS["hide"], 0, 64))
    assert len(lane.faults.together().rows) == 3
    for _ in range(CRASHES):
        lane.fail(CRASH)
    assert lane.faults.together().rows == ()
