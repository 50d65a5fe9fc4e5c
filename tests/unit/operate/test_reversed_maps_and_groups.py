"""The map of the way back, groups beyond the promotion, and topics that are made anew."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.clock import SystemClock
from heliostat.clusters.admin import CommittedOffset, GroupMember, NewTopic
from heliostat.clusters.plain_records import LogBounds
from heliostat.errors import BrokerError, ConnectionLost, Refused
from heliostat.handover.promotion import MirrorEnds, PartitionPromotion, PromotedBy, Promotion
from heliostat.handover.recreation import Recreation
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import (
    BrokerId,
    ClusterId,
    GroupId,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from heliostat.offsets.map_rows import Stamp
from heliostat.offsets.offset_map import Break, MapReader, OffsetMap
from heliostat.operate.reversing import recreate
from heliostat.operate.reversing.recreate import Recreating, begun_anew
from heliostat.operate.reversing.set_back import groups_beyond, set_back
from heliostat.operate.reversing.turned_map import new_rows, turned
from heliostat.operate.reversing.values import (
    Evidence,
    PartitionReturn,
    ReturnState,
    TopicReturn,
)

OLD = TopicPartition(TopicName("t"), PartitionId(0))
TOPIC_ID = "an id"

holes = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=8)


def map_of(distances: list[tuple[int, int]]) -> tuple[OffsetMap, list[tuple[int, int]]]:
    """Return a link's map, and all records: source and target offsets."""
    link_map, records, source, target = OffsetMap(), [], 0, 0
    for records_count, hole in distances:
        for _ in range(records_count):
            records.append((source, target))
            source, target = source + 1, target + 1
        source += hole
        link_map.add(Break(target, source))
    records.append((source, target))
    return link_map, records


def rows_applied(there: MapReader, wanted: list[Break], generation: int) -> OffsetMap:
    """Return the map as it is read once the rows were written."""
    rows = new_rows(wanted, there.of(OLD, TOPIC_ID), OLD, TOPIC_ID, Stamp(generation, 0))
    for row in rows:
        assert there.take(row)
    return there.of(OLD, TOPIC_ID)


@settings(max_examples=30)
@given(holes, st.integers(0, 5))
def test_a_map_turned_round_finds_each_record(distances: list[tuple[int, int]], tail: int) -> None:
    """Given a source with holes / when the map is turned round / then each record of the new

    primary is found at the old source, and what comes since behind its end; turned again it is the
    link's own.
    """
    link_map, records = map_of(distances)
    source_end, target_end = records[-1]
    old_end = source_end + tail
    wanted = [*turned(link_map, target_end, source_end), Break(old_end, target_end)]
    reader = MapReader()
    back = rows_applied(reader, wanted, 1)
    for at_source, at_target in records[:-1]:
        assert back.target_of(at_target) == at_source
        assert back.source_of(at_source) == at_target
    assert back.target_of(target_end) == old_end
    assert back.source_of(old_end) == target_end
    assert not new_rows(wanted, reader.of(OLD, TOPIC_ID), OLD, TOPIC_ID, Stamp(2, 0))
    if not tail:
        again = [*turned(back, source_end, target_end), Break(target_end, source_end)]
        assert list(OffsetMap.of(again).breaks()) == list(link_map.breaks())


@settings(max_examples=30)
@given(holes, holes)
def test_a_map_that_was_there_is_replaced(
    before: list[tuple[int, int]], now: list[tuple[int, int]]
) -> None:
    """Given a map of an earlier time / when another one is wanted / then nothing of it is left."""
    reader = MapReader()
    old, wanted = map_of(before)[0], map_of(now)[0]
    rows_applied(reader, list(old.breaks()), 1)
    after = rows_applied(reader, list(wanted.breaks()), 2)
    assert list(after.breaks()) == list(wanted.breaks())


def returned(topic: str, source_end: int) -> TopicReturn:
    end = Offset(source_end)
    part = PartitionReturn(
        *(PartitionId(0), PartitionPromotion(end, Offset(0)), end, 0), Evidence.RECORDS
    )
    return TopicReturn(TopicName(topic), TopicName(topic), ReturnState.READY, "", (part,))


