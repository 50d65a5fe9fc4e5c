"""Batches whose keys and values begin with schema ids, one by one and at random."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from support import batches as ref

NOW = 1_790_000_000_000
CODECS = range(5)
LONG = b"p" * 150
"""Payloads that compression makes smaller: aiokafka does not compress others."""


KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
GUIDS = [bytes(range(place, place + 16)) for place in (0, 1, 200)]


def framed(number: int, payload: bytes = LONG) -> bytes:
    return b"\0" + struct.pack(">i", number) + payload


def by_guid(guid: bytes, more: bytes = b"") -> bytes:
    """What a header with a GUID has."""
    return b"\1" + guid + more


def batch(*ids: int, base: int = 0, codec: int = 0) -> bytes:
    """A batch whose records have these ids in their values."""
    records = tuple(ref.Record(NOW, b"k", framed(number)) for number in ids)
    made = ref.StoredBatch(base, records, codec=codec).encode()
    assert ref.header_of(made)["attributes"] & 7 == codec
    return made


@st.composite
def answers(
    draw: st.DrawFn, ids: Sequence[int], in_header: int, attributes: Sequence[int]
) -> list[ref.StoredBatch]:
    """Batches in a row; compaction has removed some of their records.

    `in_header`: an id in a header where none counts; `attributes`: more ones of batches.
    """
    in_schema_header = (
        st.sampled_from([None, b"", b"\0\0\0\1", b"\1" * 16, framed(-1), by_guid(b"\xff" * 16)])
        | st.builds(framed, st.sampled_from(ids), st.sampled_from([b"", b"\0"]))
        | st.builds(by_guid, st.sampled_from(GUIDS), st.sampled_from([b"", b"\0"]))
    )
    headers = st.tuples(st.sampled_from([KEY_HEADER, VALUE_HEADER]), in_schema_header)
    other_headers = st.sampled_from(
        [
            ("h", framed(in_header)),
            ("a", None),
            ("", b""),
            (KEY_HEADER[:-1], framed(in_header)),
            (VALUE_HEADER[:-1] + "D", framed(in_header)),
        ]
    )
    payloads = (
        st.none()
        | st.sampled_from([b"", b"\0", b"\0\0\0\1", b"\1\0\0\0\5x", framed(-1), framed(-(2**31))])
        | st.builds(framed, st.sampled_from(ids), st.sampled_from([b"", b"x", LONG]))
    )
    records = st.builds(
        ref.Record,
        st.integers(NOW - 10**9, NOW),
        payloads,
        payloads,
        st.just(()) | st.lists(headers | other_headers, max_size=3).map(tuple),
    )
    base = draw(st.sampled_from([0, 7, 2**40]))
    made = []
    for _ in range(draw(st.integers(1, 5))):
        deltas = sorted(draw(st.sets(st.integers(0, 300), min_size=1, max_size=6)))
        content = [draw(records) for _ in deltas]
        more, codec = draw(st.sampled_from(attributes)), draw(st.sampled_from(CODECS))
        stored = ref.StoredBatch(base, tuple(content), codec, deltas=tuple(deltas))
        made.append(replace(stored, more_attributes=more))
        base += deltas[-1] + 1
    return made
