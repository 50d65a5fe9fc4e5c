"""What a leader answers to raw appends and fetches, as observed of a broker of Kafka 4.3.

Each function of `SCRIPTS` makes a side of as many partitions as it needs and asserts; they are run
on the simulation's model (`tests/sim/test_log_contract.py`) and on a real broker.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from sim.log_answers import Answer
from sim.log_batches import Fields, Kept, encode
from support.log_sides import NOW_MS, LogSide, Place

OUT_OF_RANGE, CORRUPT, OUT_OF_ORDER, STALE_EPOCH, FENCED, INVALID = 1, 2, 45, 47, 52, 87
MODULUS = 2**31
PID, OTHER = 7, 9
Make = Callable[[int], LogSide]


def batch(
    pid: int = -1, sequence: int = -1, count: int = 1, *, epoch: int = 0, value: int = 10
) -> bytes:
    """Return a batch of `count` records of equal sizes."""
    kept = [Kept(place, NOW_MS, b"k", b"v" * value) for place in range(count)]
    epoch = epoch if pid >= 0 else -1
    return encode(Fields(0, count - 1, NOW_MS, NOW_MS, pid, epoch, sequence, count), kept)


def read(side: LogSide, offset: int, *, committed: bool = False) -> Answer:
    """Read partition 0 from an offset."""
    [answer] = side.fetch([Place(0, offset)], committed=committed)
    return answer


def bases(data: bytes) -> list[int]:
    """Return base offsets of whole batches."""
    found: list[int] = []
    at = 0
    while at + 12 <= len(data):
        found.append(struct.unpack_from(">q", data, at)[0])
        at += 12 + int(struct.unpack_from(">i", data, at + 8)[0])
    return found


def fetches_at_the_borders_of_a_log(make: Make) -> None:
    side = make(1)
    assert read(side, 0) == Answer(0, 0, 0, 0)
    assert read(side, 1) == Answer(OUT_OF_RANGE)
    for _ in range(3):
        side.append(batch(count=2))
    for offset, found in ((0, [0, 2, 4]), (1, [0, 2, 4]), (5, [4]), (6, [])):
        answer = read(side, offset)
        assert (answer.error, answer.high_watermark, answer.last_stable_offset) == (0, 6, 6)
        assert bases(answer.data) == found, "whole batches, also the one in whose midst it begins"
    assert [read(side, offset) for offset in (7, -1)] == [Answer(OUT_OF_RANGE)] * 2
    assert side.delete_before(3) == 0
    assert [read(side, 2, committed=c) for c in (True, False)] == [Answer(OUT_OF_RANGE)] * 2
    answer = read(side, 3)
    assert (answer.log_start, bases(answer.data)) == (3, [2, 4])


def deletion_ends_at_the_end(make: Make) -> None:
    side = make(1)
    side.append(batch(count=6))
    assert [side.delete_before(offset) for offset in (7, -2)] == [OUT_OF_RANGE] * 2
    assert [side.delete_before(offset) for offset in (4, 2)] == [0, 0]
    assert side.bounds() == (4, 6)
    assert side.delete_before(6) == 0
    assert side.bounds() == (6, 6)
    assert read(side, 6) == Answer(0, 6, 6, 6)
    assert side.append(batch()) == (0, 6)


def one_batch_comes_whatever_the_limits_and_no_other(make: Make) -> None:
    """In one request; the partition's own limit applies, too, once the answer has a batch."""
    side = make(3)
    data = batch(value=100)
    one = len(data)
    for number in (1, 2):
        for _ in range(3):
            side.append(data, number)

    def sizes(places: Sequence[Place], bytes_max: int = 1 << 20) -> list[int]:
        return [len(answer.data) for answer in side.fetch(places, bytes_max)]

    places = [Place(number, 0) for number in range(3)]
    for limit, second, third in (
        *((0, one, 0), (1, one, 0), (one - 1, one, 0), (one, one, 0), (one + 1, one + 1, 0)),
        *((2 * one, 2 * one, 0), (3 * one, 3 * one, 0), (3 * one + 5, 3 * one, 0)),
        *((4 * one, 3 * one, one), (4 * one + 9, 3 * one, one + 9), (1 << 20, 3 * one, 3 * one)),
    ):
        assert sizes(places, limit) == [0, second, third], f"{limit} of {one}"
    for limit, first in ((0, one), (1, one), (one, one), (one + 7, one + 7), (2 * one, 2 * one)):
        then = first if limit >= one else 0
        assert sizes([Place(1, 0, limit), Place(2, 0, limit)]) == [first, then]
        assert sizes([Place(2, 1, limit), Place(1, 0, limit)]) == [first, then]
    at_ends = [Place(0, 0), Place(1, 3), Place(2, 0)]
    assert sizes(at_ends, 1) == [0, 0, one], "the first that has any"
    wrong = [Place(0, 9), Place(1, 0)]
    assert [each.error for each in side.fetch(wrong, 1)] == [OUT_OF_RANGE, 0]
    assert sizes(wrong, 1) == [0, one], "an error takes no room"


