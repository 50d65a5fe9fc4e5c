"""What is written into MirrorMaker 2's topics, and when; with topics in memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.clusters.byte_topic import ByteRecord
from heliostat.config import LinkConfig
from heliostat.errors import ConnectionLost
from heliostat.mm2.checkpoints import Checkpoints, GroupRow
from heliostat.mm2.formats import Checkpoint, Heartbeat, OffsetSync
from heliostat.mm2.heartbeats import FLOWS_MAX, HeartbeatEmitter, HeartbeatWatch
from heliostat.mm2.offset_syncs import CopiedRange, OffsetSyncs, all_syncs, later_syncs, newest_sync
from heliostat.mm2.upstream_beats import UpstreamBeats, by_origin, newest_flows
from heliostat.names import Alias, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap

EAST, WEST = Alias("east"), Alias("west")


class Memory:
    """Stands for `ByteTopic`."""

    def __init__(self, records=()):
        self.records = list(records)
        self.made = 0
        self.broken = False
        self._at = 0

    def ensure(self, admin, replication_factor=None):
        self.made += 1

    def write(self, records):
        if self.broken:
            raise ConnectionLost("gone")
        self.records += records

    def read_all(self):
        return iter(list(self.records))

    def seek_back(self, records):
        self._at = max(0, len(self.records) - records)
        return bool(self.records)

    def poll(self, timeout_s):
        found, self._at = self.records[self._at :], len(self.records)
        return found


def partition(topic="t", number=0):
    return TopicPartition(TopicName(topic), PartitionId(number))


def row(group="g", at=10, to=8, metadata="", number=0):
    return GroupRow(
        group, partition("t", number), Offset(at), partition("east.t", number), Offset(to), metadata
    )


# -- checkpoints -------------------------------------------------------------------------------


def publish(checkpoints, rows, now_ms=1):
    checkpoints.take(rows)
    return checkpoints.write(now_ms)


def test_only_changes_are_written():
    topic = Memory()
    checkpoints = Checkpoints(topic, None)
    assert publish(checkpoints, [row(), row(number=1), row("other")]) == 3
    assert publish(checkpoints, [row(), row(number=1), row("other")]) == 0
    assert publish(checkpoints, [row(at=12, to=9), row(number=1, metadata="m")], 7) == 2
    assert topic.records[-2:] == [
        ByteRecord(c.key(), c.value(), 7)
        for c in (row(at=12, to=9).checkpoint(), row(number=1, metadata="m").checkpoint())
    ]
    assert (topic.made, checkpoints.count) == (1, 3)


def test_the_topic_exists_before_there_are_groups():
    topic = Memory()
    assert Checkpoints(topic, None).write(1) == 0
    assert topic.made == 1


def test_of_two_rows_between_writes_the_newer_is_written():
    topic = Memory()
    checkpoints = Checkpoints(topic, None)
    checkpoints.take([row(at=12, to=9)])
    assert publish(checkpoints, [row(at=13, to=10)]) == 1
    assert Checkpoint.decode(*topic.records[-1][:2]).downstream == 10


def test_a_group_that_goes_back_at_the_source_goes_back_here():
    topic = Memory()
    checkpoints = Checkpoints(topic, None)
    publish(checkpoints, [row(at=12, to=9)])
    assert publish(checkpoints, [row(at=3, to=2)]) == 1
    assert Checkpoint.decode(*topic.records[-1][:2]).downstream == 2


def test_a_new_driver_reads_what_its_predecessor_wrote():
    topic = Memory()
    publish(Checkpoints(topic, None), [row(), row("other")])
    assert publish(Checkpoints(topic, None), [row(), row("other", at=11)]) == 1


def test_no_tombstone_is_written_as_java_readers_fail_on_it():
    topic = Memory()
    checkpoints = Checkpoints(topic, None)
    publish(checkpoints, [row(), row("other")])
    assert publish(checkpoints, [row()]) == 0
    assert all(record.value is not None for record in topic.records)


def test_failed_writes_are_retried_later():
    topic = Memory()
    checkpoints = Checkpoints(topic, None)
    publish(checkpoints, [row()])
    topic.broken = True
    with pytest.raises(ConnectionLost):
        publish(checkpoints, [row(at=11)])
    topic.broken = False
    assert publish(checkpoints, [row("other")]) == 2
    assert topic.made == 2


# -- heartbeats --------------------------------------------------------------------------------


def test_heartbeats_carry_both_aliases_and_the_time():
    topic = Memory()
    emitter = HeartbeatEmitter(topic, None, EAST, WEST)
    emitter.emit(1000)
    emitter.emit(2000)
    assert [Heartbeat.decode(*r[:2]) for r in topic.records] == [
        Heartbeat(EAST, WEST, 1000),
        Heartbeat(EAST, WEST, 2000),
    ]
    assert [r.timestamp_ms for r in topic.records] == [1000, 2000]
    assert topic.made == 1


def test_after_a_failed_heartbeat_the_topic_is_looked_for_again():
    topic = Memory()
    emitter = HeartbeatEmitter(topic, None, EAST, WEST)
    topic.broken = True
    with pytest.raises(ConnectionLost):
        emitter.emit(1000)
    topic.broken = False
    emitter.emit(2000)
    assert topic.made == 2


def beats(*given):
    return [ByteRecord(b.key(), b.value(), b.timestamp_ms) for b in given]


def test_the_age_is_that_of_the_newest_heartbeat_of_this_link():
    mine, others = Heartbeat(EAST, WEST, 1000), Heartbeat(EAST, Alias("north"), 9000)
    topic = Memory(beats(mine, others))
    watch = HeartbeatWatch(topic, EAST, WEST, is_ours=True)
    assert watch.age_s(0) is None
    watch.look(lambda: 1200, 0)
    assert (watch.age_s(1500), watch.newest.delay_ms) == (0.5, 200)
    topic.records += beats(Heartbeat(EAST, WEST, 2000))
    watch.look(lambda: 2050, 0)
    assert (watch.age_s(2100), watch.newest.delay_ms) == (0.1, 50)


def test_where_others_write_the_heartbeats_all_of_them_count():
    topic = Memory(beats(Heartbeat(WEST, EAST, 1000)))
    watch = HeartbeatWatch(topic, EAST, WEST, is_ours=False)
    watch.look(lambda: 1100, 0)
    assert watch.age_s(1100) == 0.1


def test_invalid_heartbeats_are_counted_and_skipped():
    topic = Memory(
        [ByteRecord(b"k", b"v"), *beats(Heartbeat(EAST, WEST, 1000)), ByteRecord(None, None)]
    )
    watch = HeartbeatWatch(topic, EAST, WEST, is_ours=True)
    watch.look(lambda: 1000, 0)
    assert (watch.unreadable, watch.age_s(1000)) == (2, 0.0)


def test_a_missing_topic_is_waited_for():
    topic = Memory()
    watch = HeartbeatWatch(topic, EAST, WEST, is_ours=True)
    watch.look(lambda: 1000, 0)
    topic.records += beats(Heartbeat(EAST, WEST, 2000))
    watch.look(lambda: 2000, 0)
    assert watch.age_s(2000) == 0.0


def test_heartbeats_tell_their_origin_and_the_links_they_crossed() -> None:
    """At WEST, by the link EAST → WEST / then north's came through EAST, others through more."""
    link = LinkConfig.model_validate({"name": "l", "source": EAST, "target": WEST})
    flows = {
        (EAST, WEST): 1000,
        (EAST, Alias("south")): 2000,
        (Alias("north"), EAST): 3000,
        (Alias("pole"), Alias("north")): 4000,
    }
    assert by_origin(link, flows) == {(EAST, "1"): 2000, ("north", "2"): 3000, ("pole", "3+"): 4000}


