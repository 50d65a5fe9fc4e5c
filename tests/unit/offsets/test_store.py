"""Foreign records in the maps' topic: set aside, and which mirrors stop for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest
from sim.partition_log import PartitionLog
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.clusters.byte_topic import ByteRecord
from heliostat.errors import ConnectionLost, OffsetMapLost
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets import store as offset_maps
from heliostat.offsets.map_rows import KEPT_VALUE, KeptFrom, Prunable, RowKey, Stamp
from heliostat.offsets.marks import MapTopic
from heliostat.offsets.offset_map import Break, MapRow, OffsetMap
from heliostat.offsets.store import OffsetMaps
from heliostat.records.copier.lane import PartitionSpec

M, OTHER = (TopicPartition(TopicName(name), PartitionId(0)) for name in ("m", "other"))
NAME = (M, "id")


def row(first: int, mirror: TopicPartition = M) -> MapRow:
    key = RowKey(mirror, "id", first, Stamp(1, 1))
    return MapRow(key, (Break(first, first + 5),))


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> Iterator[OffsetMaps]:
    made = OffsetMaps("127.0.0.1:1", LinkName("l"))
    yield made
    made.close()


def read(maps: OffsetMaps, *records: tuple[bytes | None, bytes | None]) -> None:
    """Read records as if they were in the topic from offset 10 on, after a row of each mirror."""
    for at, one in enumerate((row(3), row(3, OTHER))):
        maps._take(ByteRecord(one.key.encode(), one.encode(), None, at))
    for at, (key, value) in enumerate(records):
        maps._take(ByteRecord(key, value, None, 10 + at))
    maps._take_lost()


@pytest.mark.parametrize("key", [None, b"", b"x", b"{}", b"[1]", b"[1,2,3,4,5,6,7,8]"])
def test_a_foreign_record_is_reported_and_stops_nothing(
    maps: OffsetMaps, key: bytes | None
) -> None:
    read(maps, (key, row(9).encode()))
    assert maps.spoiled() == {}
    (told,) = maps.strange()
    assert "at offset 10" in told
    assert not maps._reader.is_lost(*NAME)


@pytest.mark.parametrize("value", [None, b"", b"?", row(3).encode()[:-1] + b"\xff"])
def test_a_foreign_record_under_a_rows_key_may_have_replaced_it(
    maps: OffsetMaps, value: bytes | None
) -> None:
    """Given an invalid row, or a tombstone / then only that mirror has no usable map, once."""
    read(maps, (row(3).key.encode(), value))
    assert maps._reader.is_lost(*NAME)
    assert not maps._reader.is_lost(OTHER, "id")
    assert maps.strange() == ()
    ((name, why),) = maps.spoiled().items()
    assert name == NAME
    assert "at offset 10" in why
    assert maps.spoiled() == {}


def test_records_checked_before_are_not_checked_again(maps: OffsetMaps) -> None:
    """Given all below 11 was read by an earlier driver / then its map may have been rebuilt."""
    maps.begin(MapTopic("t", 0, 11), [])
    spoiled = (row(3).key.encode(), b"?")
    read(maps, spoiled)
    assert maps.spoiled() == {}
    read(maps, spoiled, spoiled)
    assert maps.spoiled().keys() == {NAME}


def test_rows_below_all_log_starts_may_be_pruned(maps: OffsetMaps) -> None:
    """Given rows at 3, 20 and 40 / when a log starts at 30 / then the first may be deleted."""
    rows = [row(first) for first in (3, 20, 40)]
    read(maps, *((one.key.encode(), one.encode()) for one in rows[1:]))
    assert maps.prunable({NAME: Offset(30)}, 2) == []
    assert maps.prunable({NAME: Offset(19)}, 1) == []
    assert maps.prunable({(M, "other id"): Offset(30)}, 1) == []
    (found,) = maps.prunable({NAME: Offset(30)}, 1)
    assert found == Prunable(KeptFrom(*NAME, 20), [rows[0].key], [])
    for at, record in enumerate([(found.kept.encode(), KEPT_VALUE), (rows[0].key.encode(), None)]):
        maps._take(ByteRecord(*record, None, 20 + at))
    maps._take_lost()
    assert maps.spoiled() == {}
    (found,) = maps.prunable({NAME: Offset(40)}, 1)
    assert found.said == [KeptFrom(*NAME, 20)]
    maps.set_lost([NAME])
    assert maps.prunable({NAME: Offset(40)}, 1) == []


def test_rows_of_a_filled_mirror_are_pruned_by_record_number(maps: OffsetMaps) -> None:
    filled = [one._replace(is_filled=True) for one in (row(3), row(20), row(40))]
    for at, one in enumerate(filled):
        maps._take(ByteRecord(one.key.encode(), one.encode(), None, at))
    assert maps.prunable({NAME: Offset(24)}, 1) == []  # its 20th record stands at 25
    (found,) = maps.prunable({NAME: Offset(25)}, 1)
    assert found.kept.first == 20


def test_the_pruning_record_is_durable_before_the_first_tombstone(
    maps: OffsetMaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[list[tuple[bytes | None, bytes | None]]] = []
    monkeypatch.setattr(offset_maps, "DELETED_AT_ONCE", 2)
    monkeypatch.setattr(
        maps._topic, "write", lambda records: written.append([one[:2] for one in records])
    )
    keys = [row(first).key for first in (1, 2, 3)]
    said = [KeptFrom(*NAME, 1)]
    maps.prune(Prunable(KeptFrom(*NAME, 9), keys, said))
    assert written[0] == [(KeptFrom(*NAME, 9).encode(), KEPT_VALUE)]
    assert written[1:] == [
        [(keys[0].encode(), None), (keys[1].encode(), None)],
        [(keys[2].encode(), None), (said[0].encode(), None)],
    ]


def test_a_lane_gets_the_map_from_the_noted_end_and_a_share(
    maps: OffsetMaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given large maps / then a lane's part reaches back to the noted end, further if unknown."""
    monkeypatch.setattr(offset_maps, "TAIL_BREAKS", 8_000)
    monkeypatch.setattr(offset_maps, "LANE_BREAKS", 6_000)
    places = [TopicPartition(TopicName("m"), PartitionId(number)) for number in range(3)]
    specs = [
        PartitionSpec(p, p, None, None, Offset(0), 1 << 20, is_compacted=False) for p in places
    ]
    for one in places:
        for first in range(0, 20_000, 500):
            breaks = tuple(Break(at * 10, at * 11 + 1) for at in range(first, first + 500))
            key = RowKey(one, "", first * 10, Stamp(1, 1))
            maps._take(ByteRecord(key.encode(), MapRow(key, breaks).encode(), None, 0))
    found, _, _ = maps.tails(specs, [(0, 0, 0, 199_995), (1, 0, 0, 50_005), (2, 0, 0, -1)])
    known = [OffsetMap.from_tail(tail) for _, tail in found]
    assert [2_000 <= len(known[0]) < 2_600, 15_000 <= len(known[1]) < 15_600] == [True, True]
    assert 8_000 <= len(known[2]) < 8_600
    assert known[1].knows(50_005)
    assert not known[0].knows(50_005)
    assert [one.source_of(199_995) for one in known] == [19_999 * 11 + 1 + 5] * 3


