"""Produce requests of compiled code are those of `produce`, and answers are read alike."""

from __future__ import annotations

import dataclasses
import struct
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.checked_indexes import with_checked_indexes
from support.examples import examples

from heliostat.clusters.wire import produce
from heliostat.clusters.wire.primitives import compact_string, request_header, uvarint
from heliostat.names import Offset, PartitionId, TopicId, TopicName, TopicPartition
from heliostat.records.copier import plain_sends as sent
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import PlainSends
from heliostat.records.transport import plain_requests

NUMBER, CLIENT = 77_000, "client"
NAMES = ["a", "ab", "b" * 126, "c" * 127, "c" * 249]
IDS = {name: TopicId(uuid.UUID(int=(number << 100) + 1).hex) for number, name in enumerate(NAMES)}
*_, checked = with_checked_indexes(
    "heliostat.clusters.wire.scan",
    "heliostat.records.batches.compiled_bytes",
    "heliostat.records.transport.plain_requests",
)


def spec_of(name: str, number: int) -> PartitionSpec:
    at = TopicPartition(TopicName(name), PartitionId(number))
    return PartitionSpec(at, at, IDS[name], IDS[name], Offset(0), 1 << 20, is_compacted=False)


SPECS = [spec_of(name, number) for number in (0, 1, 70_000) for name in NAMES]
"""Partitions of a topic are not adjacent."""
VERSIONS = st.sampled_from(produce.VERSIONS)


RECREATED = [
    dataclasses.replace(spec, target_topic_id=TopicId(uuid.UUID(int=7).hex)) for spec in SPECS[:1]
]
"""A partition of a topic that was deleted and created again: the lane knew the former one."""


def requests_of(version: int, made: Any = plain_requests) -> Any:
    return made.PlainRequests(version, CLIENT, SPECS, 77)


def rows_of(indexes: list[int], sizes: list[int]) -> Any:
    rows = np.zeros((len(indexes), sent.SENT_FIELDS), np.int64)
    rows[:, sent.INDEX], rows[:, sent.SIZE] = indexes, sizes
    rows[:, sent.AT] = np.cumsum(sizes) - sizes
    rows[:, sent.LANDED_AT] = -1
    return rows


indexes = st.lists(st.sampled_from(range(len(SPECS))), min_size=1, max_size=15, unique=True)


@given(VERSIONS, indexes, st.data())
@examples(200)
def test_a_request_is_encoded_as_produce_does(version, which, data):
    """Given batches of several topics / then both encodings agree to the byte."""
    sizes = [data.draw(st.sampled_from([1, 100, 127, 128, 20_000])) for _ in which]
    body = np.arange(sum(sizes)).astype(np.uint8)
    rows = rows_of(which, sizes)
    parts = [
        produce.ProducePartition(
            SPECS[index].target.topic,
            SPECS[index].target_topic_id,
            SPECS[index].target.partition,
            (bytes(body[at : at + size]),),
            size,
        )
        for index, size, at in zip(which, sizes, rows[:, sent.AT].tolist(), strict=True)
    ]
    body_parts = produce.encode_produce(version, parts, timeout_ms=77)
    expected = request_header(produce.API_KEY, version, NUMBER, CLIENT, flexible=True)
    expected += b"".join(bytes(part) for part in body_parts)
    expected = len(expected).to_bytes(4, "big") + expected
    for made in (plain_requests, checked):
        requests = requests_of(version, made)
        assert bytes(requests.encode(NUMBER, PlainSends(rows, body, len(body)))) == expected
        assert bytes(requests.encode(NUMBER, PlainSends(rows, body, len(body)))) == expected, (
            "again, in the same room"
        )