def test_mirrors_of_upstream_heartbeats_are_followed() -> None:
    naming = {"naming": {"prefix": "east."}}
    link = LinkConfig.model_validate(
        {"name": "l", "source": EAST, "target": WEST, "topics": naming}
    )
    there = {
        "east.north.heartbeats": Memory(beats(Heartbeat(Alias("north"), EAST, 1000))),
        "east.north.pole.heartbeats": Memory(beats(Heartbeat(Alias("pole"), EAST, 2000))),
    }
    upstream = UpstreamBeats(link, there.__getitem__)
    names = ("heartbeats", "north.heartbeats", "north.pole.heartbeats", "north.other")
    mirrors = {name: SimpleNamespace(target=f"east.{name}") for name in names}
    upstream.look(mirrors, lambda: 5000)
    assert upstream.beats() == {("north", "2"): 1000, ("pole", "3"): 2000}


# -- offset syncs ------------------------------------------------------------------------------


@st.composite
def ranges(draw):
    """A partition copied so far, with a map of holes."""
    offset_map = OffsetMap()
    target, source = 0, 0
    for step, hole in draw(
        st.lists(st.tuples(st.integers(1, 50), st.integers(1, 20)), max_size=60)
    ):
        target, source = target + step, source + step + hole
        offset_map.add(Break(target, source))
    start = draw(st.integers(0, target + 100))
    return CopiedRange(partition(), start, draw(st.integers(start, start + 5000)), offset_map)


