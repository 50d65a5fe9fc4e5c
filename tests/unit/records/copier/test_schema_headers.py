"""The schema gate where headers have ids and GUIDs, by compiled code and by objects (I8)."""

from __future__ import annotations

import pytest
from support.framed_batches import GUIDS, VALUE_HEADER, by_guid, framed
from support.records import LZ4, NONE, Sample
from unit.records.copier.test_plain_way import NOW
from unit.records.copier.test_schema_gate import (
    FOREIGN,
    KEYS,
    KNOWN,
    MAYBE,
    REPLACED,
    UNKNOWN,
    VALUES,
    answer,
    framing,
    queued_records,
    side_of,
    stored,
)

from heliostat.framed_ids import id_in_header, shown_id
from heliostat.records.copier.lane import SchemaFrames
from heliostat.records.copier.schema_gate import SchemaGate
from heliostat.records.transport.schema_id_rows import schema_ids_of


def in_header(base: int, content: bytes, value: bytes = b"v", codec: int = NONE) -> bytes:
    """A batch of a record whose value has its id in a header."""
    return stored(base, [Sample(b"k", value, NOW, ((VALUE_HEADER, content),))], codec)


HEADER_CASES = [
    (VALUES, framed(KNOWN, b""), True),
    (VALUES, framed(UNKNOWN, b""), False),
    (VALUES, framed(FOREIGN, b""), False),
    (VALUES, by_guid(GUIDS[0]), True),
    (VALUES, by_guid(GUIDS[2]), False),
    (MAYBE, framed(UNKNOWN, b""), False),
    (MAYBE, framed(FOREIGN, b""), True),
    (MAYBE, by_guid(GUIDS[2]), False),
    (KEYS, framed(UNKNOWN, b""), False),
    (KEYS, framed(KNOWN, b""), True),
    (SchemaFrames(0), framed(UNKNOWN, b""), True),
]


@pytest.mark.parametrize("codec", [NONE, LZ4])
@pytest.mark.parametrize(("frames", "content", "passes"), HEADER_CASES)
def test_both_ways_let_the_same_headers_pass(
    frames: SchemaFrames, content: bytes, codec: int, *, passes: bool
) -> None:
    """Given a header with an id, and a value that seems to have another / then the header counts,

    wherever ids are looked at.
    """
    same = [(GUIDS[0], GUIDS[0])]
    known = schema_ids_of([(each, each) for each in range(1, KNOWN + 1)], (FOREIGN,), same)
    item, gate = framing(frames), SchemaGate()
    gate.learn(known, [item])
    data = in_header(0, content, framed(UNKNOWN), codec)
    gate.fetched(item, answer(item, data), 0.0, NOW)
    assert bool(item.appends.queue) is passes
    if not passes:
        number = id_in_header(content)
        assert number is not None
        assert gate.missed([item]) == (number,)
        assert f"schema id {shown_id(number)} " in item.standing.reason
    if codec == NONE:
        assert side_of(frames, known).take(data, high_watermark=100) == ([] if passes else [0])


@pytest.mark.parametrize("codec", [NONE, LZ4])
@pytest.mark.parametrize("frames", [VALUES, KEYS, MAYBE])
def test_ids_in_headers_become_the_targets(frames: SchemaFrames, codec: int) -> None:
    """Given ids and GUIDs that are others at the target / then headers get these, also in topics

    of which nobody has said whether values begin with ids.
    """
    new = b"another one 1234"
    moved = schema_ids_of([(KNOWN, 107)], (), [(GUIDS[0], new), (GUIDS[1], GUIDS[1])])
    contents = framed(KNOWN, b""), by_guid(GUIDS[0]), by_guid(GUIDS[1])
    item, gate = framing(frames | REPLACED), SchemaGate()
    gate.learn(moved, [item])
    data = b"".join(in_header(base, content, codec=codec) for base, content in enumerate(contents))
    gate.fetched(item, answer(item, data), 0.0, NOW)
    found = [record.headers for record in queued_records(item)]
    wanted = framed(107, b""), by_guid(new), by_guid(GUIDS[1])
    assert found == [((VALUE_HEADER, content),) for content in wanted]


def test_compiled_code_puts_ids_into_headers_and_leaves_guids_that_change_to_objects() -> None:
    moved = schema_ids_of([(KNOWN, 107)], (), [(GUIDS[0], b"another one 1234")])
    side = side_of(VALUES | REPLACED, moved)
    assert side.take(in_header(0, by_guid(GUIDS[0])), high_watermark=100) == [0]
    side = side_of(VALUES | REPLACED, moved)
    assert side.take(in_header(0, framed(KNOWN, b"")), high_watermark=100) == []
