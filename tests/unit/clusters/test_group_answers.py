"""Answers about thousands of groups: equal to kafka-python's decoding."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.consumer import OffsetFetchResponse

from heliostat.clusters.admin.group_answers import decode_fetched, decode_listed
from heliostat.clusters.admin.group_values import CommittedOffset
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

LISTED = ListGroupsResponse.ListedGroup
GROUP = OffsetFetchResponse.OffsetFetchResponseGroup
TOPIC = GROUP.OffsetFetchResponseTopics
PART = TOPIC.OffsetFetchResponsePartitions
names = st.text(max_size=12) | st.just("x" * 300)
codes = st.sampled_from([0, 0, 0, 30])


@given(
    st.lists(st.tuples(names, names, names, names), max_size=5),
    codes,
    st.integers(3, 5),
    st.integers(0, 10**6),
)
def test_listed_groups(
    rows: list[tuple[str, str, str, str]], code: int, version: int, throttle_ms: int
) -> None:
    listed = []
    for group, protocol, state, kind in rows:
        more = {"group_state": state} if version >= 4 else {}
        more |= {"group_type": kind} if version >= 5 else {}
        listed.append(LISTED(group_id=group, protocol_type=protocol, **more))
    answer = ListGroupsResponse(throttle_time_ms=throttle_ms, error_code=code, groups=listed)
    body = bytes(answer.encode(version=version))
    expected = [
        (group, protocol, state if version >= 4 else "", kind if version >= 5 else "")
        for group, protocol, state, kind in rows
    ]
    assert decode_listed(body, version) == (code, expected)


parts = st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), st.none() | names, codes)


@given(
    st.lists(
        st.tuples(names, codes, st.dictionaries(names, st.lists(parts, max_size=4), max_size=3)),
        max_size=4,
    )
)
def test_fetched_offsets(
    groups: list[tuple[str, int, dict[str, list[tuple[int, int, str | None, int]]]]],
) -> None:
    made = []
    expected = []
    for group, code, topics in groups:
        offsets: dict[TopicPartition, CommittedOffset | int] = {}
        encoded = []
        for topic, rows in topics.items():
            fields = ("partition_index", "committed_offset", "metadata", "error_code")
            own = [PART(**dict(zip(fields, row, strict=True))) for row in rows]
            encoded.append(TOPIC(name=topic, partitions=own))
            for index, offset, metadata, error_code in rows:
                partition = TopicPartition(TopicName(topic), PartitionId(index))
                if error_code:
                    offsets[partition] = error_code
                elif offset >= 0:
                    offsets[partition] = CommittedOffset(Offset(offset), metadata or "")
        made.append(GROUP(group_id=group, topics=encoded, error_code=code))
        expected.append((group, code, offsets))
    for version in (8, 9):
        body = bytes(OffsetFetchResponse(groups=made).encode(version=version))
        assert decode_fetched(body) == expected


def test_truncated_answers_are_refused() -> None:
    rows = [LISTED(group_id="group", protocol_type="consumer", group_state="Empty")]
    body = bytes(ListGroupsResponse(error_code=0, groups=rows).encode(version=4))
    for cut in range(6, len(body)):
        with pytest.raises((IndexError, ValueError)):
            decode_listed(body[:cut], 4)
    made = [GROUP(group_id="g", topics=[TOPIC(name="t", partitions=[PART(metadata="m")])])]
    body = bytes(OffsetFetchResponse(groups=made).encode(version=8))
    for cut in range(4, len(body)):
        with pytest.raises((IndexError, ValueError, struct.error)):
            decode_fetched(body[:cut])
