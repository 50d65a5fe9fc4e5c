"""What proves that own records of a merged partition are the source's, and what does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from unit.rebuild.test_proof import COMPACTS, KEEPS, Both, Log, letters
from unit.verify.test_origin import FORMER, IDS, OTHER, OWN, P, Written, values
from unit.verify.test_origin import Log as TargetLog

from heliostat.clusters.producer_rows import ProducersTopic
from heliostat.errors import Refused
from heliostat.gaps.ledger import CopyNote
from heliostat.merge.own_end import OwnNote
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, ProducerId, TopicId, TopicName
from heliostat.offsets.map_rows import KEPT_VALUE, KeptFrom, RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapReader, MapRow
from heliostat.rebuild import merged_state
from heliostat.rebuild.merged_map import MergedProof, merged_proof
from heliostat.rebuild.merged_maps import Settling
from heliostat.rebuild.merged_state import OwnIds, own_ids, unproven_after
from heliostat.rebuild.offset_maps import put_map
from heliostat.rebuild.own_records import NOT_TOLD, OwnCount, OwnView, _more, own_view
from heliostat.rebuild.plan import MergedStand, PartitionRebuild, RebuildPlan, TopicRebuild
from heliostat.rebuild.proof import Kind, MirrorStanding, NotProved, Proof
from heliostat.state.link_state import Starts, Stored
from heliostat.state.merged_notes import StoredNotes
from heliostat.topics.values import MirrorRecord
from heliostat.verify.places import Places
from heliostat.verify.reader import Bounds

ID = TopicId(int=7)
ORDERS, NEWER, OLDER = TopicName("orders"), TopicName("newer"), TopicName("older")


def proved(source: Log, own: Log, numbers: tuple[int, int], **known: Any) -> MergedProof:
    start = known.pop("source_start", 0)
    there = Bounds(start, max(source, default=start - 1) + 1)
    rule = known.pop("rule", KEEPS)
    standing = MirrorStanding(there, Bounds(*numbers), rule, **known)
    return merged_proof(Both(source, own), standing, Offset(4))


def refused(source: Log, own: Log, numbers: tuple[int, int], **known: Any) -> str:
    with pytest.raises(NotProved) as caught:
        proved(source, own, numbers, **known)
    return str(caught.value)


def test_own_records_show_where_each_is_from_and_where_copying_goes_on() -> None:
    """Given a source with others' records in between, which are holes / then the map has them."""
    found = proved({0: "A", 3: "B", 4: "C", 9: "D", 12: "E"}, letters("ABCD"), (0, 4))
    assert found.proof.breaks == (Break(1, 3), Break(3, 9))
    assert (found.proof.position, found.proof.compared, found.known_from) == (10, 4, 0)


def test_of_what_retention_took_the_map_is_not_known() -> None:
    source = {5: "C", 9: "D", 12: "E"}
    found = proved(source, letters("CD", 2), (2, 4), source_start=5)
    assert found.proof.breaks == (Break(0, 3), Break(3, 9))
    assert (found.proof.position, found.known_from) == (10, 2)


def test_equal_offsets_are_a_map_as_well() -> None:
    found = proved(letters("ABCD"), letters("ABC"), (0, 3))
    assert (found.proof.kind, found.proof.breaks, found.proof.position) == (Kind.EXACT, (), 3)
    # A mirror that began at 5, and was merged in place: numbers begin there.
    found = proved(letters("ABCD", 5), letters("ABC", 5), (5, 8), source_start=5)
    assert (found.proof.breaks, found.proof.position, found.known_from) == ((), 8, 5)


@pytest.mark.parametrize(
    ("source", "own", "text"),
    [
        ({0: "A", 3: "B", 4: "B", 9: "D"}, "AB", "may be source offset 3 or 4"),  # alike in a row
        ({0: "A", 3: "B", 9: "D"}, "AXD", "no record like target offset 1"),  # lost at the source
        ({0: "A", 3: "B", 9: "D"}, "AD", "source offset 3 is missing"),  # never crossed
        ({0: "X"}, "AB", "no record like target offset 1"),
    ],
)
def test_what_is_not_told_by_both_logs_in_one_way_is_refused(
    source: Log, own: str, text: str
) -> None:
    assert text in refused(source, letters(own), (0, len(own)))


def test_a_recorded_gap_may_lack_and_a_stored_map_tells_records_apart_that_are_alike() -> None:
    source = {0: "A", 3: "B", 9: "D"}
    found = proved(source, letters("AD"), (0, 2), recorded=((3, 4),))
    assert found.proof.breaks == (Break(1, 9),)
    alike = {0: "A", 3: "B", 4: "B", 9: "D"}
    found = proved(alike, letters("ABB"), (0, 3), places=Places.of([(1, 3)]))
    assert (found.proof.breaks, found.proof.position) == (None, 5)
    wrong = {0: "A", 3: "B", 9: "D", 12: "E"}
    found = proved(wrong, letters("ABD"), (0, 3), places=Places.of([(1, 2)]))
    assert found.proof.breaks == (Break(1, 3), Break(2, 9))


