"""One partition's copy: what is sent when, and what each answer of the target means."""

from __future__ import annotations

from typing import Any

import pytest
from support.records import Sample, encode

from heliostat.errors import ConnectionLost
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.copier.lane_leaders import no_leader
from heliostat.records.copier.markers import filler_of
from heliostat.records.copier.network import LastBatch, LogRange, Want
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_leave import are_awaited
from heliostat.records.copier.partition_standing import FIND_END_MAX_S

P = TopicPartition(TopicName("t"), PartitionId(0))
PRODUCER = 7
NOT_LEADER, TOO_LARGE, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER, STALE_EPOCH = 6, 10, 19, 45, 47
NOW_MS = 1_800_000_000_000
EXPIRATION_S = 1000.0
SETTINGS = CopySettings(join_below_bytes=0, producer_expiration_s=EXPIRATION_S)


class OneMirror:
    """A copy from offset 10 on, with as many batches fetched as a test wants."""

    def __init__(self, *, holds_old: bool = False, end: int = 10, **fields: Any) -> None:
        fields.setdefault("is_compacted", False)
        spec = PartitionSpec(P, P, None, None, Offset(10), 1 << 20, **fields)
        self.copy = PartitionCopy(0, spec, SETTINGS, PRODUCER, NOW_MS, holds_old=holds_old)
        self.now_s = 0.0
        self.begin(end)

    def begin(
        self, end: int, tail: LastBatch | None = None, known: OffsetMap | None = None
    ) -> None:
        target = LogRange(Offset(10), Offset(end))
        tail = tail or LastBatch(PRODUCER, end - 1)
        self.copy.begin(target, tail, known or OffsetMap(), NOW_MS, now_s=self.now_s)

    def want(self) -> Want:
        want = self.copy.want(self.now_s)
        assert want is not None
        return want

    def fetch(self, *ages_s: float) -> None:
        """Fetch batches of one record each, so many seconds old."""
        for age_s in ages_s:
            offset = self.want().offset
            at_ms = NOW_MS - int(age_s * 1000)
            answer = bytearray(encode([Sample(b"k", b"v", at_ms)]))
            answer[:8] = offset.to_bytes(8, "big")
            self.copy.fetched(
                answer,
                0,
                len(answer),
                high_watermark=offset + 1,
                now_s=self.now_s,
                now_ms=NOW_MS,
            )

    def send(self) -> list[ConvertedBatch]:
        """All that may be sent now."""
        found: list[ConvertedBatch] = []
        while (send := self.copy.next_send(self.now_s, NOW_MS)) is not None:
            found.append(send.batch)
        return found

    def acknowledge(self, batch: ConvertedBatch) -> None:
        assert self.copy.appended(batch, batch.base_offset, NOW_MS)

    def fail(self, batch: ConvertedBatch, error: int) -> None:
        self.copy.append_failed(batch, error, "", self.now_s, NOW_MS)
        self.now_s += 10.0

    @property
    def standing(self) -> tuple[PartitionState, str]:
        return self.copy.standing.state, self.copy.standing.code


def test_what_a_lane_needs_to_begin_is_requested_again_soon() -> None:
    """Given an end that can't be read for long / then each pause is half a second at most.

    One hung broker may lead the offset maps of partitions on all the others.
    """
    copy = OneMirror().copy
    for _ in range(8):
        copy.find_end_failed(ConnectionLost("a broker that hangs"), 100.0, NOW_MS)
        assert 100.0 < copy.standing.not_before_s <= 100.0 + FIND_END_MAX_S
    assert copy.standing.state is PartitionState.RETRYING


@pytest.mark.parametrize("away", [-1, 1])
def test_a_batch_that_landed_elsewhere_is_reported(away: int) -> None:
    """Given an answer with another base offset than expected / then DIVERGED, not copied (I1)."""
    one = OneMirror()
    one.fetch(0.0)
    [batch] = one.send()
    assert not one.copy.appended(batch, batch.base_offset + away, NOW_MS)
    assert one.standing == (PartitionState.DIVERGED, "APPENDED_ELSEWHERE")
    assert one.copy.progress.position == 10


@pytest.mark.parametrize("is_compacted", [True, False])
def test_duplicates_are_ours_if_the_source_is_not_compacted(*, is_compacted: bool) -> None:
    """Given a DUPLICATE_SEQUENCE answer / then what landed may be other records, if compacted."""
    one = OneMirror(is_compacted=is_compacted)
    one.fetch(0.0)
    [batch] = one.send()
    counts = one.copy.appended(batch, batch.base_offset, NOW_MS, is_repeated=True)
    assert counts is not is_compacted
    assert (one.copy.must_find_end, one.copy.doubts.repeated_to) == (
        (True, 11) if is_compacted else (False, None)
    )
    assert one.copy.progress.copied_end == (-1 if is_compacted else 11)