def test_groups_beyond_the_promotion_are_set_back_but_those_that_run() -> None:
    """Given groups at, before and beyond the promotion / when they are set back / then only those

    beyond it are, with their metadata; one that runs is told, also if it began meanwhile.
    """
    cluster = SimulatedCluster()
    admin = SimulatedAdmin(cluster)
    admin.create_topics([NewTopic(OLD.topic, 1, 1)])
    offsets = {"before": 4, "level": 5, "beyond": 7, "runs": 8, "begins": 9}
    for name, offset in offsets.items():
        admin.commit_offsets({GroupId(name): {OLD: CommittedOffset(Offset(offset), "m")}})
    member = GroupMember("c", "h")
    cluster.groups[GroupId("runs")].members.append(member)
    beyond = groups_beyond(admin, [returned("t", 5)])
    assert [(each.group, each.offset, each.has_members) for each in beyond] == [
        ("begins", 9, False),
        ("beyond", 7, False),
        ("runs", 8, True),
    ]
    cluster.groups[GroupId("begins")].members.append(member)
    told = {each.group: each.has_members for each in set_back(admin, beyond)}
    assert told == {"begins": True, "beyond": False, "runs": True}
    now = {name: cluster.groups[GroupId(name)].offsets[OLD] for name in offsets}
    assert {name: row.offset for name, row in now.items()} == {**offsets, "beyond": 5}
    assert now["beyond"].metadata == "m"
    assert groups_beyond(admin, []) == ()


def test_what_a_broker_does_not_tell_stops_it() -> None:
    """Given a coordinator that refuses / when groups are asked for / then nothing goes on."""
    cluster = SimulatedCluster()
    admin = SimulatedAdmin(cluster)
    admin.create_topics([NewTopic(OLD.topic, 1, 1)])
    admin.commit_offsets({GroupId("g"): {OLD: CommittedOffset(Offset(7))}})
    for method in ("list_groups", "committed_offsets", "commit_offsets"):
        cluster.fail(method, 29)
        with pytest.raises(BrokerError):
            set_back(admin, groups_beyond(admin, [returned("t", 5)]))
        cluster.heal()


def recreating(cluster: SimulatedCluster) -> Recreating:
    clusters = SimpleNamespace(target=SimulatedAdmin(cluster))
    unused = cast("Any", None)
    return Recreating(unused, cast("LinkClusters", clusters), unused, Waiting())


class Waiting(SystemClock):
    """A clock that waits for nobody."""

    waited_s = 0.0

    def monotonic_s(self) -> float:
        return self.waited_s

    def sleep(self, seconds: float) -> None:
        self.waited_s += seconds


@pytest.mark.parametrize("stopped_after", [0, 1, 2])
def test_a_topic_made_anew_is_as_it_was(stopped_after: int) -> None:
    """Given a topic with settings, replicas and records / when it is made anew, also by one who

    goes on after a death / then it is empty, another one, and as it was.
    """
    cluster = SimulatedCluster()
    admin = SimulatedAdmin(cluster)
    settings_of_it = {"cleanup.policy": "compact"}
    admin.create_topics([NewTopic(OLD.topic, 2, 1, settings_of_it)])
    [was] = admin.confirm_topics([OLD.topic]).values()
    anew = recreating(cluster)
    [kept] = anew.as_they_are([was]).values()
    assert (kept.former_id, kept.configs) == (was.topic_id, settings_of_it)
    row = Promotion(OLD.topic, PromotedBy.FAILOVER, "me", 1, recreation=kept)
    assert not begun_anew(row, was)
    if stopped_after >= 1:
        admin.delete_topics([OLD.topic])
        assert begun_anew(row, admin.confirm_topics([OLD.topic])[OLD.topic])
    if stopped_after == 2:
        admin.create_topics([NewTopic(OLD.topic, configs=kept.configs, replicas=kept.replicas)])
    topic_id = anew.make_anew(row)
    [now] = admin.confirm_topics([OLD.topic]).values()
    assert now.topic_id == topic_id != was.topic_id
    assert begun_anew(row, now)
    [like] = anew.as_they_are([now]).values()
    assert (like.replicas, like.configs) == (kept.replicas, kept.configs)
    assert not begun_anew(replace(row, recreation=None), now)