def test_compacted_topics_are_refused() -> None:
    assert "compacted" in refused(letters("ABC"), letters("AB"), (0, 2), rule=COMPACTS)


def test_nothing_left_is_gone_on_with_by_the_ledgers_note_of_that_very_end_alone() -> None:
    assert proved({8: "D"}, {}, (0, 0)).proof.breaks == (Break(0, 4),)  # the link's start
    noted = CopyNote(8, 1, 3)
    found = proved({8: "D"}, {}, (3, 3), noted=noted)
    assert (found.proof.breaks, found.known_from) == ((Break(3, 8),), 3)
    gone_there = proved({8: "D"}, letters("AB", 1), (1, 3), noted=noted, source_start=8)
    assert gone_there == found
    more = {"noted": CopyNote(9, 1, 3), "source_start": 8}  # offset 8 should be at both
    assert "no record like" in refused({8: "D", 12: "E"}, letters("ABC"), (0, 3), **more)
    for other in (None, CopyNote(8, 1, 2)):
        assert "none of the link's 3 records" in refused({8: "D"}, {}, (3, 3), noted=other)


# -- numbers -----------------------------------------------------------------------------------


def own(number: int, *batches: Written, start: int = 0) -> OwnView:
    log: Any = TargetLog(batches, start)
    return own_view(log, P, OwnCount(number, Offset(log.end), 0), IDS)


def test_own_records_are_counted_by_their_sequences_whatever_is_between() -> None:
    written = (
        Written(FORMER, values("s", 0, 3), 0),
        Written(OTHER, values("t", 0, 5), 0),
        Written(OWN, values("s", 3, 5), 3),
    )
    assert own(5, *written).numbers == Bounds(0, 5)
    assert own(5, *written, start=2).numbers == Bounds(2, 5)
    assert own(5, *written[1:2], start=1).numbers == Bounds(5, 5)


@pytest.mark.parametrize(
    ("number", "sequences", "text"),
    [
        (
            6,
            (0, 3),
            "has appended 6 records, and the last one left in the target's log is number 4",
        ),
        (4, (0, 3), "has appended 4 records"),
        (6, (0, 4), "own record 3 is gone"),
        (5, (0, 3, 3), "number was there before"),
    ],
)
def test_a_log_without_all_of_them_or_with_one_twice_is_refused(
    number: int, sequences: tuple[int, ...], text: str
) -> None:
    sizes = (3, 2, 2)
    batches = [
        Written(OWN, values("s", at, at + size), at)
        for at, size in zip(sequences, sizes, strict=False)
    ]
    with pytest.raises(NotProved, match=text):
        own(number, *batches)


def test_a_log_that_should_have_them_all_and_has_none_is_refused() -> None:
    with pytest.raises(NotProved, match="none of the link's 2 records"):
        own(2, Written(OTHER, values("t", 0, 5)))


# -- what is written ---------------------------------------------------------------------------


class Maps:
    """The maps' topic."""

    def __init__(self) -> None:
        self.reader = MapReader()

    def put(self, rows: Any) -> None:
        for row in rows:
            assert self.reader.take(row)

    def put_known_from(self, name: Any, first: int) -> None:
        assert self.reader.take_record(KeptFrom(*name, first).encode(), KEPT_VALUE, 0) is None

    def known_breaks(self, name: Any) -> tuple[Break, ...]:
        return tuple(self.reader.of(*name).breaks())


@pytest.mark.parametrize("known_from", [0, 2])
def test_a_rebuilt_map_says_from_where_on_it_is_known(known_from: int) -> None:
    """Given rows that are left of the lost map / then none of them counts any more."""
    maps: Any = Maps()
    maps.put([MapRow(RowKey(P, "id", 1, Stamp(1, 1)), (Break(1, 90), Break(5, 400)))])
    breaks = (Break(0, 3), Break(3, 9))
    assert put_map(maps, (P, "id"), breaks, Stamp(1, 1), known_from)
    found = maps.reader.of(P, "id")
    assert (tuple(found.breaks()), found.known_from) == (breaks, known_from)


def rebuilt(name: TopicName, found: Proof | NotProved | None) -> TopicRebuild:
    record = MirrorRecord(name, name, ID, ID, ClusterId("c"), "earliest", 1, is_merged=True)
    stand = MergedStand(OwnNote(5, Offset(40), 2), Offset(11), 1)
    one = PartitionRebuild(PartitionId(0), Offset(9), Offset(5), found, stand)
    return TopicRebuild(record, (one,))


