"""What a takeover writes, and how its plan reads."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock
from uuid import UUID

import pytest

from heliostat.config import LinkConfig, SchemasConfig
from heliostat.errors import Refused
from heliostat.mm2.adopt import ROW_BREAKS, _moving, _piped, _rows, _starts, adopt, plan_adoption
from heliostat.mm2.adopt_clusters import let_go, refuse_moved
from heliostat.mm2.adopt_plan import AdoptionPlan, PartitionAdoption, TopicAdoption, peer_of
from heliostat.mm2.resume_point import NoResumePoint, ResumePoint
from heliostat.names import (
    Alias,
    ClusterId,
    LinkName,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapReader, MapRow, OffsetMap
from heliostat.other_links.claims import Claims
from heliostat.state.link_state import Starts
from heliostat.topics.values import MirrorRecord

ORDERS, MIRROR = TopicName("orders"), TopicName("A.orders")
TARGET_ID = UUID(int=7)
STAMP = Stamp(3, 0)
RECORD = MirrorRecord(ORDERS, MIRROR, None, TARGET_ID, ClusterId("c"), "earliest", 3)
LINK = LinkConfig(name=LinkName("l"), source=Alias("A"), target=Alias("B"))


def partition(
    number: int, found: ResumePoint | NoResumePoint | None, end: int = 12, committed: int | None = 7
) -> PartitionAdoption:
    return PartitionAdoption(
        PartitionId(number),
        None if committed is None else Offset(committed),
        Offset(20),
        Offset(end),
        found,
    )


def resume_point(
    source: int, target: int, *breaks: Break, first: Break | None = None
) -> ResumePoint:
    begin = first or Break(0, 0)
    return ResumePoint(Offset(source), Offset(target), OffsetMap.of(breaks), begin, 10, 0)


def rows_of(found: ResumePoint, known: OffsetMap | None = None) -> list[MapRow]:
    topic = TopicAdoption(RECORD, (partition(0, found),))
    return list(_rows(topic, STAMP, lambda *_: known or OffsetMap()))


def test_equal_offsets_need_no_rows() -> None:
    assert rows_of(resume_point(12, 12)) == []


def test_rows_hold_the_map_up_to_the_resume_point() -> None:
    (row,) = rows_of(resume_point(12, 17, Break(15, 10)))
    assert row.key == RowKey(TopicPartition(MIRROR, PartitionId(0)), str(TARGET_ID), 15, STAMP)
    assert row.breaks == (Break(15, 10),)


def test_a_long_map_is_split_into_rows_that_restore_it() -> None:
    breaks = [Break(n, 2 * n) for n in range(1, 2 * ROW_BREAKS)]
    rows = rows_of(resume_point(9_000, 4_500, *breaks))
    reader = MapReader()
    assert len(rows) == 2
    assert all(reader.take(MapRow.decode(row.key, row.encode())) for row in rows)
    found = reader.of(TopicPartition(MIRROR, PartitionId(0)), str(TARGET_ID))
    assert list(found.breaks()) == breaks


def test_a_second_takeover_keeps_the_map_below_the_compared_records() -> None:
    known = OffsetMap.of([Break(5, 9), Break(30, 50)])
    (row,) = rows_of(resume_point(40, 32, Break(0, 3), Break(22, 28), first=Break(20, 24)), known)
    known.apply(row)
    assert list(known.breaks()) == [Break(5, 9), Break(22, 28)]  # at 20 it is 24 anyway
    assert known.source_of(32) == 38


def test_adopted_partitions_are_never_aligned_and_others_begin_as_usual() -> None:
    topic = TopicAdoption(RECORD, (partition(0, resume_point(12, 12)), partition(1, None, end=0)))
    zero = PartitionId(0)
    assert _starts(topic) == Starts(TARGET_ID, {zero: Offset(0)}, {zero: Offset(12)})


def test_a_partition_without_a_resume_point_keeps_its_topic_from_adoption() -> None:
    refused = partition(1, NoResumePoint("records are alike"))
    good = TopicAdoption(RECORD, (partition(0, resume_point(12, 12)),))
    bad = TopicAdoption(
        RECORD, (partition(0, resume_point(12, 12)), refused, partition(2, None, 0, None))
    )
    plan = AdoptionPlan(LINK.name, peer_of(LINK), (good, bad), ("a note",))
    assert plan.adopted == (good,)
    assert plan.has_refusals
    exact = (
        "0: exact: committed 7, source end 20, target end 12; continues with source offset 12 "
        "(10 compared)"
    )
    new = "2: new: source end 20, target end 0; copied from its beginning as the link's start says"
    assert list(plan.describe()) == [
        "adopt: orders → A.orders",
        f"  {exact}",
        "refuse (no resume point in partition 1): orders → A.orders",
        f"  {exact}",
        "  1: refused: committed 7, source end 20, target end 12; records are alike",
        f"  {new}",
        "note: a note",
    ]
    told = plan.to_json()["topics"][1]
    assert [each["verdict"] for each in told["partitions"]] == ["exact", "refused", "new"]
    assert [each["seam"] for each in told["partitions"]] == [12, None, None]


def test_mapped_partitions_show_their_duplicates() -> None:
    found = ResumePoint(Offset(12), Offset(17), OffsetMap.of([Break(15, 10)]), Break(0, 0), 17, 5)
    assert partition(0, found).verdict == "mapped"
    assert "5 doubled before" in partition(0, found).describe()


def test_moving_ends_are_reported() -> None:
    place = TopicPartition(MIRROR, PartitionId(0))
    assert _moving([place], {place: Offset(5)}, {place: Offset(5)}) == ""
    assert "moved from 5 to 6" in _moving([place], {place: Offset(5)}, {place: Offset(6)})
    assert "can't be read" in _moving([place], {}, {place: Offset(6)})


def test_names_are_those_of_dedicated_mode_unless_they_are_given() -> None:
    peer = peer_of(LINK)
    assert (peer.offsets_topic, peer.group) == ("mm2-offsets.A.internal", "A-mm2")
    assert (peer.flow.connector, peer.flow.alias) == ("MirrorSourceConnector", "A")
    peer = peer_of(LINK, alias="S", connector="copy", topic="connect-offsets", group="connect")
    assert (peer.offsets_topic, peer.group) == ("connect-offsets", "connect")
    assert (peer.flow.connector, peer.flow.alias) == ("copy", "S")
    assert peer_of(LINK, workers_run_on=True).group is None


def test_a_mirror_that_another_link_took_over_meanwhile_is_left_to_it() -> None:
    """Given both have claimed it / when we check again / then it is not ours, and reported."""
    other = replace(RECORD, source=TopicName("kept"), target=TopicName("A.kept"))
    records = [RECORD, other]
    state = Mock()
    let_go(state, records, Claims())
    state.drop_mirrors.assert_not_called()
    with pytest.raises(Refused, match=r"A\.orders \(link theirs\)"):
        let_go(state, records, Claims({MIRROR: LinkName("theirs")}))
    state.drop_mirrors.assert_called_once_with([ORDERS])


@pytest.mark.parametrize(
    ("topic_id", "end", "words"),
    [
        (UUID(int=8), 12, "A.orders was recreated"),
        (TARGET_ID, 13, "A.orders-0: its log end moved from 12 to 13"),
    ],
)
def test_a_mirror_that_changed_since_the_plan_is_not_adopted(
    topic_id: UUID, end: int, words: str
) -> None:
    at = TopicPartition(MIRROR, PartitionId(0))
    info = Mock(topic_id=topic_id, partitions=[Mock(partition=0)])
    info.name = MIRROR
    target = Mock(
        describe_topics=lambda _: {MIRROR: info},
        list_log_ends=lambda _, confirmed: {at: Offset(end)},
    )
    with pytest.raises(Refused, match=words):
        refuse_moved(target, [RECORD], {at: Offset(12)})
    if topic_id == TARGET_ID:
        refuse_moved(target, [RECORD], {at: Offset(end)})


def test_mirrors_with_other_ids_are_not_taken_over() -> None:
    """Given a link that puts the target's schema ids into records / then nothing is asked."""
    link = LinkConfig(
        name=LinkName("l"),
        source=Alias("A"),
        target=Alias("B"),
        schemas=SchemasConfig(strategy="rewrite"),
    )
    nothing = Mock(spec=())
    for verb in (plan_adoption, adopt):
        with pytest.raises(Refused, match="have the source's schema ids"):
            verb(nothing, link, nothing)


def test_a_topic_with_a_pipeline_is_not_taken_over() -> None:
    """Given a copy of the source's own records / then none is continued with changed ones."""
    pipeline = {"name": "stars", "topics": ["orders"], "steps": [{"where": "key IS NOT NULL"}]}
    link = LinkConfig.model_validate(
        {"name": "l", "source": "A", "target": "B", "pipelines": [pipeline]}
    )
    assert "it goes through pipeline stars" in _piped(link, TopicName("orders"))
    assert not _piped(link, TopicName("payments"))
