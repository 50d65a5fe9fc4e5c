"""A leader's answer that its log is not the one read before (`DivergingEpoch`, KIP-595)."""

from __future__ import annotations

import struct

import pytest

from heliostat.clusters.wire import fetch

PARTED = b"\x00\x0d" + struct.pack(">iq", 3, 90) + b"\x00"
LEADER = b"\x01\x09" + struct.pack(">ii", 1, 5) + b"\x00"


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        (b"\x00", None),
        (b"\x01" + PARTED, (3, 90)),
        (b"\x01" + LEADER, None),
        (b"\x02" + PARTED + LEADER, (3, 90)),
    ],
)
def test_it_is_read_from_the_tagged_fields(tags: bytes, found: tuple[int, int] | None) -> None:
    assert fetch.read_diverging_epoch(b"..." + tags, 3) == found


def test_the_epoch_that_a_fetch_names_can_be_changed_in_place() -> None:
    def encoded(offset: int, size: int, epoch: int, offsets_at: list[int]) -> bytearray:
        want = fetch.FetchPartition("t", None, 0, offset, size, epoch)
        return fetch.encode_fetch(
            12,
            [want],
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=9,
            read_committed=True,
            offsets_at=offsets_at,
        )

    offsets_at: list[int] = []
    body = encoded(5, 10, -1, offsets_at)
    fetch.aim(body, offsets_at[0], 77, 20, 4)
    assert body == encoded(77, 20, 4, [])