@pytest.mark.parametrize(
    ("tail", "is_ours"),
    [
        (LastBatch(PRODUCER, 19), True),
        (LastBatch(PRODUCER, 18), False),
        (LastBatch(PRODUCER, 20), False),
        (LastBatch(PRODUCER + 1, 19), False),
        (LastBatch(-1, -1), False),
    ],
)
def test_the_record_before_the_end_must_be_ours_at_its_offset(
    tail: LastBatch, *, is_ours: bool
) -> None:
    """Given the writer and offset of the last record / when a round begins / then checked."""
    one = OneMirror()
    one.begin(20, tail)
    expected = (
        (PartitionState.COPYING, "") if is_ours else (PartitionState.DIVERGED, "FOREIGN_TAIL")
    )
    assert one.standing == expected


def test_the_first_append_is_sent_alone() -> None:
    """Given a broker that may have forgotten us / when we begin / then one in flight, then five."""
    one = OneMirror()
    one.fetch(*[0.0] * 8)
    [first] = one.send()
    assert one.send() == []
    one.acknowledge(first)
    assert len(one.send()) == SETTINGS.requests_in_flight_max


def test_old_records_are_sent_one_by_one() -> None:
    """Given records that let a broker forget us / then each waits for the one before (I4)."""
    one = OneMirror()
    one.fetch(0.0)
    one.acknowledge(*one.send())
    one.fetch(*[EXPIRATION_S] * 3)
    for _ in range(3):
        [batch] = one.send()
        one.acknowledge(batch)
    assert one.copy.progress.position == 14


@pytest.mark.parametrize(
    ("age_s", "together"), [(EXPIRATION_S / 2 - 1, 3), (EXPIRATION_S / 2 + 1, 1)]
)
def test_records_are_old_at_half_of_the_producer_expiration(age_s: float, together: int) -> None:
    one = OneMirror()
    one.fetch(0.0)
    one.acknowledge(*one.send())
    one.fetch(*[age_s] * 3)
    assert len(one.send()) == together


def test_old_records_wait_until_earlier_rounds_have_ended() -> None:
    """Given a round that takes over / when its records are old / then they are held (I10)."""
    one = OneMirror(holds_old=True)
    one.fetch(0.0, EXPIRATION_S)
    one.acknowledge(*one.send())
    assert one.send() == []
    one.copy.appends.holds_old = False
    assert one.send() == []
    # Appends of the previous round may have landed after the end that was read at the beginning:
    # no broker refuses them when they are appended again.
    assert one.copy.must_find_end
    one.begin(12)
    assert one.copy.progress.position == 12
    one.fetch(EXPIRATION_S)
    assert [batch.base_offset for batch in one.send()] == [12]


@pytest.mark.parametrize("how", ["lost", "silent", "no answer"])
def test_old_records_wait_for_what_may_still_land(how: str) -> None:
    """Given old records that were sent / when a broker may still have them queued / then wait.

    It may forget the producer by then. After that the end is read again.
    """
    one = OneMirror()
    one.fetch(EXPIRATION_S)
    (batch,) = one.send()
    problem = ConnectionLost("the broker does not answer")
    if how == "lost":
        one.copy.append_lost(batch, "cut", one.now_s, NOW_MS)
    else:
        one.copy.append_failed(batch, OUT_OF_ORDER, "", one.now_s, NOW_MS)
        if how == "silent":
            one.copy.unanswered(problem, one.now_s, NOW_MS, is_target=True)
        else:
            one.copy.find_end_failed(problem, one.now_s, NOW_MS)
    assert are_awaited([one.copy], LANDS_WITHIN_S / 2) is (how == "lost")
    assert not are_awaited([one.copy], LANDS_WITHIN_S)
    one.now_s = LANDS_WITHIN_S / 2
    one.begin(10)
    one.fetch(0.0, EXPIRATION_S)
    one.acknowledge(*one.send())  # fresh ones go: brokers check them
    assert one.send() == []
    assert not one.copy.must_find_end
    one.now_s = LANDS_WITHIN_S
    assert one.send() == []
    assert one.copy.must_find_end
    one.begin(12)
    one.fetch(EXPIRATION_S)
    assert [batch.base_offset for batch in one.send()] == [12]


def test_a_round_ends_without_waiting_for_fresh_records_that_were_lost() -> None:
    """Given a lost append of fresh records / then their sequence protects, whoever copies next."""
    one = OneMirror()
    one.fetch(0.0)
    (batch,) = one.send()
    assert are_awaited([one.copy], 0.0)
    one.copy.append_lost(batch, "cut", 0.0, NOW_MS)
    assert not are_awaited([one.copy], 0.0)


