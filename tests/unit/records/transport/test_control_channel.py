"""How a lane handles announcements: which it accepts, and when they end its round (I10)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse

from heliostat.clusters.wire import fetch
from heliostat.invariants import first_generation
from heliostat.names import LaneId
from heliostat.records.batches.encode import encode_batch
from heliostat.records.transport.announcements import (
    CONTROL_KEY,
    Announcements,
    Heard,
    _is_for_us,
)
from heliostat.records.transport.control_channel import StateChannel

GENERATION = first_generation(3) + 5
LANE: Any = SimpleNamespace(lane=LaneId(0), generation=GENERATION)
VERSION = max(v for v in fetch.VERSIONS if v < fetch.BY_ID_FROM)
WANTED = {"claim": 3, "lanes": {"0": GENERATION}, "running": ["0/1/2"]}
OTHER = {"claim": 3, "lanes": {"0": GENERATION + 1}}


@pytest.fixture
def hearing() -> tuple[Announcements, Heard]:
    """Over a line that leads nowhere."""
    conn: Any = SimpleNamespace(worked=lambda: None)
    heard = Heard()
    return Announcements(LANE, conn, heard), heard


def answer(base: int, high_watermark: int, *announced: dict[str, Any]) -> memoryview:
    """A frame with announcements from offset `base` on."""
    rows = [(CONTROL_KEY.encode(), json.dumps(each).encode(), 1) for each in announced]
    records = bytearray(encode_batch(rows))
    records[:8] = base.to_bytes(8, "big")
    kind = FetchResponse.FetchableTopicResponse
    partition: Any = kind.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=0,
        aborted_transactions=[],
        preferred_read_replica=-1,
        records=bytes(records),
    )
    body = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=0,
        responses=[kind(topic="t", partitions=[partition])],
    )
    return memoryview(bytearray(b"\0\0\0\0\0" + bytes(body.encode(version=VERSION))))


def test_the_newest_announcement_alone_ends_a_round(
    hearing: tuple[Announcements, Heard],
) -> None:
    """Given older ones before it / when they are read first / then the round continues."""
    announcements, answered = hearing
    announcements._take(answer(0, 2, OTHER), VERSION)
    assert (answered.is_superseded, answered.running) == (False, None)
    announcements._take(answer(1, 2, WANTED), VERSION)
    assert (answered.is_superseded, answered.running) == (False, frozenset({"0/1/2"}))
    announcements._take(answer(2, 3, OTHER), VERSION)
    assert answered.is_superseded


def test_late_announcements_of_a_fenced_owner_are_ignored(
    hearing: tuple[Announcements, Heard],
) -> None:
    announcements, answered = hearing
    announcements._take(answer(0, 2, WANTED, {"claim": 2, "lanes": {}}), VERSION)
    assert not answered.is_superseded


@pytest.mark.parametrize(
    ("claim", "expected"), [(2, False), (3, True), (4, True), (None, True), ("3", True)]
)
def test_lanes_accept_their_own_owner_and_later_ones(claim: Any, *, expected: bool) -> None:
    assert _is_for_us({} if claim is None else {"claim": claim}, LANE) is expected


@pytest.mark.parametrize(
    ("lanes", "expected"),
    [
        ({"0": GENERATION}, False),
        ({"0": GENERATION + 1}, True),
        ({"0": GENERATION - 1}, True),
        ({"1": GENERATION}, True),
        ({}, True),
        (None, True),
    ],
)
def test_a_lane_missing_from_the_announcement_ends(lanes: Any, *, expected: bool) -> None:
    answered = Heard()
    answered.take({"lanes": lanes}, LANE)
    assert answered.is_superseded is expected


@pytest.mark.parametrize(
    ("switch_at_ms", "now_ms", "expected"),
    [(None, 0, True), (1000, 999, False), (1000, 1000, True)],
)
def test_a_superseded_round_continues_until_the_switch(
    switch_at_ms: int | None, now_ms: int, *, expected: bool
) -> None:
    """Given a plan that comes into force later / then the round copies until then."""
    answered = Heard()
    answered.take({"lanes": {}, "switch_at_ms": switch_at_ms}, LANE)
    channel = StateChannel.__new__(StateChannel)
    nothing: Any = SimpleNamespace(raise_if_broken=lambda: None, raise_if_silent=lambda: None)
    channel._thread = channel._control = nothing
    channel._heard, channel._wall_ms = answered, lambda: now_ms
    assert channel.is_superseded() is expected
    assert channel.switch_at_ms == switch_at_ms
