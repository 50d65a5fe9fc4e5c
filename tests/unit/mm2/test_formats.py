"""MirrorMaker 2's records against bytes of its own classes, and round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.errors import ProtocolError
from heliostat.mm2.formats import TEXT_BYTES_MAX, Checkpoint, Heartbeat, OffsetSync
from heliostat.names import Alias, Offset, PartitionId, TopicName, TopicPartition

# Printed by the classes of connect-mirror 4.3.0; tests/peer/test_mirror_client.py asks them again.
VECTORS = [
    (
        OffsetSync(TopicPartition(TopicName("orders"), PartitionId(3)), Offset(1000), Offset(998)),
        "00066f726465727300000003",
        "00000000000003e800000000000003e6",
    ),
    (
        Checkpoint(
            "g1",
            TopicPartition(TopicName("A.orders"), PartitionId(3)),
            Offset(1000),
            Offset(998),
        ),
        "000267310008412e6f726465727300000003",
        "000000000000000003e800000000000003e60000",
    ),
    (
        Heartbeat(Alias("A"), Alias("B"), 1_700_000_000_000),
        "000141000142",
        "00000000018bcfe56800",
    ),
]

texts = st.text(max_size=40)
offsets = st.integers(-(2**63), 2**63 - 1).map(Offset)
partitions = st.builds(
    TopicPartition, texts.map(TopicName), st.integers(-(2**31), 2**31 - 1).map(PartitionId)
)
records = st.one_of(
    st.builds(Heartbeat, texts.map(Alias), texts.map(Alias), st.integers(-(2**63), 2**63 - 1)),
    st.builds(Checkpoint, texts, partitions, offsets, offsets, texts),
    st.builds(OffsetSync, partitions, offsets, offsets),
)


@pytest.mark.parametrize(("record", "key", "value"), VECTORS, ids=lambda v: type(v).__name__)
def test_bytes_are_those_of_the_java_classes(record, key, value):
    assert (record.key().hex(), record.value().hex()) == (key, value)
    assert type(record).decode(bytes.fromhex(key), bytes.fromhex(value)) == record


@given(record=records)
def test_written_records_are_read_back(record):
    assert type(record).decode(record.key(), record.value()) == record


@given(record=records, cut=st.integers(1, 400), is_key=st.booleans())
def test_a_truncated_record_is_refused(record, cut, is_key):
    key, value = record.key(), record.value()
    short = (key[:-cut], value) if is_key else (key, value[:-cut])
    with pytest.raises(ProtocolError, match="cut off"):
        type(record).decode(*short)


@pytest.mark.parametrize("kind", [Heartbeat, Checkpoint, OffsetSync])
@pytest.mark.parametrize("record", [(None, b""), (b"\x00\x01A\x00\x01B", None)])
def test_a_null_is_refused(kind, record):
    with pytest.raises(ProtocolError):
        kind.decode(*record)


def test_a_later_version_is_refused_not_misread():
    key, value = VECTORS[2][0].key(), b"\x00\x01" + VECTORS[2][0].value()[2:]
    with pytest.raises(ProtocolError, match="version is 1"):
        Heartbeat.decode(key, value)


def test_invalid_utf8_is_refused():
    with pytest.raises(ProtocolError, match="UTF-8"):
        Heartbeat.decode(b"\x00\x01\xff\x00\x01B", VECTORS[2][0].value())


def test_a_text_that_does_not_fit_is_refused():
    assert len(Heartbeat(Alias("a" * TEXT_BYTES_MAX), Alias(""), 0).key()) == TEXT_BYTES_MAX + 4
    with pytest.raises(ProtocolError, match="too long"):
        Heartbeat(Alias("é" * (TEXT_BYTES_MAX // 2 + 1)), Alias(""), 0).key()
