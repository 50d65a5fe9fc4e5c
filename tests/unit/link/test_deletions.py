"""A driver's looks at log starts, and what it deletes: against simulated clusters."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
from sim.sim_clock import SimClock
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.link.deletions import DeletionFollower
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.offset_map import Break, MapReader, OffsetMap
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, PartitionState
from heliostat.topics.deletion_rule import DeletionRule

APP = TopicName("app-x-repartition")
ORDERS = TopicName("orders")
BY_DEFAULT = DeletionRule(follows=True, why="by default", needs_exact=True)
LISTED = DeletionRule(follows=True, why="listed")
RECORDS = 20


class Pair:
    """Two simulated clusters with the same topics, and a driver that follows."""

    def __init__(self) -> None:
        self.source, self.target = SimulatedCluster(), SimulatedCluster()
        for cluster in (self.source, self.target):
            for name in (APP, ORDERS):
                cluster.create(name, 1)
                cluster.append(name, RECORDS)
        self.rules = {APP: BY_DEFAULT, ORDERS: LISTED}
        self.specs = {one(name): self.spec(name) for name in (APP, ORDERS)}
        self.state = PartitionState.COPYING
        self.position = RECORDS
        self.gaps = Mock()
        self.gaps.noted.side_effect = lambda _: Offset(self.position)
        self.gaps.others_before.return_value = {}
        self.maps = MapReader()
        self.unread: dict[TopicPartition, Offset] = {}
        self.clock = SimClock(0)
        self.events = Mock()
        self.restart()

    def restart(self) -> None:
        """Begin with another driver."""
        self.admin = SimulatedAdmin(self.source)
        self.driver = DeletionFollower(
            self.admin,
            SimulatedAdmin(self.target),
            gaps=self.gaps,
            maps=lambda: self.maps,
            unread=lambda _: self.unread,
            pause_max_s=lambda: 120,
            clock=self.clock,
            events=self.events,
        )

    def spec(self, name: TopicName) -> PartitionSpec:
        ids = self.source.topics[name].topic_id, self.target.topics[name].topic_id
        return PartitionSpec(one(name), one(name), *ids, Offset(0), 10**6, is_compacted=False)

    def turn(self, count: int = 1) -> tuple[str, ...]:
        for _ in range(count):
            self.clock.sleep(10)
            notes = self.driver.turn(self.rules, self.specs, self.reports)
        return notes

    def reports(self) -> list[PartitionReport]:
        return [
            PartitionReport(source, source, self.state, self.position, *([0] * 6))
            for source in self.specs
        ]

    def delete(self, name: TopicName, before: int) -> None:
        answers = SimulatedAdmin(self.source).delete_records({one(name): Offset(before)})
        assert answers == {one(name): before}

    def begins(self, name: TopicName) -> int:
        return self.target.topics[name].logs[0].start

    def told(self) -> list[str]:
        return [call.args[0] for call in self.events.info.call_args_list]


def one(name: TopicName) -> TopicPartition:
    return TopicPartition(name, PartitionId(0))


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.mark.parametrize("name", [APP, ORDERS])
def test_a_move_goes_from_the_mirror_with_the_second_look_and_is_told(
    pair: Pair, name: TopicName
) -> None:
    pair.turn()
    pair.delete(name, 7)
    assert pair.turn() == ()
    assert pair.begins(name) == 0
    assert pair.turn() == ()
    assert pair.begins(name) == 7
    (text,) = pair.told()
    assert text.startswith(f"{name}: 7 offsets that the source has deleted")
    pair.turn(3)
    assert len(pair.target.asked("delete_records")) == 1


def test_a_topic_without_a_rule_is_neither_asked_for_nor_changed(pair: Pair) -> None:
    del pair.rules[ORDERS]
    pair.turn()
    pair.delete(ORDERS, 7)
    pair.turn(3)
    assert pair.begins(ORDERS) == 0
    assert all(one(ORDERS) not in asked for asked in pair.source.asked("list_offsets"))
    pair.rules.clear()
    before = len(pair.source.asked("list_offsets"))
    pair.turn(3)
    assert len(pair.source.asked("list_offsets")) == before


def test_a_start_found_by_a_new_driver_is_told_and_goes_with_the_next_move(pair: Pair) -> None:
    pair.delete(APP, 7)
    notes = pair.turn(4)
    assert pair.begins(APP) == 0
    (note,) = notes
    assert note.startswith(f"{APP} is to lose records that the source deleted while this driver")
    pair.delete(APP, 8)
    assert pair.turn(2) == ()
    assert pair.begins(APP) == 8


def test_after_a_long_pause_a_start_counts_as_found(pair: Pair) -> None:
    pair.turn(2)
    pair.delete(APP, 7)
    pair.clock.sleep(121)
    assert len(pair.turn(4)) == 1
    assert pair.begins(APP) == 0


def test_settings_count_before_and_after_a_move(pair: Pair) -> None:
    """Given a rule that does not hold at one of the looks / then the move is no move."""
    pair.turn()
    pair.delete(APP, 7)
    pair.turn()
    del pair.rules[APP]
    pair.turn()
    pair.rules[APP] = BY_DEFAULT
    assert len(pair.turn(3)) == 1
    assert pair.begins(APP) == 0


def test_never_beyond_the_position_and_the_rest_as_it_is_copied(pair: Pair) -> None:
    pair.position = 5
    pair.turn()
    pair.delete(ORDERS, 9)
    pair.turn(3)
    assert pair.begins(ORDERS) == 5
    pair.position = 12
    pair.turn()
    assert pair.begins(ORDERS) == 9


def test_a_mirror_that_is_emptied_waits_for_the_note_of_its_progress(pair: Pair) -> None:
    pair.gaps.noted.side_effect = lambda _: Offset(15)
    pair.turn()
    pair.delete(ORDERS, RECORDS)
    pair.turn(2)
    assert pair.begins(ORDERS) == 15
    pair.gaps.noted.side_effect = lambda _: Offset(RECORDS)
    pair.turn()
    assert pair.begins(ORDERS) == RECORDS


@pytest.mark.parametrize(
    "state", [state for state in PartitionState if state is not PartitionState.COPYING]
)
def test_nothing_goes_while_a_mirror_is_not_copied(pair: Pair, state: PartitionState) -> None:
    """One that others write into is stopped: it may be in use there."""
    pair.turn()
    pair.delete(ORDERS, 7)
    pair.state = state
    pair.turn(3)
    assert pair.begins(ORDERS) == 0
    pair.state = PartitionState.COPYING
    pair.turn()
    assert pair.begins(ORDERS) == 7


def test_a_mapped_mirror_follows_by_its_map_if_it_is_listed(pair: Pair) -> None:
    """Given transactions at the source / then the offsets at the target are others."""
    for name in (APP, ORDERS):
        key = one(name), id_text(pair.target.topics[name].topic_id)
        pair.maps.maps[key] = OffsetMap.of([Break(4, 6)])
    pair.turn()
    pair.delete(APP, 9)
    pair.delete(ORDERS, 9)
    notes = pair.turn(3)
    assert (pair.begins(APP), pair.begins(ORDERS)) == (0, 7)
    assert len(notes) == 1
    assert "its offsets differ" in notes[0]


@pytest.mark.parametrize("is_adopted", [True, False])
def test_records_of_others_keep_all_before_them_until_they_are_gone(
    pair: Pair, *, is_adopted: bool
) -> None:
    if is_adopted:
        pair.specs[one(ORDERS)] = replace(pair.specs[one(ORDERS)], adopted_at=Offset(3))
    else:
        name = one(ORDERS), id_text(pair.target.topics[ORDERS].topic_id)
        pair.gaps.others_before.return_value = {name: Offset(3)}
    pair.turn()
    pair.delete(ORDERS, 9)
    (note,) = pair.turn(3)
    assert "records of others" in note
    assert pair.begins(ORDERS) == 0
    assert SimulatedAdmin(pair.target).delete_records({one(ORDERS): Offset(3)})
    assert pair.turn(2) == ()
    assert pair.begins(ORDERS) == 9


def test_what_a_group_has_not_read_at_the_target_stays_by_default(pair: Pair) -> None:
    pair.unread = {one(APP): Offset(4)}
    pair.turn()
    pair.delete(APP, 9)
    pair.turn(3)
    assert pair.begins(APP) == 4
    pair.unread = {one(APP): Offset(11)}
    pair.turn()
    assert pair.begins(APP) == 9


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_is_made_anew_begins_anew(pair: Pair, side: str) -> None:
    """Given a topic of the same name at one side / then nothing of the former one counts."""
    pair.turn()
    pair.delete(ORDERS, 9)
    pair.turn()
    cluster = getattr(pair, side)
    SimulatedAdmin(cluster).delete_topics([ORDERS])
    cluster.create(ORDERS, 1)
    cluster.append(ORDERS, RECORDS)
    pair.turn(2)  # the plan does not know it yet
    assert pair.begins(ORDERS) == 0
    pair.specs[one(ORDERS)] = pair.spec(ORDERS)
    pair.turn(3)
    assert pair.begins(ORDERS) == 0


def test_a_deposed_leader_is_not_believed(pair: Pair) -> None:
    """Given a broker that was deposed and has more of the log deleted / then nothing goes."""
    pair.turn()
    pair.source.depose()
    assert pair.source.deposed is not None
    pair.source.deposed[ORDERS].logs[0].start = 15
    for _ in range(4):
        pair.admin._confirmed.clear()  # who has not asked all brokers hears the deposed one
        pair.turn()
    assert pair.begins(ORDERS) == 0


def test_a_refusal_is_told_once_and_tried_again(pair: Pair) -> None:
    pair.turn()
    pair.delete(ORDERS, 9)
    pair.target.fail("delete_records", 29, one(ORDERS), times=3)
    notes = pair.turn(4)
    (note,) = notes
    assert note.startswith(
        "orders is left with what the source deletes: the target does not delete"
    )
    assert "TOPIC_AUTHORIZATION_FAILED" in note
    pair.events.warn.assert_called_once()
    assert pair.turn(2) == ()
    assert pair.begins(ORDERS) == 9


def test_a_topic_that_is_always_trimmed_is_told_once_an_hour(pair: Pair) -> None:
    pair.turn()
    for before in range(1, 11):
        pair.delete(APP, before)
        pair.turn(2)
    assert len(pair.told()) == 1
    pair.clock.sleep(100)
    for _ in range(37):
        pair.clock.sleep(90)
        pair.turn()
    pair.delete(APP, 12)
    pair.turn(2)
    assert [text.split()[1] for text in pair.told()] == ["1", "11"]
