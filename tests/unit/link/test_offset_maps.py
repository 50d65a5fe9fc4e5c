"""Records of the maps' topic that are no rows of ours: set aside, and who has to stop for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from heliostat.clusters.byte_topic import ByteRecord
from heliostat.link.map_marks import MapTopic
from heliostat.link.offset_maps import OffsetMaps
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.records.offset_map import Break, Row, RowKey, Stamp

M, OTHER = (TopicPartition(TopicName(name), PartitionId(0)) for name in ("m", "other"))
NAME = (M, "id")


def row(first: int, mirror: TopicPartition = M) -> Row:
    key = RowKey(mirror, "id", first, Stamp(1, 1))
    return Row(key, (Break(first, first + 5),))


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> Iterator[OffsetMaps]:
    made = OffsetMaps("127.0.0.1:1", LinkName("l"))
    yield made
    made.close()


def read(maps: OffsetMaps, *records: tuple[bytes | None, bytes | None]) -> None:
    """As if they stood in the topic from offset 10 on, behind a row of each mirror."""
    for at, one in enumerate((row(3), row(3, OTHER))):
        maps._take(ByteRecord(one.key.encode(), one.encode(), None, at))
    for at, (key, value) in enumerate(records):
        maps._take(ByteRecord(key, value, None, 10 + at))


@pytest.mark.parametrize("key", [None, b"", b"x", b"{}", b"[1]", b"[1,2,3,4,5,6,7,8]"])
def test_a_record_that_is_none_of_ours_is_told_and_stops_nothing(
    maps: OffsetMaps, key: bytes | None
) -> None:
    read(maps, (key, row(9).encode()))
    assert maps.spoiled() == {}
    (told,) = maps.strange()
    assert "at offset 10" in told
    assert not maps._reader.is_lost(*NAME)


@pytest.mark.parametrize("value", [None, b"", b"?", row(3).encode()[:-1] + b"\xff"])
def test_under_the_key_of_a_row_it_may_have_taken_its_place(
    maps: OffsetMaps, value: bytes | None
) -> None:
    """Given what is no row, or a tombstone / then that mirror alone has no map to go by, once."""
    read(maps, (row(3).key.encode(), value))
    assert maps._reader.is_lost(*NAME)
    assert not maps._reader.is_lost(OTHER, "id")
    assert maps.strange() == ()
    ((name, why),) = maps.spoiled().items()
    assert name == NAME
    assert "at offset 10" in why
    assert maps.spoiled() == {}


def test_what_was_judged_before_is_not_judged_again(maps: OffsetMaps) -> None:
    """Given all below 11 was read by a driver before / then its map may have been made anew."""
    maps.begin(MapTopic("t", 0, 11), [])
    spoiled = (row(3).key.encode(), b"?")
    read(maps, spoiled)
    assert maps.spoiled() == {}
    read(maps, spoiled, spoiled)
    assert maps.spoiled().keys() == {NAME}
