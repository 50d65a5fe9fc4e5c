"""What stands in the way of copying back: lost records, others in their place, and a tail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from heliostat.gaps.source_truncation import Divergence
from heliostat.handover.promotion import PartitionPromotion
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.operate.reversing.logs import BothEnds, Comparison, LogSide
from heliostat.operate.reversing.values import Evidence
from heliostat.rescue.crossing import LOOK_BACK
from heliostat.rescue.look import LogHabits
from heliostat.verify.stream import ConsumedRecord

OLD = TopicPartition(TopicName("t"), PartitionId(0))
NEW = TopicPartition(TopicName("src.t"), PartitionId(0))
PLAIN, COMPACTS, OWN_TIMES = LogHabits(False, False), LogHabits(True, False), LogHabits(False, True)
TIME_MS = 7
Values = Mapping[int, str | None]


@dataclass
class Log:
    """A log as a consumer sees it: values by offset, holes left out; `k=v` has a key of its own."""

    values: Values
    start: int = 0
    end: int = -1
    habits: LogHabits = PLAIN
    at_ms: int = TIME_MS
    read: list[tuple[int, int]] = field(default_factory=list)

    def rows(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        self.read.append((start, stop))
        for offset, text in sorted(self.values.items()):
            if start <= offset < stop:
                key, _, value = (text or "").rpartition("=")
                content = value.encode() if value else None
                yield offset, self.at_ms, key.encode() or b"k", content, []

    def side(self, partition: TopicPartition) -> LogSide:
        end = max(self.values, default=self.start - 1) + 1 if self.end < 0 else self.end
        return LogSide(partition, Offset(self.start), Offset(end), self.habits, self.rows)


def values(text: str, start: int = 0) -> dict[int, str]:
    return dict(enumerate(text, start))


def ends(old: Log, new: Log, source_end: int, target_end: int, *breaks: Break) -> BothEnds:
    here, there = old.side(OLD), new.side(NEW)
    promotion = PartitionPromotion(Offset(source_end), Offset(target_end))
    return BothEnds(here, there, promotion, here.end, OffsetMap.of(breaks))


def compared(old: Log, new: Log, source_end: int, target_end: int, *breaks: Break) -> Comparison:
    return ends(old, new, source_end, target_end, *breaks).compare()


@pytest.mark.parametrize(
    ("old", "new", "at", "words"),
    [
        (Log(values("abc")), Log(values("abcxy")), (3, 3), ""),
        (Log(values("abcd")), Log(values("abc")), (3, 3), ""),
        (Log({1: "b", 2: "c"}, 1), Log(values("abc")), (3, 3), ""),
        (Log({}, 3), Log(values("abc")), (3, 3), ""),
        (Log(values("bc", 1), 1), Log(values("c", 2), 2), (3, 3), ""),
        (
            Log({0: "a", 3: "b"}, end=6),
            Log({0: "a", 3: "b", 6: "c"}),
            (6, 6),
            "",
        ),  # filled, aborted
        (Log(values("ab")), Log(values("abc")), (3, 3), "has lost records"),
        (Log(values("abX")), Log(values("abc")), (3, 3), "from offset 2 on are others than"),
        (Log(values("aXc")), Log(values("abc")), (3, 3), "from offset 1 on are others than"),
        (
            Log(values("aa"), end=3),
            Log(values("aaa")),
            (3, 3),
            "has from offset 2 on",
        ),
        (Log({0: "a", 2: "a"}), Log(values("aaa")), (3, 3), "has from offset 1 on"),
        (
            Log(values("aaa")),
            Log({0: "a", 2: "a"}),
            (3, 3),
            "from offset 1 on are others than",
        ),
        (
            Log({}, end=3),
            Log(values("abc")),
            (3, 3),
            "t-0 lacks records that src.t-0 has",
        ),
        (Log(values("abc")), Log({}, end=3), (3, 3), "from offset 0 on are others than"),
        (Log(values("abc")), Log(values("ab")), (3, 3), "the new primary has lost records"),
    ],
)
def test_logs_must_be_equal_below_the_promotion(
    old: Log, new: Log, at: tuple[int, int], words: str
) -> None:
    """Given both logs / when they are compared by offset / then what differs is told, at either

    side; holes that both have do not, nor what either has deleted.
    """
    why = compared(old, new, *at).why
    assert words in why
    assert bool(why) == bool(words)


def test_a_log_that_was_cut_and_filled_with_nothing_is_another_one() -> None:
    """Given an old source that lost the last of its records, and has markers there now / when it is

    compared / then what it lacks is told, however far back its last record is.
    """
    old = Log({offset: f"a{offset}" for offset in range(400)}, end=500)
    new = Log({offset: f"b{offset}" for offset in range(500)})
    assert "from offset 0 on are others than" in compared(old, new, 500, 500).why
    new = Log({offset: f"a{offset}" for offset in range(500)})
    assert "has from offset 400 on" in compared(old, new, 500, 500).why


def test_it_is_looked_back_until_an_equal_record_proves_it() -> None:
    """Given long logs / when they are compared / then the last are read; others that reach back

    further than that are seen to their first.
    """
    count = 2 * LOOK_BACK
    old, new = (Log({offset: f"a{offset}" for offset in range(count)}) for _ in range(2))
    assert compared(old, new, count, count) == Comparison("", Evidence.RECORDS)
    assert {start for start, _ in (*old.read, *new.read)} == {count - LOOK_BACK, count} - {count}
    old.values = {offset: "a0" if offset == 0 else f"b{offset}" for offset in range(count)}
    assert "from offset 1 on are others than" in compared(old, new, count, count).why


CLEANED = {0: "k=1", 1: "l=2", 2: "k=3"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (Log(CLEANED), Log({1: "l=2", 2: "k=3"}, habits=COMPACTS), ""),
        (Log({1: "l=2", 2: "k=3"}, habits=COMPACTS), Log(CLEANED), ""),
        (Log({1: "l=2"}, end=3, habits=COMPACTS), Log({**CLEANED, 2: "k="}), ""),
        (Log(CLEANED), Log({1: "l=2", 7: "k=9"}, habits=COMPACTS), ""),
        (Log({0: "a", 2: "c"}, habits=COMPACTS), Log(values("abc")), ""),
        (Log(values("abc")), Log({0: "a", 2: "c"}, habits=COMPACTS), ""),
        (Log({1: "l=2", 2: "k=3"}), Log(CLEANED), "lacks records"),
        (Log(CLEANED), Log({1: "l=2", 2: "k=3"}), "are others than"),
        (Log({0: "k=1", 2: "k=3"}, habits=COMPACTS), Log(CLEANED), "has from offset 1 on"),
        (Log({0: "k=1", 1: "l=2"}, end=3, habits=COMPACTS), Log({**CLEANED, 2: "k="}), "offset 2"),
        (Log({0: "k=X", 2: "k=3"}, habits=COMPACTS), Log({0: "k=1", 2: "k=3"}), "from offset 0"),
    ],
)
def test_either_side_may_have_cleaned_records_away(old: Log, new: Log, words: str) -> None:
    """Given a side that compacts / when a record is gone whose key came later, or a tombstone /

    then the logs are equal; not where nothing of the key came, or a tombstone has cleaned nothing.
    """
    why = compared(old, replace(new, end=max(3, new.side(NEW).end)), 3, 3).why
    assert words in why
    assert bool(why) == bool(words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (Log({0: "a", 2: "b", 4: "c"}, end=6), Log(values("abc")), ""),
        (Log({0: "a", 2: "b"}, end=6, habits=COMPACTS), Log(values("aba")), "lacks records"),
        (Log({2: "b", 4: "c"}, 1, 6), Log(values("abc")), ""),
        (Log({0: "a", 2: "b", 4: "c"}, end=6), Log({2: "c"}, 2), ""),
        (Log({0: "a", 2: "b", 4: "X"}, end=6), Log(values("abc")), "from offset 4 on are others"),
        (Log({0: "a", 1: "N", 2: "b", 4: "c"}, end=6), Log(values("abc")), "from offset 1 on are"),
        (Log({0: "a", 4: "c"}, end=6), Log(values("abc")), "has from offset 1 on"),
    ],
)
def test_where_offsets_differ_the_map_says_where_a_record_is(
    old: Log, new: Log, words: str
) -> None:
    """Given an old source with markers, and a mirror without / when compared / then by its map."""
    breaks = Break(1, 2), Break(2, 4), Break(3, 5)
    why = compared(old, new, 5, 3, *breaks).why
    assert words in why
    assert bool(why) == bool(words)


def test_a_tail_that_was_kept_before_is_no_copy() -> None:
    """Given a way back behind a kept tail / when turned round again / then nothing differs."""
    new, old = Log(values("abTUcd")), Log(values("abcd"))
    assert compared(old, new, 4, 6, Break(4, 2)) == Comparison("", Evidence.RECORDS)
    assert "lacks" in compared(Log(values("abc"), end=4), new, 4, 6, Break(4, 2)).why


@pytest.mark.parametrize("at", [None, Offset(2)])
def test_what_leader_epochs_say_was_lost_is_lost(at: Offset | None) -> None:
    """Given logs that look equal / when the old source's epochs say that it was cut / then not."""
    both = ends(Log(values("aaa")), Log(values("aaa")), 3, 3)
    cut = replace(both, has_epoch=True, truncated=Divergence(at)).compare()
    assert "the leader epochs of t-0 say that it lost records" in cut.why
    assert ("from offset 2" in cut.why) == (at is not None)
    assert not replace(both, has_epoch=True).compare().why


