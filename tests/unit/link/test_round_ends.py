"""Why rounds ended: a code where Spark's text has one, and never more reasons than a few."""

from __future__ import annotations

import pytest

from heliostat.errors import ConnectionLost, TransformFailed
from heliostat.link.round_ends import PLANNED, REASONS_MAX, UNKNOWN, RoundEnds, reason_of

OF_WORKER = (
    "An error occurred\nTraceback (most recent call last):\n"
    f"heliostat.errors.ConnectionLost: {ConnectionLost('a broker is away')}\n"
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, PLANNED),
        (TransformFailed("it hangs"), TransformFailed.code),
        (RuntimeError(OF_WORKER), ConnectionLost.code),
        (RuntimeError("a record with [BROKER_FEE] in it"), UNKNOWN),
    ],
)
def test_a_reason_is_a_code(error: Exception | None, reason: str) -> None:
    assert reason_of(error, is_cancelled=False) == reason


def test_a_cancelled_round_says_so() -> None:
    assert reason_of(RuntimeError("stage cancelled"), is_cancelled=True) == "CANCELLED"


def test_reasons_are_bounded_and_nothing_is_left_uncounted() -> None:
    ends = RoundEnds()
    for number in range(2 * REASONS_MAX):
        text = f"heliostat.errors.Odd: [CODE_{number}] text"
        ends.ended(RuntimeError(text), is_cancelled=False)
    rows = ends.report()
    assert len(rows) <= REASONS_MAX + 1
    assert sum(count for _, _, count in rows) == 2 * REASONS_MAX
