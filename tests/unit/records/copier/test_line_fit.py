"""What is asked of a source broker for partitions far behind, by how far it is."""

from __future__ import annotations

import pytest

from heliostat.records.copier.lane import CopySettings
from heliostat.records.copier.line_fit import LineFit

MIB = 1 << 20
SETTINGS = CopySettings(partition_fetch_bytes_max=16 * MIB)


def grown(round_trip_s: float, bytes_per_s: float, settings: CopySettings, behind: int) -> int:
    """Return what is asked for in the end, over a line with this delay and pace."""
    line, asked = LineFit(settings), settings.partition_fetch_bytes
    for _ in range(30):
        took_s = round_trip_s + asked / bytes_per_s
        line.answered(took_s)
        asked = line.wanted_bytes(asked, took_s, behind)
    return asked


@pytest.mark.parametrize(
    ("round_trip_s", "bytes_per_s", "behind", "mib"),
    [
        (0.0002, 500e6, 4, 1),  # beside it
        (0.002, 100e6, 4, 1),  # in the same town, a gigabit
        (0.150, 110e6, 4, 16),  # on another continent
        (0.150, 110e6, 1, 16),  # as much as the user allows
        (0.150, 110e6, 12, 8),  # half the lane's memory, for all together
        (0.150, 110e6, 500, 1),  # there is enough to ask for
        (0.150, 5e6, 4, 8),  # a slow line is full with less
    ],
)
def test_a_fetch_asks_for_what_the_line_holds(
    round_trip_s: float, bytes_per_s: float, behind: int, mib: int
) -> None:
    assert grown(round_trip_s, bytes_per_s, SETTINGS, behind) == mib * MIB


def test_limits_of_the_user_are_kept() -> None:
    small = CopySettings(partition_fetch_bytes_max=50_000)
    assert small.partition_fetch_bytes == 50_000
    assert grown(0.15, 110e6, small, 1) == 50_000


def test_one_slow_answer_does_not_make_a_broker_far() -> None:
    line = LineFit(SETTINGS)
    for took_s in (0.3, 0.4, 0.003):
        assert line.connections == 1
        line.answered(took_s)
    assert not line.is_far
    assert line.wanted_bytes(MIB, 0.003, 1) == MIB


def test_a_far_broker_has_several_connections_unless_the_user_says_how_many() -> None:
    for wanted, count in ((0, 4), (1, 1), (7, 7)):
        line = LineFit(CopySettings(backlog_connections=wanted))
        for _ in range(3):
            line.answered(0.2)
        assert line.connections == count
