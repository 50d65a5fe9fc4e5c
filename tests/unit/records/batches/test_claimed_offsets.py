"""Offsets that no checksum covers: a damaged one never hides records, whatever is next to it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from support.batches import TRANSACTIONAL, Record, StoredBatch, changed, marker
from support.records import Sample, encode

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.claimed_offsets import Believed, ClaimedOffsets
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import BatchPlace, ConvertSettings, StopReason
from heliostat.records.copier.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.copier.network import LastBatch, LogRange
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.refused_appends import CORRUPT_TRIES_MAX

P = TopicPartition(TopicName("t"), PartitionId(0))
LOG_END = 1000
FAR = 500
"""A damaged offset that lies within the log."""


def batch(base_offset: int, records: int = 10) -> bytes:
    data = bytearray(encode([Sample(b"k", b"%d" % n, 5) for n in range(records)]))
    struct.pack_into(">q", data, 0, base_offset)
    return bytes(data)


def old(offset: int) -> bytes:
    """The first bytes of a message of magic 1 are all that is looked at here."""
    return struct.pack(">qiIbb", offset, 6, 0, 1, 0)


def believed(claims: ClaimedOffsets, *parts: bytes, at: int = 100) -> Believed:
    return claims.believed(memoryview(b"".join(parts)), at, LOG_END)


def taken(found: Believed, *parts: bytes) -> int:
    """How many of the parts may be taken."""
    sizes = [sum(map(len, parts[:number])) for number in range(len(parts) + 1)]
    return sizes.index(found.end)


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        ([batch(100)], 1),
        ([batch(100), batch(110)], 2),
        ([batch(100), batch(115)], 1),
        ([batch(FAR)], 0),
        ([batch(FAR), batch(FAR + 10)], 2),
        ([batch(LOG_END - 10)], 0),
        ([batch(100), batch(LOG_END - 10)], 1),
        ([batch(95)], 0),
        ([batch(95), batch(105)], 0),
        ([old(100)], 0),
        ([batch(100), old(110)], 1),
    ],
)
def test_continuing_or_confirmed_offsets_are_accepted_at_once(
    parts: Sequence[bytes], count: int
) -> None:
    """Given an answer / then its last batch waits if nothing confirms its offset."""
    claims = ClaimedOffsets()
    found = believed(claims, *parts)
    assert (taken(found, *parts), found.stop) == (count, None)


@pytest.mark.parametrize("size", [8, 20, 61])
def test_the_first_bytes_of_the_next_batch_confirm_a_hole(size: int) -> None:
    for following, is_borne_out in ((210, True), (215, True), (209, False), (110, False)):
        parts = batch(100), batch(200), batch(following)[:size]
        found = believed(ClaimedOffsets(), *parts)
        assert (found.stop is None) == is_borne_out
        assert found.end == len(b"".join(parts if is_borne_out else parts[:1]))


@pytest.mark.parametrize("part", [batch(FAR), batch(95), old(FAR), batch(LOG_END - 10)])
def test_an_offset_in_two_answers_is_accepted(part: bytes) -> None:
    claims = ClaimedOffsets()
    assert believed(claims, part).end == 0
    assert believed(claims, part) == (len(part), believed(claims, part).epoch, None)


def test_an_offset_that_the_next_answer_contradicts_is_not_accepted() -> None:
    claims = ClaimedOffsets()
    assert believed(claims, batch(FAR)).end == 0
    assert believed(claims, batch(FAR + 64)).end == 0
    assert believed(claims, batch(100)).end > 0


def test_an_offset_beyond_the_log_end_is_never_accepted() -> None:
    """The first time it is no error: a broker notes the log end before it reads."""
    claims = ClaimedOffsets()
    first = believed(claims, batch(LOG_END))
    assert (first.end, first.stop) == (0, None)
    for _ in range(3):
        claims._seen = LOG_END
        found = believed(claims, batch(LOG_END))
        assert (found.end, found.stop is not None) == (0, True)
        assert found.stop is not None
        assert (found.stop.reason, found.stop.offset) == (StopReason.CORRUPT, 100)
        assert "log ends at 1000" in found.stop.text


@pytest.mark.parametrize("answer", [b"", batch(FAR)[:60], batch(FAR)[:5], old(9)[:-1]])
def test_incomplete_batches_are_ignored(answer: bytes) -> None:
    assert believed(ClaimedOffsets(), answer).end == len(answer)


VOID = {
    "a marker": lambda at: marker(at, 4711, commits=True).encode(),
    "of an aborted transaction": lambda at: StoredBatch(
        at, (Record(1, b"k", b"v"),), more_attributes=TRANSACTIONAL, producer_id=9
    ).encode(),
    "left empty": lambda at: changed(
        StoredBatch(at, (Record(1, b"k", b"v"),)).encode()[:61], length=49, records_count=0
    ),
}


@pytest.mark.parametrize("kind", VOID)
@pytest.mark.parametrize("join_below_bytes", [0, 1 << 18])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_an_empty_batch_moves_the_position_no_further_than_the_next_batch(
    kind: str, join_below_bytes: int, before: int
) -> None:
    """Given a damaged offset of a skipped batch / when converted / then CORRUPT before it.

    It moved the position at which the next fetch begins, and the records between were lost
    unnoticed.
    """
    sound = [batch(100 + 10 * number) for number in range(before)]
    place = 100 + 10 * before
    settings = ConvertSettings(
        producer_id=7, batch_bytes_max=1 << 20, join_below_bytes=join_below_bytes
    )
    aborted = [Aborted(9, 0)]
    for claimed, is_sound in ((place, True), (FAR, False)):
        data = bytearray(b"".join([*sound, VOID[kind](claimed), batch(place + 1)]))
        outcome = convert(data, 0, len(data), BatchPlace.same(100), settings, aborted)
        assert (outcome.stop is None) == is_sound, outcome.stop
        assert outcome.next_offset == (place + 11 if is_sound else place)
        assert sum(each.records for each in outcome.batches) == 10 * (before + is_sound)


class OneSource:
    """A partition's copy from source offset 100 on, and what fetches answer."""

    def __init__(self) -> None:
        spec = PartitionSpec(P, P, None, None, Offset(100), 1 << 20, is_compacted=False)
        self.copy = PartitionCopy(0, spec, CopySettings(), 7, 0)
        self.copy.begin_at(LogRange(Offset(100), Offset(100)), LastBatch(7, 99), OffsetMap(), 0)
        self.now_s = 0.0

    def fetch(self, *parts: bytes) -> int:
        """The offset that was asked for; the answer is these batches."""
        want = self.copy.want(self.now_s)
        assert want is not None
        data = bytearray(b"".join(parts))
        self.copy.fetched(data, 0, len(data), high_watermark=LOG_END, now_s=self.now_s, now_ms=0)
        self.now_s += 60.0
        return want.offset