@given(copied=ranges())
def test_every_pair_is_correct_and_they_increase(copied):
    syncs = list(all_syncs(copied))
    for sync in syncs:
        assert copied.start <= sync.downstream < copied.end
        assert copied.map.source_of(sync.downstream) == sync.upstream
    assert [s.upstream for s in syncs] == sorted({s.upstream for s in syncs})
    assert bool(syncs) == (copied.end > copied.start)
    if syncs:
        assert syncs[-1] == newest_sync(copied)


@given(copied=ranges(), data=st.data())
def test_a_reader_of_pairs_skips_nothing_and_rereads_little(copied, data):
    """As MirrorMaker 2 translates: one after the last pair at or below; -1 for none."""
    if copied.end == copied.start:
        return
    committed = copied.map.source_of(data.draw(st.integers(copied.start, copied.end)))
    at_or_below = [s for s in all_syncs(copied) if s.upstream <= committed]
    assert at_or_below
    last = at_or_below[-1]
    translated = last.downstream + (0 if last.upstream == committed else 1)
    exact = copied.map.target_of(committed)
    assert translated <= exact
    assert exact - translated <= 4 * max(1, copied.end - exact)


def test_pairs_are_written_once_then_as_the_end_moves():
    topic = Memory()
    syncs = OffsetSyncs(topic, None)
    offset_map = OffsetMap()
    first = syncs.publish([CopiedRange(partition(), 0, 100, offset_map)], 1)
    assert first == len(list(all_syncs(CopiedRange(partition(), 0, 100, offset_map))))
    assert syncs.publish([CopiedRange(partition(), 0, 100, offset_map)], 2) == 0
    assert syncs.publish([CopiedRange(partition(), 0, 101, offset_map)], 3) == 1
    offset_map.add(Break(110, 150))
    offset_map.add(Break(120, 170))
    assert syncs.publish([CopiedRange(partition(), 0, 130, offset_map)], 4) == 3
    assert [OffsetSync.decode(*r[:2]) for r in topic.records[-3:]] == [
        OffsetSync(partition(), Offset(150), Offset(110)),
        OffsetSync(partition(), Offset(170), Offset(120)),
        OffsetSync(partition(), Offset(179), Offset(129)),
    ]


def test_a_recreated_mirror_gets_pairs_from_its_start():
    topic = Memory()
    syncs = OffsetSyncs(topic, None)
    syncs.publish([CopiedRange(partition(), 0, 100, OffsetMap())], 1)
    anew = CopiedRange(partition(), 0, 100, OffsetMap.of([Break(0, 700)]))
    assert syncs.publish([anew], 2) == len(list(all_syncs(anew)))
    shorter = CopiedRange(partition(), 0, 50, anew.map)
    assert syncs.publish([shorter], 3) == len(list(all_syncs(shorter)))


def test_a_partition_without_records_gets_no_pair():
    topic = Memory()
    assert OffsetSyncs(topic, None).publish([CopiedRange(partition(), 7, 7, OffsetMap())], 1) == 0
    assert topic.records == []


def test_later_pairs_hold_each_break_since_then():
    copied = CopiedRange(partition(), 0, 40, OffsetMap.of([Break(10, 20), Break(30, 50)]))
    told = OffsetSync(partition(), Offset(24), Offset(14))
    assert list(later_syncs(copied, told)) == [
        OffsetSync(partition(), Offset(50), Offset(30)),
        OffsetSync(partition(), Offset(59), Offset(39)),
    ]


def test_flows_of_several_topics_by_their_newest_heartbeat():
    north = Alias("north")
    ours = {(EAST, WEST): 9_000, (north, EAST): 1_000}
    rows = newest_flows(ours, {(north, EAST): 2_000}, {})
    assert rows == [["east", "west", 9_000], ["north", "east", 2_000]]
    many = {(Alias(f"c{n}"), WEST): n for n in range(2 * FLOWS_MAX)}
    assert len(newest_flows(many)) == FLOWS_MAX