def epochs_that_were_not_led_are_out_of_range(make: Make) -> None:
    side = make(1)
    side.append(batch(count=4))
    [answer] = side.fetch([Place(0, 2, last_epoch=0)])
    assert (answer.error, answer.diverging_epoch, bases(answer.data)) == (0, None, [0])
    for epoch in (1, 5):
        assert side.fetch([Place(0, 2, last_epoch=epoch)]) == [Answer(OUT_OF_RANGE)]


def the_last_five_batches_are_known_again(make: Make) -> None:
    side = make(1)
    sent = [batch(PID, 2 * number, 2) for number in range(7)]
    appended = [(0, 2 * number) for number in range(7)]

    def answers() -> list[tuple[tuple[int, int], bool]]:
        return [(side.append(data), side.was_known) for data in sent]

    assert answers() == [(answer, False) for answer in appended]
    again = [((OUT_OF_ORDER, -1), False)] * 2 + [(answer, True) for answer in appended[2:]]
    assert answers() == again, "the answer tells of a batch that it is there already"
    for sequence, count in ((12, 1), (12, 3), (13, 1), (10, 4)):
        assert side.append(batch(PID, sequence, count)) == (OUT_OF_ORDER, -1), "other borders"
    assert side.append(batch(PID, 14)) == (0, 14)
    other = batch(PID, 12, 2, value=11)
    assert side.append(other) == (0, 12), "its content is not compared"
    assert side.bounds() == (0, 15)


def sequences_wrap(make: Make) -> None:
    side = make(1)
    assert side.append(batch(PID, MODULUS - 3, 2)) == (0, 0)
    across = batch(PID, MODULUS - 1, 3)
    assert [side.append(across) for _ in range(2)] == [(0, 2)] * 2
    assert side.append(batch(PID, 1)) == (OUT_OF_ORDER, -1)
    assert side.append(batch(PID, 2)) == (0, 5)
    assert side.append(batch(PID, MODULUS - 3, 2)) == (0, 0)


def older_epochs_are_refused_and_new_ones_begin_at_zero(make: Make) -> None:
    side = make(1)
    assert side.append(batch(PID, 5, 2, epoch=3)) == (0, 0)
    assert side.append(batch(PID, 0, epoch=2)) == (STALE_EPOCH, -1)
    assert side.append(batch(PID, 7, epoch=3)) == (0, 2)
    for sequence in (8, 1):
        assert side.append(batch(PID, sequence, epoch=4)) == (OUT_OF_ORDER, -1)
    assert side.append(batch(PID, 0, epoch=4)) == (0, 3)
    for data in (batch(PID, 8, epoch=3), batch(PID, 5, 2, epoch=3)):
        assert side.append(data) == (STALE_EPOCH, -1), "duplicates as well"
    assert side.append(batch(PID, 1, epoch=4)) == (0, 4)