def test_an_offset_damaged_in_transit_costs_one_fetch() -> None:
    """Given the last batch's offset damaged / when fetched again / then copied, with no hole."""
    one = OneSource()
    one.fetch(batch(100), batch(FAR))
    assert [each.base_offset for each in one.copy.appends.queue] == [100]
    assert one.fetch(batch(110), batch(120)) == 110
    assert one.fetch(batch(130, 1)) == 130
    assert one.copy.standing.state is PartitionState.COPYING
    assert not any(each.breaks for each in one.copy.appends.queue)


def test_an_offset_stored_beyond_the_log_end_stops_the_partition() -> None:
    one = OneSource()
    for _ in range(1 + CORRUPT_TRIES_MAX):
        assert one.copy.standing.state in {PartitionState.COPYING, PartitionState.RETRYING}
        assert one.fetch(batch(LOG_END + 5)) == 100
    assert (one.copy.standing.state, one.copy.standing.code) == (PartitionState.BLOCKED, "CORRUPT")
    assert "source offset 100 can't be copied" in one.copy.standing.reason
    assert not one.copy.appends.queue


def test_a_large_batch_after_a_hole_is_fetched_with_what_follows() -> None:
    """Given an answer with that batch alone / when fetched again / then with more bytes."""
    one = OneSource()
    large = bytearray(encode([Sample(b"k", bytes(3 << 20), 5)]))
    struct.pack_into(">q", large, 0, FAR)
    before = one.copy.fetches.size.batch
    one.fetch(bytes(large))
    assert one.copy.fetches.size.batch == 2 * before
    one.fetch(bytes(large), batch(110)[:40])
    assert (one.copy.standing.code, one.copy.progress.position) == ("CORRUPT", 100)