def test_where_nothing_is_left_to_compare_leader_epochs_decide() -> None:
    """Given a new primary that has deleted all that was copied / when it is compared / then what

    shows it is told, and where there is nothing, that it can't be known.
    """
    both = ends(Log(values("abc")), Log({5: "x"}, 5), 3, 3)
    assert replace(both, has_epoch=True).compare() == Comparison("", Evidence.LEADER_EPOCHS)
    assert "no leader epoch shows" in both.compare().why
    part = ends(Log(values("abc")), Log({3: "x"}, 2), 3, 3)  # offset 2 is a hole at the new primary
    assert "from offset 2 on are others" in part.compare().why
    both = ends(Log({}, 3), Log({5: "x"}, 5), 3, 3)
    assert both.compare() == Comparison("", Evidence.NOTHING_THERE)
    assert ends(Log({}), Log({}), 0, 0).compare() == Comparison("", Evidence.NOTHING_THERE)


def test_timestamps_count_unless_a_side_stamps_its_own() -> None:
    """Given equal records of other times / when compared / then they differ only by CreateTime."""
    new = Log(values("abc"))
    assert "others" in compared(Log(values("abc"), at_ms=9), new, 3, 3).why
    assert not compared(Log(values("abc"), at_ms=9, habits=OWN_TIMES), new, 3, 3).why
    assert not compared(Log(values("abc"), at_ms=9), replace(new, habits=OWN_TIMES), 3, 3).why


def test_what_can_not_be_read_or_was_lost_here_is_not_made_anew() -> None:
    """Given records that are not committed, or a new primary that lost some / when compared / then

    the old source's log must stay, whatever is asked for.
    """
    both = ends(Log(values("abcde")), Log(values("abc")), 3, 3)
    waits = replace(both, old=replace(both.old, end=Offset(4))).compare()
    assert "can't be read from offset 4 on: a transaction is open" in waits.why
    assert waits.must_stay
    assert compared(Log(values("abc")), Log(values("ab")), 3, 3).must_stay
    assert not compared(Log(values("abX")), Log(values("abc")), 3, 3).must_stay


@pytest.mark.parametrize(
    ("old", "tail"),
    [
        (Log(values("abc")), 0),
        (Log(values("abc"), end=5), 0),  # markers, and records of aborted transactions
        (Log({**values("abc"), 4: "d"}, end=6), 2),
    ],
)
def test_a_tail_is_what_a_reader_of_committed_records_sees(old: Log, tail: int) -> None:
    """Given offsets behind the promotion / when none can be read / then they are no tail."""
    assert compared(old, Log(values("abc")), 3, 3) == Comparison("", Evidence.RECORDS, tail)
