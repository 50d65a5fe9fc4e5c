"""Which records of a returned source never crossed, by the contents of both logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from heliostat.names import Offset
from heliostat.rescue.crossing import LOOK_BACK, CrossingFacts, Uncrossed, uncrossed
from heliostat.verify.stream import ConsumedRecord

Rows = dict[int, tuple[bytes | None, bytes | None]]


@dataclass
class Logs:
    """Two logs in memory: key and value by offset."""

    at_source: Rows
    at_target: Rows
    read: list[tuple[int, int]] = field(default_factory=list)

    def source(self, start: int, stop: int) -> Iterable[ConsumedRecord]:
        self.read.append((start, stop))
        return _rows(self.at_source, start, stop)

    def target(self, start: int, stop: int | None) -> Iterable[ConsumedRecord]:
        return _rows(self.at_target, start, stop)


def _rows(log: Rows, start: int, stop: int | None) -> Iterable[ConsumedRecord]:
    return [
        (offset, 1_000 + offset, key, value, [])
        for offset, (key, value) in sorted(log.items())
        if start <= offset and (stop is None or offset < stop)
    ]


def log(*offsets: int, word: str = "a") -> Rows:
    return {offset: (b"k%d" % offset, f"{word}{offset}".encode()) for offset in offsets}


def facts(mirror_end: int, source_end: int, **more: Any) -> CrossingFacts:
    plain = CrossingFacts(
        *(Offset(0), Offset(source_end), Offset(0)), Offset(mirror_end), Offset(mirror_end)
    )
    return replace(plain, **more)


def same(offset: int) -> int | None:
    return offset


def test_what_the_source_has_behind_the_mirrors_end_never_crossed() -> None:
    """Given logs equal up to the mirror's end / when others have written at the target since /

    then the tail begins at the mirror's end, and only the last of the log is compared.
    """
    logs = Logs(log(*range(9_000)), log(*range(8_000)) | log(8_000, 8_001, word="new"))
    tail = uncrossed(facts(8_000, 9_000), logs, same)
    assert tail == Uncrossed(Offset(8_000), (), LOOK_BACK, is_proved=True)
    assert not tail.holds(7_999)
    assert tail.holds(8_000)


def test_an_unclean_election_put_others_at_offsets_that_were_copied() -> None:
    """Given a source that lost 5,000 copied records and took others / when the logs are compared /

    then the tail begins at the first other one, though more than a look back differs.
    """
    ours = log(*range(3_000)) | log(*range(3_000, 9_000), word="other")
    logs = Logs(ours, log(*range(8_000)))
    tail = uncrossed(facts(8_000, 9_000), logs, same)
    assert tail.first == 3_000
    assert [start for start, _ in logs.read] == [6_000, 0]


def test_a_record_that_is_equal_behind_one_that_differs_has_crossed() -> None:
    """Given a lost record, then an equal one / when compared / then only the first is the tail."""
    ours = log(*range(8)) | log(8, word="other") | log(9, 10)
    tail = uncrossed(facts(10, 11), Logs(ours, log(*range(10))), same)
    assert [offset for offset in range(11) if tail.holds(offset)] == [8, 10]
    assert tail.equal == ((9, 10),)


def test_a_source_that_lost_records_and_took_none_has_no_tail_there() -> None:
    """Given a source shorter than its mirror / when compared / then nothing of it is a tail."""
    tail = uncrossed(facts(10, 7), Logs(log(*range(7)), log(*range(10))), same)
    assert not any(tail.holds(offset) for offset in range(7))


def test_what_a_compacted_target_cleaned_away_has_crossed() -> None:
    """Given a target that has a later record of the key, or lost a tombstone / when compared /

    then these crossed; a record whose key is nowhere at the target did not.
    """
    ours = {0: (b"a", b"1"), 1: (b"b", b"2"), 2: (b"gone", None), 3: (b"c", b"3"), 4: (b"d", b"4")}
    theirs: Rows = {0: (b"a", b"1"), 4: (b"d", b"4"), 5: (b"b", b"new")}
    tail = uncrossed(facts(5, 5, compacts=True), Logs(dict(ours), theirs), same)
    assert [offset for offset in range(5) if tail.holds(offset)] == [3]
    plain = uncrossed(facts(5, 5), Logs(dict(ours), theirs), same)
    assert [offset for offset in range(5) if plain.holds(offset)] == [1, 2, 3]


def test_an_earlier_record_of_the_key_has_not_replaced_it() -> None:
    """Given a key whose only record at the target is earlier / when compared / then it is tail."""
    ours: Rows = {0: (b"a", b"1"), 1: (b"a", b"2"), 2: (b"z", b"3")}
    theirs: Rows = {0: (b"a", b"1"), 2: (b"z", b"3")}
    tail = uncrossed(facts(3, 3, compacts=True), Logs(ours, theirs), same)
    assert [offset for offset in range(3) if tail.holds(offset)] == [1]


def test_a_tombstone_takes_what_is_before_it_along() -> None:
    """Given a record and its tombstone that the target cleaned away / when compared / then both

    crossed; but a tombstone did not while the target has an earlier record of its key.
    """
    ours: Rows = {0: (b"z", b"1"), 1: (b"a", b"2"), 2: (b"a", None), 3: (b"z", b"3")}
    theirs: Rows = {0: (b"z", b"1"), 3: (b"z", b"3")}
    tail = uncrossed(facts(4, 4, compacts=True), Logs(dict(ours), theirs), same)
    assert tail == Uncrossed(Offset(4), (), 4, is_proved=True)
    theirs |= {1: (b"a", b"2")}
    tail = uncrossed(facts(4, 4, compacts=True), Logs(dict(ours), theirs), same)
    assert [offset for offset in range(4) if tail.holds(offset)] == [2]


def test_where_offsets_differ_the_map_says_where_a_record_is() -> None:
    """Given a mapped mirror whose source has a hole / when compared / then nothing differs; a

    record that stands where the map has a hole came after the copy.
    """
    ours, theirs = log(0, 1, 5, 6), {n: log(s)[s] for n, s in enumerate((0, 1, 5, 6))}
    place = {0: 0, 1: 1, 5: 2, 6: 3}.get
    # Timestamps follow the offsets here, so the target stamps its own.
    about = facts(7, 7, target_end=Offset(4), has_own_times=True)
    assert uncrossed(about, Logs(ours, theirs), place).first == 7
    ours |= log(3)
    assert uncrossed(about, Logs(ours, theirs), place).first == 3


def test_where_nothing_can_be_compared_leader_epochs_decide() -> None:
    """Given a target that deleted all since / when compared / then the tail begins at the mirror's

    end, or earlier where the source's leader epochs say that it lost copied records.
    """
    logs = Logs(log(*range(20)), {})
    about = facts(10, 20, target_start=Offset(10))
    assert uncrossed(about, logs, same) == Uncrossed(Offset(10))
    assert uncrossed(replace(about, truncated_from=Offset(6)), logs, same).first == 6


def test_timestamps_count_unless_the_target_stamps_its_own() -> None:
    """Given equal records of other times / when compared / then they differ only by CreateTime."""

    class Later(Logs):
        @override
        def source(self, start: int, stop: int) -> Iterable[ConsumedRecord]:
            for offset, time_ms, key, value, headers in super().source(start, stop):
                yield offset, time_ms + 1, key, value, headers

    logs = Later(log(0, 1), log(0, 1))
    assert uncrossed(facts(2, 2), logs, same).first == 0
    assert uncrossed(facts(2, 2, has_own_times=True), logs, same).first == 2