def a_producer_of_markers_begins_at_zero(make: Make) -> None:
    side = make(1)
    assert side.mark(OTHER) == 0
    assert side.append(batch(OTHER, 5)) == (OUT_OF_ORDER, -1)
    assert side.append(batch(OTHER, 0)) == (0, 1)
    assert side.mark(OTHER) == 0
    assert side.append(batch(OTHER, 3)) == (OUT_OF_ORDER, -1)
    assert side.append(batch(OTHER, 1)) == (0, 3)
    assert side.append(batch(OTHER, 0)) == (0, 1)


def markers_of_older_coordinators_are_refused(make: Make) -> None:
    side = make(1)
    assert side.append(batch(PID, 5)) == (0, 0)
    epochs = (3, 2, 3, 4, 3)
    answers = [side.mark(PID, coordinator_epoch=epoch) for epoch in epochs]
    assert answers == [0, FENCED, 0, 0, FENCED]
    assert side.append(batch(PID, 6)) == (0, 4)
    assert side.bounds() == (0, 5)


def producers_outlive_the_deletion_of_their_records(make: Make) -> None:
    side = make(1)
    assert [side.append(batch(PID, n, 2)) for n in (5, 7)] == [(0, 0), (0, 2)]
    assert side.delete_before(4) == 0
    assert side.append(batch(PID, 5, 2)) == (0, 0), "below the log's start"
    assert side.append(batch(PID, 20)) == (OUT_OF_ORDER, -1)
    assert side.append(batch(PID, 9)) == (0, 4)
    assert side.append(batch(OTHER, 9)) == (0, 5), "any first sequence"
    assert side.bounds() == (4, 6)


def what_is_no_sound_batch_is_refused(make: Make) -> None:
    side = make(1)
    good = batch(PID, 0, 2)

    def changed(at: int, kind: str, value: int, *, crc: bool = True) -> bytes:
        data = bytearray(good)
        struct.pack_into(kind, data, at, value)
        return with_crc(data) if crc else bytes(data)

    for data, error in (
        (changed(0, ">q", 5), INVALID),
        (changed(17, ">I", 1, crc=False), CORRUPT),
        (changed(57, ">i", 3), INVALID),
        (changed(57, ">i", 1), INVALID),
        (changed(57, ">i", 0), INVALID),
        (changed(23, ">i", 5), INVALID),
        (changed(53, ">i", -1), INVALID),
        (batch() + batch(), INVALID),
        (good[:-3], INVALID),
        (good[:40], INVALID),
        (b"", INVALID),
    ):
        assert side.append(data) == (error, -1), data.hex()
    assert side.append(changed(12, ">i", 9, crc=False)) == (0, 0), "a leader writes its own epoch"
    [answer] = side.fetch([Place(0, 0)])
    assert answer.data == good[:12] + struct.pack(">i", 0) + good[16:]


def with_crc(data: bytearray) -> bytes:
    from aiokafka.record._crecords.cutil import crc32c_cython  # only here

    struct.pack_into(">I", data, 17, crc32c_cython(bytes(data[21:])))
    return bytes(data)


SCRIPTS: Sequence[Callable[[Make], None]] = (
    fetches_at_the_borders_of_a_log,
    deletion_ends_at_the_end,
    one_batch_comes_whatever_the_limits_and_no_other,
    epochs_that_were_not_led_are_out_of_range,
    the_last_five_batches_are_known_again,
    sequences_wrap,
    older_epochs_are_refused_and_new_ones_begin_at_zero,
    a_producer_of_markers_begins_at_zero,
    markers_of_older_coordinators_are_refused,
    producers_outlive_the_deletion_of_their_records,
    what_is_no_sound_batch_is_refused,
)