def answer_of(version: int, which: list[int], **changes: Any) -> bytearray:
    """An answer in which each partition's base offset is its index; the last one may be special."""
    fields = {"error": 0, "time": -1, "errors": b"\x01", "message": b"\x00", "tags": b"\x00"}
    out = bytearray(b"\x00\x00\x00\x07\x00")
    topics: dict[str, list[int]] = {}
    for index in which:
        topics.setdefault(SPECS[index].target.topic, []).append(index)
    out += uvarint(len(topics) + 1)
    for name, members in topics.items():
        out += IDS[name].bytes if version >= produce.BY_ID_FROM else compact_string(name)
        out += uvarint(len(members) + 1)
        for index in members:
            now = fields | (changes if index == which[-1] else {})
            number = SPECS[index].target.partition
            out += struct.pack(">ihqqq", number, now["error"], index, now["time"], 0)
            out += now["errors"] + now["message"] + now["tags"]
        out += b"\x00"
    return out + struct.pack(">i", 250) + b"\x00"


@given(VERSIONS, indexes, st.randoms(use_true_random=False), st.data())
@examples(200)
def test_an_answer_tells_where_each_batch_landed(version, which, random, data):
    """Given an answer in any order / then rows have its offsets; a cut one is left to objects."""
    order = random.sample(which, len(which))
    answer = answer_of(version, order)
    cut = data.draw(st.sampled_from([0, 0, data.draw(st.integers(1, len(answer) - 5))]))
    for made in (plain_requests, checked):
        requests, rows = (
            requests_of(version, made),
            rows_of(which, [1] * len(which)),
        )
        requests.encode(NUMBER, PlainSends(rows, np.zeros(len(which), np.uint8), len(which)))
        view = memoryview(answer[: len(answer) - cut])
        found = requests.decode(view, rows)
        if cut > 1:
            assert found == -1
        else:
            assert (found, rows[:, sent.LANDED_AT].tolist()) == (250, which)


@pytest.mark.parametrize("version", produce.VERSIONS)
@pytest.mark.parametrize(
    "changes",
    [
        {"error": 6},
        {"time": 5},
        {"errors": b"\x02\x00\x00\x00\x00\x00\x00"},
        {"message": b"\x02x"},
        {"tags": b"\x01\x00\x01x"},
    ],
)
def test_a_special_answer_is_left_to_objects(version, changes):
    """Given an error, a repetition, a message or a tagged field / then it is not read here."""
    requests, rows = (
        plain_requests.PlainRequests(version, CLIENT, SPECS, 77),
        rows_of([0, 6], [1, 1]),
    )
    requests.encode(NUMBER, PlainSends(rows, np.zeros(2, np.uint8), 2))
    assert requests.decode(memoryview(answer_of(version, [0, 6], **changes)), rows) == -1


@pytest.mark.parametrize("version", produce.VERSIONS)
@pytest.mark.parametrize("which", [[0], [0, 5], [0, 1, 6], [0, 0]])
def test_an_answer_for_others_than_were_sent_is_left_to_objects(version, which):
    """Given partitions that are missing, not asked for, or twice / then it is not read here."""
    requests, rows = (
        plain_requests.PlainRequests(version, CLIENT, SPECS, 77),
        rows_of([0, 6], [1, 1]),
    )
    requests.encode(NUMBER, PlainSends(rows, np.zeros(2, np.uint8), 2))
    assert requests.decode(memoryview(answer_of(version, which)), rows) == -1


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_a_request_names_the_topic_that_was_recreated_by_its_new_id(version):
    """Given a topic that was recreated while the lane runs / then requests have its id of now."""
    partitions = SPECS[:]
    requests = plain_requests.PlainRequests(version, CLIENT, partitions, 77)
    requests.encode(NUMBER, PlainSends(rows_of([0], [1]), np.zeros(1, np.uint8), 1))
    partitions += RECREATED
    rows = rows_of([len(SPECS), 1], [1, 1])
    request = bytes(requests.encode(NUMBER, PlainSends(rows, np.zeros(2, np.uint8), 2)))
    alone = plain_requests.PlainRequests(version, CLIENT, [*RECREATED, SPECS[1]], 77)
    rows = rows_of([0, 1], [1, 1])
    assert request == alone.encode(NUMBER, PlainSends(rows, np.zeros(2, np.uint8), 2))
