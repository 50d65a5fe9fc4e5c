"""The header that says where a record stood at first."""

from __future__ import annotations

import pytest

from heliostat.exporting.origin import HEADER, Origin
from heliostat.names import ClusterId, Offset, PartitionId, TopicName, TopicPartition

ORIGIN = Origin(
    ClusterId("MkU3OEVBNTcwNTJENDM2Qk"),
    TopicPartition(TopicName("lsst.sal.ESS-2"), PartitionId(3)),
    Offset(12),
)


def test_an_origin_comes_back_from_its_header() -> None:
    """Given such a record / when its headers are read / then they say where it stood."""
    assert Origin.of([("trace", b"1"), ORIGIN.header]) == ORIGIN
    assert ORIGIN.header == (HEADER, b"MkU3OEVBNTcwNTJENDM2Qk/lsst.sal.ESS-2/3/12")


def test_a_record_written_elsewhere_twice_has_the_last_origin() -> None:
    """Given two such headers / when they are read / then the last one counts."""
    again = ORIGIN._replace(offset=Offset(99))
    assert Origin.of([ORIGIN.header, again.header]) == again


@pytest.mark.parametrize(
    "content", [None, b"", b"a/b/c", b"a/b/c/d", b"a/b/1/-2", b"\xff/b/1/\xb2"]
)
def test_a_header_of_others_says_nothing(content: bytes | None) -> None:
    """Given a header of that name that is none of ours / when read / then it is no origin."""
    assert Origin.of([(HEADER, content)]) is None