def test_a_silent_source_holds_no_append_back() -> None:
    one = OneMirror()
    one.copy.unanswered(ConnectionLost("silent"), 0.0, NOW_MS, is_target=False)
    assert not one.copy.appends.looked_early
    assert one.copy.appends.may_land_until_s < 0.0


def test_fresh_records_do_not_wait() -> None:
    """Given a round that takes over / when records are fresh / then brokers check them."""
    one = OneMirror(holds_old=True)
    one.fetch(0.0)
    one.acknowledge(*one.send())
    one.copy.appends.holds_old = False
    one.fetch(0.0)
    assert len(one.send()) == 1
    assert not one.copy.must_find_end


def test_an_append_refused_for_its_epoch_is_reported() -> None:
    """Given our producer id with a newer epoch / when an append is refused / then DIVERGED."""
    one = OneMirror()
    one.fetch(0.0)
    one.fail(*one.send(), STALE_EPOCH)
    assert one.standing == (PartitionState.DIVERGED, "INVALID_PRODUCER_EPOCH")


def test_a_batch_that_the_target_never_accepts_is_reported() -> None:
    one = OneMirror()
    one.fetch(0.0)
    one.fail(*one.send(), TOO_LARGE)
    assert one.standing == (PartitionState.BLOCKED, "MESSAGE_TOO_LARGE")


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_end_is_read_when_the_last_append_is_answered(*, is_lost: bool) -> None:
    """Given two in flight / when the first fails / then the end is read after the second (I4)."""
    one = OneMirror()
    one.fetch(*[0.0] * 4)
    one.acknowledge(*one.send()[:1])
    first, second, third = one.send()
    before = one.copy.attempt
    if is_lost:
        one.copy.append_lost(first, "cut", one.now_s, NOW_MS)
    else:
        one.fail(first, NOT_LEADER)
    assert (one.copy.appends.queued_bytes > 0, one.copy.must_find_end) == (True, False)
    one.copy.append_failed(second, OUT_OF_ORDER, "", one.now_s, NOW_MS)
    assert not one.copy.must_find_end
    one.copy.append_lost(third, "cut", one.now_s, NOW_MS)
    assert one.copy.must_find_end
    assert (one.copy.attempt, one.copy.standing.state) == (before + 1, PartitionState.RETRYING)


def test_what_lands_behind_a_failed_append_does_not_count() -> None:
    """Given two appends in flight, the first of which is refused / when the second lands after all

    / then it counts for nothing: the end is read once nothing is in flight any more (I4).
    """
    one = OneMirror()
    one.fetch(0.0)
    one.acknowledge(*one.send())
    one.fetch(0.0, 0.0)
    first, second = one.send()
    attempt = one.copy.attempt
    one.fail(first, NOT_LEADER)
    assert (one.copy.attempt, one.copy.must_find_end) == (attempt, False)
    assert one.copy.want(one.now_s) is None
    assert not one.copy.appended(second, second.base_offset, NOW_MS)
    assert one.copy.progress.position == 11
    assert (one.copy.attempt, one.copy.must_find_end) == (attempt + 1, True)


def test_batches_queued_behind_a_failed_append_are_fetched_again() -> None:
    """Given batches in the queue / when an append fails / then none of them is sent any more."""
    one = OneMirror()
    one.fetch(*[0.0] * 3)
    [batch] = one.send()
    one.fail(batch, NOT_ENOUGH_REPLICAS)
    assert (len(one.copy.appends.queue), one.copy.appends.queued_bytes) == (0, 0)
    one.begin(10)
    assert one.send() == []
    assert one.want().offset == 10


def test_the_position_follows_acknowledgements() -> None:
    """Given queued batches / when one is acknowledged / then the position is right after that."""
    one = OneMirror()
    one.fetch(*[0.0] * 3)
    one.acknowledge(*one.send())
    assert (
        one.copy.progress.position,
        one.copy.progress.high_watermark,
        one.copy.progress.caught_up_ms,
    ) == (11, 13, -1)
    for batch in one.send():
        one.acknowledge(batch)
    assert (one.copy.progress.position, one.copy.progress.caught_up_ms) == (13, NOW_MS)


@pytest.mark.parametrize(
    ("end", "standing"),
    [
        (49, (PartitionState.DIVERGED, "TARGET_TRUNCATED")),
        (50, (PartitionState.COPYING, "")),
    ],
)
def test_a_target_that_ends_before_the_loaded_map_was_truncated(
    end: int, standing: tuple[PartitionState, str]
) -> None:
    """Given the end of a map / when the target ends before it / then nothing is guessed (I2)."""
    one = OneMirror()
    known = OffsetMap.of([Break(50, 70)])
    known.known_from = 50
    one.begin(end, known=known)
    assert one.standing == standing


