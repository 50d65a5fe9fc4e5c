"""A socket's buffer is set only where the kernel's own tuning would keep it smaller."""

from __future__ import annotations

import pytest

from heliostat.clusters.wire.connection import BUFFER_BYTES_MAX, buffer_size

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("settable", "tuned_max", "size"),
    [
        (212_992, 6 * MIB, None),  # Linux as it comes
        (4 * MIB, 32 * MIB, None),  # tuning reaches more: a set size would end it
        (4 * MIB, 4 * MIB, 4 * MIB),  # twice as much is granted
        (16 * MIB, 6 * MIB, 16 * MIB),
        (256 * MIB, 6 * MIB, BUFFER_BYTES_MAX),
    ],
)
def test_a_size_is_set_only_if_tuning_reaches_less(
    settable: int, tuned_max: int, size: int | None
) -> None:
    assert buffer_size(settable, tuned_max) == size
