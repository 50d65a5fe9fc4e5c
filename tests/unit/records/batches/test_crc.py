"""CRCs of messages whose beginning has changed, of any length."""

from __future__ import annotations

import random

import pytest

from heliostat.records.batches.crc import crc32c, crc_of_changed


@pytest.mark.parametrize("tail_bytes", [0, 1, 63, 64, 65, 4095, 4096, 4097, 300_000, 17_000_000])
def test_a_changed_beginning_changes_the_crc_as_if_all_were_read(tail_bytes: int) -> None:
    rng = random.Random(tail_bytes)
    old, new, tail = rng.randbytes(40), rng.randbytes(40), bytes(tail_bytes)
    assert crc_of_changed(crc32c(old + tail), old, new, tail_bytes) == crc32c(new + tail)
