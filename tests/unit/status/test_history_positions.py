"""When a record was copied is found in a day's minutes, whatever drivers and their writes did."""

from __future__ import annotations

import random
import zlib

import pytest

from heliostat.clusters.foreign_records import NOT_A_ROW
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.status.history_positions import (
    HOUR_MS,
    REPORTED_WITHIN_S,
    Crossing,
    PositionMinutes,
    decode_positions,
)

BEGIN_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
MINUTE_MS = 60_000
PLACES = [TopicPartition(TopicName(f"t-{n % 7}"), PartitionId(n // 7)) for n in range(40)]
Minutes = list[tuple[int, dict[TopicPartition, int], bytes]]


def written(minutes: int, seed: int, begin: int = 0, known: int = 40) -> Minutes:
    """Minutes of partitions of which some become known later, and some never move."""
    chance, maker, found = random.Random(seed), PositionMinutes(), Minutes()
    positions = {place: chance.randrange(1 << 40) for place in PLACES[:known]}
    for minute in range(begin, begin + minutes):
        for number, place in enumerate(PLACES):
            if place in positions and number % 3:
                positions[place] += chance.choice((0, 1, 300, 70_000))
            elif chance.random() < 0.02:
                positions.setdefault(place, chance.randrange(1 << 40))
        at_ms = BEGIN_MS + minute * MINUTE_MS
        value = maker.take(positions, at_ms)
        if value is not None:
            found.append((at_ms, dict(positions), value))
    return found


def search(minutes: Minutes, place: TopicPartition, offset: int) -> tuple[float, float] | None:
    crossing = Crossing(place, Offset(offset))
    for _, _, value in minutes:
        crossing.take(decode_positions(value))
    return crossing.between()


def told(minutes: Minutes, place: TopicPartition, offset: int) -> tuple[float, float] | None:
    """The same by the positions themselves."""
    before_s, found = 0.0, None
    for at_ms, positions, _ in minutes:
        if place not in positions:
            continue
        if positions[place] <= offset:
            before_s, found = at_ms / 1000 - REPORTED_WITHIN_S, None
        elif found is None:
            found = before_s, at_ms / 1000
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_minute_is_found_of_each_partition_over_hours(seed: int) -> None:
    minutes, chance = written(150, seed, known=20), random.Random(seed)
    for place in PLACES:
        for _, positions, _ in chance.sample(minutes, 5):
            for offset in (positions.get(place, 5) - 1, positions.get(place, 5)):
                assert search(minutes, place, offset) == told(minutes, place, offset)
    assert search(minutes, TopicPartition(TopicName("none"), PartitionId(0)), 1) is None


def test_times_lie_a_minute_apart_while_the_link_runs() -> None:
    minutes = written(70, 1)
    offset = minutes[66][1][PLACES[1]] - 1
    between = search(minutes, PLACES[1], offset)
    assert between is not None
    assert between[1] - between[0] <= 2 * 60 + REPORTED_WITHIN_S, "moved in one of two minutes"


def test_minutes_written_twice_change_nothing_and_lost_ones_are_no_time_of_a_record() -> None:
    minutes = written(50, 2)
    place = PLACES[1]
    offset = minutes[20][1][place] - 1
    truth = told(minutes, place, offset)
    assert search([*minutes[:22], *minutes[19:22], *minutes[22:]], place, offset) == truth
    assert search([*minutes, *minutes], place, offset) == truth
    lost = [*minutes[:10], *minutes[12:]]
    assert search(lost, place, offset) is None, "sums without two minutes would be wrong"
    at_ms = BEGIN_MS + 60 * MINUTE_MS
    hour = PositionMinutes().take(minutes[-1][1], at_ms)
    assert hour is not None
    again = [*lost, (at_ms, minutes[-1][1], hour)]
    early = minutes[5][1][place] - 1
    assert search(again, place, early) == told(minutes, place, early)
    from_s = minutes[9][0] / 1000 - REPORTED_WITHIN_S
    assert search(again, place, offset) == (from_s, at_ms / 1000)


def test_a_position_that_went_back_counts_from_its_last_passing() -> None:
    maker, minutes = PositionMinutes(), Minutes()
    for minute, at in enumerate((5, 50, 50, 3, 3, 60)):
        positions = {PLACES[0]: at}
        value = maker.take(positions, BEGIN_MS + minute * MINUTE_MS)
        assert value is not None
        minutes.append((BEGIN_MS + minute * MINUTE_MS, positions, value))
    between = search(minutes, PLACES[0], 20)
    assert between == (BEGIN_MS / 1000 + 240 - REPORTED_WITHIN_S, BEGIN_MS / 1000 + 300)


def test_a_leap_too_far_for_a_minutes_number_is_kept() -> None:
    maker = PositionMinutes()
    values = [maker.take({PLACES[0]: at}, BEGIN_MS + at % 7) for at in (0, 1 << 50, (1 << 50) + 9)]
    crossing = Crossing(PLACES[0], Offset((1 << 50) + 4))
    for value in values:
        crossing.take(decode_positions(value))
    assert crossing.between() is not None


def test_what_is_not_known_is_not_written() -> None:
    assert PositionMinutes().take({PLACES[0]: -1}, BEGIN_MS) is None


def test_damaged_rows_raise_what_readers_tell_of() -> None:
    chance = random.Random(3)
    for _, _, value in written(3, 1):
        good = zlib.decompress(value[1:])
        for _ in range(500):
            content = bytearray(good)
            content[chance.randrange(len(good))] = chance.randrange(256)
            crossing = Crossing(PLACES[0], Offset(7))
            try:
                crossing.take(decode_positions(b"\x01" + zlib.compress(bytes(content), 1)))
            except NOT_A_ROW:
                continue
