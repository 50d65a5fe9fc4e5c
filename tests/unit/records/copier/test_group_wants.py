"""The fetch request of a group is built once, and updated for partitions that changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from heliostat.records.copier.group_wants import ANEW_EVERY_S, GroupWants
from heliostat.records.copier.network import Want


class Item:
    """A partition that counts how often it is asked."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.asked = 0
        self.offset: int | None = 5

    def want(self, now_s: float) -> Want | None:
        self.asked += 1
        return None if self.offset is None else Want(self.index, 0, self.offset, 100)

    def want_nothing(self) -> Want:
        return Want(self.index, 0, 0, 0)


def items(count: int = 3) -> Any:
    return [Item(index) for index in range(count)]


def test_only_changed_partitions_are_asked_again():
    wants, group = GroupWants(), items()
    first = wants.of(group, 1.0)
    group[1].offset = 6
    wants.answered(1)
    second = wants.of(group, 1.0)
    assert [want.offset for want in second] == [5, 6, 5]
    assert [item.asked for item in group] == [1, 2, 1]
    assert second[0] is first[0]


def test_partitions_without_wants_are_asked_each_time():
    wants, group = GroupWants(), items()
    group[0].offset = None
    assert [want.bytes_max for want in wants.of(group, 1.0)] == [0, 100, 100]
    group[0].offset = 5
    assert [want.bytes_max for want in wants.of(group, 1.0)] == [100, 100, 100]


def test_a_group_that_wants_nothing_is_not_fetched():
    nothing: Any = [SimpleNamespace(index=0, want=lambda _: None, want_nothing=lambda: None)]
    assert GroupWants().of(nothing, 1.0) == []


def test_all_are_asked_again_after_an_error_and_from_time_to_time():
    wants, group = GroupWants(), items(1)
    wants.of(group, 1.0)
    wants.forget()
    wants.of(group, 1.0)
    wants.of(group, 1.0 + ANEW_EVERY_S)
    assert group[0].asked == 3


KEY: Any = (1, 0)


def settled() -> tuple[GroupWants, Any]:
    wants, group = GroupWants(), items()
    wants.settle(KEY, group, wants.of(group, 1.0))
    assert wants.is_settled(KEY, group, 1.0)
    return wants, group


def test_a_group_of_which_compiled_code_took_records_asks_for_what_follows():
    """Given a settled group / when records are taken / then nobody is asked, but later anew."""
    wants, group = settled()
    wants.taken([1])
    assert wants.is_settled(KEY, group, 1.0)
    group[1].offset = 6
    assert [want.offset for want in wants.of(group, 1.0)] == [5, 6, 5]


def test_a_group_is_not_settled_once_anything_else_happens():
    """Given a settled group / when answered, failed, late, or another / then all are asked."""
    for change in ("answered", "forget"):
        wants, group = settled()
        getattr(wants, change)(*([0] if change == "answered" else []))
        assert not wants.is_settled(KEY, group, 1.0)
    wants, group = settled()
    assert not wants.is_settled(KEY, group, 1.0 + ANEW_EVERY_S)
    assert not wants.is_settled(KEY, items(), 1.0)


def test_a_group_in_which_somebody_wants_nothing_is_not_settled():
    """Given a partition that pauses, or none that wants anything / then it is asked each time."""
    for wanting in ([], [0]):
        wants, group = GroupWants(), items(2)
        for item in group:
            item.offset = 5 if item.index in wanting else None
        wants.settle(KEY, group, wants.of(group, 1.0))
        assert not wants.is_settled(KEY, group, 1.0)


def test_an_answer_for_a_partition_leaves_other_groups_settled():
    """Given two settled groups / when a partition of one is answered / then only that one's are

    asked again; a partition that moves is in the group that it moved to, too.
    """
    other: Any = (1, 1)
    wants, group = settled()
    others = [Item(index) for index in (7, 8)]
    wants.settle(other, others, wants.of(others, 1.0))  # type: ignore[arg-type] # a stand-in
    wants.answered(0)
    assert not wants.is_settled(KEY, group, 1.0)
    assert wants.is_settled(other, others, 1.0)  # type: ignore[arg-type] # a stand-in
    moved = [*others, group[0]]
    wants.settle(other, moved, wants.of(moved, 1.0))
    wants.settle(KEY, group, wants.of(group, 1.0))
    wants.answered(0)
    assert not wants.is_settled(other, moved, 1.0)
    assert not wants.is_settled(KEY, group, 1.0)
