"""Rows and decisions are read back unchanged, and decisions apply only to their own stop."""

from __future__ import annotations

from typing import Any

import pytest
from support.ledger import KeptTopic, ledger_on

from heliostat.clusters.keyed_topic import Change
from heliostat.errors import ProtocolError
from heliostat.gaps.choices import Cause, GapChoice
from heliostat.gaps.ledger import CopiedTopic, CopyNote, GapDecision, GapRow, gaps_topic
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break

T = TopicName("t/with.odd-name")


@pytest.fixture
def memory() -> KeptTopic:
    return KeptTopic()


def row(at_ms: int = 5, partition: int = 0, **changes: Any) -> GapRow:
    fields: dict[str, Any] = {
        "topic": T,
        "partition": PartitionId(partition),
        "first": Offset(10),
        "last": Offset(19),
        "count": 10,
        "cause": Cause.SOURCE_OVERTOOK,
        "at_ms": at_ms,
        "choice": GapChoice.CONTINUE,
        "decided_by": "policy",
        "mirror": T,
        "source_id": "s",
        "target_id": "t",
        "jump": Break(10, 20),
        **changes,
    }
    return GapRow(**fields)


def decision(partition: int | None = 0, code: str = "SOURCE_OVERTOOK") -> GapDecision:
    which = None if partition is None else PartitionId(partition)
    return GapDecision(T, which, code, GapChoice.RESTART, "ops", 7)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"last": None, "count": None},
        {"jump": None, "is_done": False},
        {"mirror_partition": PartitionId(7)},
    ],
)
def test_rows_are_read_back_as_written(memory: KeptTopic, changes: dict[str, Any]) -> None:
    written, read = ledger_on(memory), ledger_on(memory)
    written.record([row(**changes)])
    read.read()
    assert list(read.rows.values()) == [row(**changes)]


def test_decisions_are_read_apply_to_their_stop_and_are_removed(memory: KeptTopic) -> None:
    operator, driver = ledger_on(memory), ledger_on(memory)
    driver.read()
    operator.decide(decision())
    memory.news = [Change(key, value, Offset(0), 0) for key, value in memory.kept.items()]
    driver.consume()
    assert driver.decision_for(T, PartitionId(0), "SOURCE_OVERTOOK") == decision()
    assert driver.decision_for(T, PartitionId(0), "SOURCE_TRUNCATED") is None
    assert driver.decision_for(T, PartitionId(1), "SOURCE_OVERTOOK") is None
    driver.forget(decision())
    assert driver.decision_for(T, PartitionId(0), "SOURCE_OVERTOOK") is None
    assert memory.kept == {}


def test_a_decision_about_a_topic_holds_for_its_partitions(memory: KeptTopic) -> None:
    ledger = ledger_on(memory)
    ledger.decide(decision(partition=None))
    assert ledger.decision_for(T, PartitionId(3), "SOURCE_OVERTOOK") == decision(partition=None)
    assert ledger.decision_for(T, None, "SOURCE_OVERTOOK") == decision(partition=None)


def test_the_last_jump_that_was_written_counts(memory: KeptTopic) -> None:
    """Given a row from when a clock was ahead / then a later one counts, whatever its time."""
    ledger = ledger_on(memory)
    last = row(at_ms=5, jump=Break(30, 70))
    ledger.record([row(at_ms=600_000)])
    ledger.record([last, row(at_ms=11, jump=None), row(partition=1)])
    for _ in range(2):
        jumps = ledger.jumps()
        assert jumps[TopicPartition(T, PartitionId(0))] == last
        assert jumps[TopicPartition(T, PartitionId(1))] == row(partition=1)
        ledger.read()


def test_no_row_takes_the_place_of_another_of_its_time(memory: KeptTopic) -> None:
    """Given a clock that went back / when another row has its time / then both are kept; that a

    row is done is written over it.
    """
    ledger, other = ledger_on(memory), row(first=Offset(20), is_done=False)
    ledger.record([row(), other])
    assert [each.first for each in ledger.rows.values()] == [10, 20]
    ledger.record([other.done()])
    assert [each.is_done for each in ledger.rows.values()] == [True, True]
    assert len(memory.kept) == 2


def test_a_deleted_ledger_is_recreated_with_all_rows(memory: KeptTopic) -> None:
    ledger = ledger_on(memory)
    ledger.record([row()])
    ledger.decide(decision())
    ledger.put_copied({T: CopiedTopic("s", {PartitionId(2): CopyNote(40, 3)})})
    kept = dict(memory.kept)
    memory.kept.clear()
    ledger.restore()
    assert memory.kept == kept
    fresh = ledger_on(memory)
    fresh.read()
    assert (fresh.rows, fresh.decisions, fresh.copied) == (
        ledger.rows,
        ledger.decisions,
        ledger.copied,
    )


def test_its_name() -> None:
    assert gaps_topic(LinkName("l")) == "heliostat.l.gaps"


@pytest.mark.parametrize("key", ["gap/t/0/5", "decision/t/0/CODE", "copied/t"])
@pytest.mark.parametrize("value", [{}, {"topic": 5}, {"partitions": []}, {"last": 1, "jump": 3}])
def test_a_record_that_is_no_row_is_reported_with_its_key(
    memory: KeptTopic, key: str, value: dict[str, Any]
) -> None:
    """Given JSON that others wrote / when read, or received / then an error with its key."""
    ledger = ledger_on(memory)
    memory.kept[key] = value
    with pytest.raises(ProtocolError, match=key):
        ledger.read()
    memory.kept.clear()
    memory.news.append(Change(key, value, Offset(1), 0))
    with pytest.raises(ProtocolError, match="not a row of ours"):
        ledger.consume()