def test_a_merged_topics_row_of_starts_has_where_the_targets_log_begins() -> None:
    """Nothing of it was taken over: all of it is known as the link's by its ids."""
    proof = Proof(Kind.MAPPED, Offset(3), Offset(9), 5, ())
    zero = PartitionId(0)
    starts = rebuilt(ORDERS, proof).starts()
    assert starts == Starts(ID, {zero: Offset(3)}, merged={zero: Offset(11)})
    assert rebuilt(ORDERS, None).starts() == Starts(ID)


def test_what_is_not_proven_may_not_begin_and_of_a_lost_state_nothing_else_either() -> None:
    """Given a state without the link's ids / then any topic of both sites may have been merged."""
    proof = Proof(Kind.MAPPED, Offset(3), Offset(9), 5, ())
    taken, left = rebuilt(ORDERS, proof), rebuilt(NEWER, NotProved("why"))
    plan: Any = RebuildPlan("l", (taken, left))  # type: ignore[arg-type] # a plain word
    ids = OwnIds(frozenset({ProducerId(5)}), StoredNotes(), None)
    at_both = frozenset({ORDERS, NEWER, OLDER})
    assert unproven_after(plan, Stored(), ids, at_both) == {NEWER, OLDER}
    known = Stored(producers=ids.ids, unproven=frozenset({ORDERS}))
    assert unproven_after(plan, known, ids, at_both) == {NEWER}
    known.mirrors = {NEWER: left.record}
    assert unproven_after(plan, known, ids, at_both) == set()


def test_what_a_killed_round_has_sent_is_waited_for_once() -> None:
    slept: list[float] = []

    class Time:
        now_s = 5.0

        def monotonic_s(self) -> float:
            return self.now_s

        def sleep(self, seconds: float) -> None:
            slept.append(seconds)
            self.now_s += seconds

    clock: Any = Time()
    settling = Settling(7.0, clock)
    clock.now_s = 6.0
    settling.wait()
    settling.wait()
    assert slept == [6.0]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((OwnCount(5, Offset(9), 1), OwnCount(7, Offset(9), 1)), 7),
        ((OwnCount(7, Offset(9), 1), OwnCount(5, Offset(9), 1)), 7),
        ((OwnCount(5, Offset(9), 1), NOT_TOLD), NOT_TOLD),
        ((NOT_TOLD, OwnCount(5, Offset(9), 1)), NOT_TOLD),
    ],
)
def test_what_is_remembered_of_an_earlier_id_is_no_end_by_itself(
    counts: tuple[OwnCount | str, OwnCount | str], expected: int | str
) -> None:
    found = _more(*counts)
    assert (found if isinstance(found, str) else found.number) == expected


# -- rows of producer ids ----------------------------------------------------------------------


class Rows:
    """Rows of producer ids at one side."""

    def __init__(self, now: ProducersTopic | None) -> None:
        self.now = now

    def look(self) -> ProducersTopic | None:
        return self.now

    def read(self) -> Any:
        return {ProducerId(4): LinkName("l"), ProducerId(5): LinkName("other")}

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("now", "noted", "is_lost"),
    [
        (ProducersTopic("x", Offset(9)), None, False),
        (ProducersTopic("x", Offset(9)), ProducersTopic("x", Offset(9)), False),
        (ProducersTopic("x", Offset(8)), ProducersTopic("x", Offset(9)), True),
        (ProducersTopic("y", Offset(9)), ProducersTopic("x", Offset(9)), True),
        (None, ProducersTopic("x", Offset(9)), True),
    ],
)
def test_where_the_sources_rows_may_be_gone_nothing_is_rebuilt(
    monkeypatch: pytest.MonkeyPatch,
    now: ProducersTopic | None,
    noted: ProducersTopic | None,
    *,
    is_lost: bool,
) -> None:
    """Given what was noted of them / then they must be the same and no shorter."""
    sides = iter([Rows(ProducersTopic("t", Offset(2))), Rows(now)])
    notes = SimpleNamespace(read=lambda: StoredNotes(noted), close=lambda: None)
    monkeypatch.setattr(merged_state, "ProducerRows", lambda *_: next(sides))
    monkeypatch.setattr(merged_state, "MergedNotes", lambda *_: notes)
    clusters: Any = SimpleNamespace(
        connections=SimpleNamespace(source=None, target=None), source=None, target=None, name="l"
    )
    stored = Stored(producers=frozenset({ProducerId(9)}))
    if is_lost:
        with pytest.raises(Refused, match="may be gone"):
            own_ids(clusters, stored)
        return
    found = own_ids(clusters, stored)
    assert (found.ids, found.seen) == ({4, 9}, now)
