"""CRCs of messages whose beginning has changed, of any length."""

from __future__ import annotations

import random

import pytest

from heliostat.records.batches.crc import crc32c, shifted


@pytest.mark.parametrize("tail_bytes", [0, 1, 63, 64, 65, 4095, 4096, 4097, 300_000, 17_000_000])
def test_a_changed_beginning_changes_the_crc_as_if_all_were_read(tail_bytes: int) -> None:
    rng = random.Random(tail_bytes)
    old, new, tail = rng.randbytes(40), rng.randbytes(40), bytes(tail_bytes)
    difference = shifted(crc32c(old) ^ crc32c(new), tail_bytes)
    assert crc32c(old + tail) ^ difference == crc32c(new + tail)