def test_refusals_are_counted_at_the_same_end() -> None:
    """Given out-of-order refusals / when the end has moved in between / then tried again."""
    one = OneMirror()
    for end in (10, 12, 12):
        one.begin(end)
        assert one.copy.standing.state is not PartitionState.DIVERGED
        one.fetch(0.0)
        one.fail(*one.send(), OUT_OF_ORDER)
    one.begin(12)
    assert one.standing == (PartitionState.DIVERGED, "TARGET_REFUSES_SEQUENCE")


def test_refusals_of_a_filled_mirror_are_counted_by_the_offset_not_the_record() -> None:
    """Given markers before the tenth record, at 14 / when it is refused twice / then DIVERGED."""
    known = OffsetMap.of([Break(10, 14)])
    known.is_filled = True
    one = OneMirror(fills=True)
    one.copy.progress.copied_to = one.copy.progress.copied_end = 14
    for _ in range(2):
        one.begin(14, LastBatch(filler_of(PRODUCER), 2**31 - 1), known)
        assert one.copy.standing.state is not PartitionState.DIVERGED
        one.fetch(0.0)
        [batch] = one.send()
        assert (batch.base_offset, batch.source_offset) == (10, 14)
        one.fail(batch, OUT_OF_ORDER)
    one.begin(14, LastBatch(filler_of(PRODUCER), 2**31 - 1), known)
    assert one.standing == (PartitionState.DIVERGED, "TARGET_REFUSES_SEQUENCE")


def test_acknowledged_positions_are_noted_with_the_targets_end() -> None:
    one = OneMirror()
    one.fetch(0)
    (batch,) = one.send()
    one.acknowledge(batch)
    assert (one.copy.progress.copied_to, one.copy.progress.copied_end) == (11, 11)


def test_the_age_of_what_is_missing_is_that_of_its_oldest_record() -> None:
    """Given old records, then one of a time to come / when asked / then by its own timestamp."""
    one = OneMirror()
    progress = one.copy.progress
    assert (progress.missing_ms, progress.is_level) == (-1, False)  # just begun: nothing is known
    one.fetch(3600.0, 1800.0)
    assert progress.missing_ms == NOW_MS - 3_600_000
    (first, second) = one.send()[:1], one.copy.appends.queue
    one.acknowledge(*first)
    assert progress.missing_ms == NOW_MS - 3_600_000  # the next is hardly older than the one before
    assert len(second) == 1
    one.acknowledge(*one.send())
    assert (progress.missing_ms, progress.is_level) == (-1, True)
    one.fetch(-60.0)
    assert progress.missing_ms == NOW_MS


def test_without_an_answer_of_the_source_its_end_is_old() -> None:
    one = OneMirror()
    one.fetch(0.0)
    assert not one.copy.progress.is_end_old
    no_leader(one.copy, ConnectionLost("gone"), 0.0, NOW_MS, is_target=True)
    assert not one.copy.progress.is_end_old
    for fails in (
        lambda: one.copy.fetch_failed(NOT_LEADER, "", 0.0, NOW_MS),
        lambda: one.copy.unanswered(ConnectionLost("hangs"), 0.0, NOW_MS, is_target=False),
        lambda: no_leader(one.copy, ConnectionLost("gone"), 0.0, NOW_MS, is_target=False),
    ):
        one.copy.source_stands(LogRange(Offset(0), Offset(11)), NOW_MS)
        assert not one.copy.progress.is_end_old
        fails()
        assert one.copy.progress.is_end_old


def test_a_mirror_without_leader_is_retried_until_it_has_one() -> None:
    """Given no leader at the target / when the source answers or fails / then still RETRYING."""
    one = OneMirror()
    no_leader(one.copy, ConnectionLost("no leader"), 0.0, NOW_MS, is_target=True)
    one.now_s = 10.0
    one.copy.fetch_failed(NOT_LEADER, "", 0.0, NOW_MS)
    one.copy.fetched(
        bytearray(), 0, 0, high_watermark=one.copy.progress.position, now_s=0.0, now_ms=NOW_MS
    )
    assert one.standing == (PartitionState.RETRYING, "CONNECTION_LOST")
    assert "no leader" in one.copy.standing.reason
    one.copy.standing.recovered(NOW_MS, aligns=False)
    assert one.standing == (PartitionState.COPYING, "")


def test_a_stopped_partitions_lag_grows_with_its_source() -> None:
    """Given a stop / when the source has more by its log range / then nothing of that is open."""
    one = OneMirror()
    one.fetch(0.0)
    one.copy.stop(PartitionState.BLOCKED, "X", "why", NOW_MS)
    one.copy.source_stands(LogRange(Offset(0), Offset(5_000)), NOW_MS)
    progress = one.copy.progress
    assert (progress.high_watermark, progress.last_stable_offset) == (5_000, 5_000)