class Silent:
    """A topic whose reader gets nothing: it was recreated with fewer rows."""

    topic = "heliostat.l.offsets"

    def end(self) -> int:
        return 12

    def poll(self, _timeout_s: float) -> list[ByteRecord]:
        return []

    def position(self) -> int:
        return 10

    def close(self) -> None:
        pass


@pytest.mark.parametrize("now", [None, MapTopic("id", 0, 3), MapTopic("id", 0, 12)])
def test_rows_that_do_not_come_are_not_waited_for(
    maps: OffsetMaps, monkeypatch: pytest.MonkeyPatch, now: MapTopic | None
) -> None:
    """Given rows that were there / when the topic is gone or another one, or the reader is stuck /

    then the look ends with an error, and the next one has a new reader.
    """
    silent = Silent()
    maps.close()
    monkeypatch.setattr(maps, "_topic", silent)
    monkeypatch.setattr(maps, "_look", lambda **_: now)
    monkeypatch.setattr(offset_maps, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(offset_maps, "ROWS_WITHIN_S", 0.05)
    with pytest.raises(ConnectionLost, match="was not read to its end"):
        maps.refresh()


ROWS = TopicPartition(TopicName("heliostat.l.offsets"), PartitionId(0))


class Rows:
    """Stands for the reader of the maps' topic, by the brokers that are up to date."""

    topic = ROWS.topic

    def __init__(self, log: PartitionLog) -> None:
        self.log, self.read = log, 0

    def end(self) -> int:
        return self.log.end

    def position(self) -> int:
        return self.read

    def poll(self, _timeout_s: float) -> list[ByteRecord]:
        first, self.read = self.read, self.log.end
        epoch = self.log.leader_epoch
        return [
            ByteRecord(one.key.encode(), one.encode(), None, offset, epoch)
            for offset, one in ((offset, row(offset)) for offset in range(first, self.read))
        ]

    def close(self) -> None:
        self.read = 0


@dataclass
class Deposed:
    """A link's maps, read whole, and the brokers that have them; one can be left behind."""

    cluster: SimulatedCluster
    maps: OffsetMaps

    @property
    def log(self) -> PartitionLog:
        return self.cluster.topics[ROWS.topic].logs[0]

    def elect(self, rows: int, *, end: int | None = None) -> None:
        """Let another broker lead, which has the log up to an end, and takes more rows."""
        if end is None or end == self.log.end:
            self.log.lead(self.log.leader_epoch + 1)
        else:
            self.log.truncate(end)
        self.cluster.append(ROWS.topic, rows)


@pytest.fixture
def deposed(maps: OffsetMaps, monkeypatch: pytest.MonkeyPatch) -> Deposed:
    cluster = SimulatedCluster(brokers=3)
    cluster.create(ROWS.topic)
    for _ in range(2):
        cluster.append(ROWS.topic, 5)
    monkeypatch.setattr(maps._bounds, "_admin", SimulatedAdmin(cluster))
    monkeypatch.setattr(maps, "_topic", Rows(cluster.topics[ROWS.topic].logs[0]))
    maps.refresh()
    return Deposed(cluster, maps)


def test_no_rows_are_lost_by_the_word_of_a_deposed_leader(deposed: Deposed) -> None:
    """Given a leader that was paused / when its successor has taken rows, and it goes on

    answering by what it had / then a second look asks all brokers who leads.
    """
    deposed.cluster.depose()
    deposed.elect(9)
    deposed.maps.refresh()
    assert deposed.maps.known == MapTopic(id_text(UUID(int=1)), 0, 19, 1)


@pytest.mark.parametrize("end", [10, 5])
def test_rows_lost_for_good_are_not_taken_back_though_others_follow(
    deposed: Deposed, end: int
) -> None:
    """Given an election that lost rows, or none / when more follow / then the epoch's end tells."""
    had = deposed.maps.known
    assert had is not None
    deposed.elect(0, end=end)
    if end < 10:
        with pytest.raises(OffsetMapLost, match="it ends at 5, and had rows up to 10"):
            deposed.maps.refresh()
    deposed.elect(8)
    assert deposed.maps.has_all_of(had) is (end == 10)
    assert not deposed.maps.has_all_of(had._replace(epoch=-1)), "nothing shows it"
    assert not deposed.maps.has_all_of(had._replace(topic_id="another"))
