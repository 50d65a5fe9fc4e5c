"""How a lane handles announcements: which it accepts, and when they end its round (I10)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse

from heliostat.clusters.wire import fetch
from heliostat.invariants import first_generation
from heliostat.names import LaneId
from heliostat.records.batches.crc import crc32c
from heliostat.records.batches.encode import encode_batch
from heliostat.records.copier.lane import Announcement, PlanChange, WantedRound
from heliostat.records.transport.announcements import (
    CONTROL_KEY,
    Announcements,
    Heard,
    _is_for_us,
)
from heliostat.records.transport.plan_rows import encode_announcement

GENERATION = first_generation(3) + 5
ROUND = f"0/{GENERATION}/0"
LANE: Any = SimpleNamespace(lane=LaneId(0), generation=GENERATION, round_id=ROUND)
VERSION = max(v for v in fetch.VERSIONS if v < fetch.BY_ID_FROM)
CHANGES = (PlanChange(GENERATION + 2, (), ()), PlanChange(GENERATION + 4, (), (), ("x",), 3.0))


def told(round_id: str | None = ROUND, *, claim: int = 3, lane: int = 0) -> dict[str, Any]:
    """An announcement of which round a lane should have; None: none at all."""
    wanted = {} if round_id is None else {LaneId(lane): WantedRound(round_id, CHANGES)}
    return encode_announcement(claim, Announcement(wanted, ("0/1/2",), {ROUND: 7, "x": 9}))


OTHER = told("0/1/1")


@pytest.fixture
def hearing() -> tuple[Announcements, Heard]:
    """Over a line that leads nowhere."""
    conn: Any = SimpleNamespace(worked=lambda: None)
    heard = Heard()
    return Announcements(LANE, conn, heard), heard


def answer(base: int, high_watermark: int, *announced: dict[str, Any]) -> memoryview:
    """A frame with announcements from offset `base` on."""
    return frame_of(base, high_watermark, CONTROL_KEY, announced)


def frame_of(
    base: int, high_watermark: int, key: str, values: Iterable[dict[str, Any]]
) -> memoryview:
    """A frame with records of one key from offset `base` on."""
    rows = [(key.encode(), json.dumps(each).encode(), 1) for each in values]
    return frame_with(high_watermark, batch_at(base, rows))


def batch_at(base: int, rows: list[tuple[bytes | None, bytes | None, int]]) -> bytes:
    """A batch of records of key, value and time."""
    records = bytearray(encode_batch(rows))
    records[:8] = base.to_bytes(8, "big")
    return bytes(records)


def frame_with(high_watermark: int, records: bytes) -> memoryview:
    """A frame with these batches."""
    kind = FetchResponse.FetchableTopicResponse
    partition: Any = kind.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=0,
        aborted_transactions=[],
        preferred_read_replica=-1,
        records=records,
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
    announcements._take(answer(1, 2, told()), VERSION)
    assert (answered.is_superseded, answered.running) == (False, frozenset({"0/1/2"}))
    assert (answered.answered, answered.changes) == (7, CHANGES)
    announcements._take(answer(2, 3, OTHER), VERSION)
    assert answered.is_superseded


def test_late_announcements_of_a_fenced_owner_are_ignored(
    hearing: tuple[Announcements, Heard],
) -> None:
    announcements, answered = hearing
    announcements._take(answer(0, 2, told(), told(None, claim=2)), VERSION)
    assert not answered.is_superseded


@pytest.mark.parametrize(
    ("claim", "expected"), [(2, False), (3, True), (4, True), (None, True), ("3", True)]
)
def test_lanes_accept_their_own_owner_and_later_ones(claim: Any, *, expected: bool) -> None:
    assert _is_for_us({} if claim is None else {"claim": claim}, LANE) is expected


@pytest.mark.parametrize(
    ("announced", "expected"),
    [
        (told(), False),
        (told("0/1/1"), True),
        (told(""), True),
        (told(lane=1), True),
        (told(None), True),
        ({"lanes": {"0": GENERATION}}, True),  # of an earlier version
    ],
)
def test_a_round_that_is_not_the_lanes_ends(announced: dict[str, Any], *, expected: bool) -> None:
    answered = Heard()
    answered.take(announced, LANE)
    assert answered.is_superseded is expected


GARBAGE = (b"", b"\xff\x00", b"7", b"[]", b'"text"', b"{}", b"[" * 5000, b'{"rounds": 5}')


@pytest.mark.parametrize("key", [None, b"\xff", b"lanes", b"schemas", b"what"])
@pytest.mark.parametrize("value", [*GARBAGE, json.dumps({"rounds": {"0": {}}}).encode()])
def test_what_others_write_there_ends_no_round_and_hides_no_announcement(
    hearing: tuple[Announcements, Heard], key: bytes | None, value: bytes
) -> None:
    """Given a foreign record after an announcement, and one before / then both are as if alone."""
    announcements, answered = hearing
    strange = [(key, value, 1)]
    own = [(CONTROL_KEY.encode(), json.dumps(told()).encode(), 1)]
    announcements._take(frame_with(2, batch_at(0, own) + batch_at(1, strange)), VERSION)
    assert (answered.is_superseded, answered.answered) == (False, 7)
    other = [(CONTROL_KEY.encode(), json.dumps(OTHER).encode(), 1)]
    announcements._take(frame_with(4, batch_at(2, strange) + batch_at(3, other)), VERSION)
    assert answered.is_superseded


@pytest.mark.parametrize("attributes", [0x20, 0x01], ids=["a marker", "an encoding of others"])
def test_a_batch_without_a_readable_record_is_passed(
    hearing: tuple[Announcements, Heard], attributes: int
) -> None:
    """Given such a batch at the end / then what was announced before it is known, and read once."""
    announcements, answered = hearing
    own = [(CONTROL_KEY.encode(), json.dumps(told()).encode(), 1)]
    last = bytearray(batch_at(1, [(b"k", b"v", 1)]))
    last[22] |= attributes
    last[17:21] = crc32c(bytes(last[21:])).to_bytes(4, "big")
    announcements._take(frame_with(2, batch_at(0, own) + bytes(last)), VERSION)
    assert (answered.answered, announcements._offset) == (7, 2)