def test_somebody_elses_topic_is_not_taken_for_one_made_anew() -> None:
    """Given a topic that a straggler's write has made / when it is made anew / then it is refused;

    one that is never made ends in an error, too.
    """
    cluster = SimulatedCluster()
    admin = SimulatedAdmin(cluster)
    admin.create_topics([NewTopic(OLD.topic, 2, 1)])
    [was] = admin.confirm_topics([OLD.topic]).values()
    anew = recreating(cluster)
    [kept] = anew.as_they_are([was]).values()
    row = Promotion(OLD.topic, PromotedBy.FAILOVER, "me", 1, recreation=kept)
    admin.delete_topics([OLD.topic])
    admin.create_topics([NewTopic(OLD.topic, 1, 1)])
    with pytest.raises(Refused, match="somebody else has made it"):
        anew.make_anew(row)
    admin.delete_topics([OLD.topic])
    cluster.fail("create_topics", 36)
    with pytest.raises(ConnectionLost, match="call it again"):
        anew.make_anew(row)


def test_a_promotion_keeps_what_its_topic_was_like() -> None:
    """Given a topic that is made anew / when its row is read / then it says how it was."""
    recreation = Recreation(
        None, {PartitionId(0): (BrokerId(2), BrokerId(1))}, {"cleanup.policy": "compact"}
    )
    row = Promotion(OLD.topic, PromotedBy.FAILOVER, "me", 1, recreation=recreation)
    assert Promotion.from_json(row.key, row.to_json()) == row


@pytest.mark.parametrize(
    ("left_from", "source_id", "tail", "why"),
    [
        (0, UUID(int=1), 0, ""),
        (3, UUID(int=1), 0, "it holds 2 records that west no longer has"),
        (3, None, 0, "can't tell a topic from one made anew"),
        (0, UUID(int=1), 4, "4 records there never crossed, and are not rescued"),
    ],
)
def test_a_topic_whose_records_would_be_lost_is_not_made_anew(
    monkeypatch: pytest.MonkeyPatch, left_from: int, source_id: UUID | None, tail: int, why: str
) -> None:
    """Given records that the new primary has deleted, or that never crossed / when their topic is

    to be made anew / then it is refused, with their number.
    """
    new = TopicPartition(TopicName("new"), PartitionId(0))
    rows = [SimpleNamespace(source=OLD, records=tail)]
    report = SimpleNamespace(rows=rows, open_transactions=[], why_not={})
    monkeypatch.setattr(recreate, "show_tail", lambda *_, **__: report)
    monkeypatch.setattr(recreate, "read_maps", lambda *_: MapReader())
    bounds = {new: LogBounds(Offset(left_from), Offset(9))}
    monkeypatch.setattr(recreate, "bounds_of", lambda *_, **__: bounds)
    at = {PartitionId(0): PartitionPromotion(Offset(5), Offset(5))}
    ids: Any = (ClusterId("a"), ClusterId("b"), source_id, UUID(int=2))
    ends = MirrorEnds(new.topic, *ids, at)
    old: Any = SimpleNamespace(
        bounds=lambda places: dict.fromkeys(places, LogBounds(Offset(1), Offset(5))),
        read=lambda _, start, stop: range(start, stop),
    )
    clusters: Any = SimpleNamespace(source=None, source_access=None)
    link: Any = SimpleNamespace(name="l", target="west")
    config: Any = None
    refused = Recreating(config, clusters, link).refusals({OLD.topic: ends}, old)
    assert refused.keys() == ({OLD.topic} if why else set())
    assert why in refused.get(OLD.topic, "")
