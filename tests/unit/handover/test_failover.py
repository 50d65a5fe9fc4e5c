"""What a failover tells: where sources were seen to end, what is missing, who reads what again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from heliostat.groups.values import Published, Sent
from heliostat.handover.drain import QUIET_S, Drain, Drained, DrainEnd
from heliostat.handover.failover import (
    IN_PART,
    NOT_OPEN,
    UNFENCED,
    FailoverReport,
    MirrorPartition,
)
from heliostat.handover.fence_forecast import FenceForecast, fence_forecast
from heliostat.handover.held_back import HeldBack
from heliostat.handover.moved_groups import MovedGroup, measured_rereads, moved_groups
from heliostat.handover.opening import Opened, Part
from heliostat.handover.promotion import (
    FencedBy,
    LeaderEpoch,
    PartitionPromotion,
    PromotedBy,
    Promotion,
    SourceSeen,
)
from heliostat.handover.still_open import StillOpen, still_open
from heliostat.handover.unfenced import Unfenced
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.status.board import StatusBoard
from heliostat.status.ends_seen import EndsSeen
from heliostat.status.loss import Rereads
from heliostat.wishes.reading import Remembered

NOW_MS = 1_700_000_000_000
P, Q = (TopicPartition(TopicName("t"), PartitionId(number)) for number in (0, 1))
A = TopicPartition(TopicName("m"), PartitionId(0))
LEVEL = PartitionReport(P, A, PartitionState.COPYING, 90, 90, 0, 0, -1, 1, NOW_MS, target_end=90)
SEEN = SourceSeen(Offset(100), NOW_MS)


@pytest.mark.parametrize("epoch", [LeaderEpoch(3, Offset(6)), None])
@pytest.mark.parametrize("seen", [SEEN, SourceSeen(Offset(5), -1), None])
def test_an_end_comes_back_from_its_row(epoch: LeaderEpoch | None, seen: SourceSeen | None) -> None:
    given = PartitionPromotion(Offset(7), Offset(5), epoch, seen)
    assert PartitionPromotion.from_json(given.to_json()) == given


def test_missing_is_what_is_known_and_was_not_copied() -> None:
    assert PartitionPromotion(Offset(90), Offset(0), None, SEEN).missing == 10
    assert PartitionPromotion(Offset(101), Offset(0), None, SEEN).missing == 0
    assert PartitionPromotion(Offset(90), Offset(0)).missing is None


OLD = replace(LEVEL, is_end_old=True)
STARTING = replace(LEVEL, position=-1, high_watermark=-1)


@pytest.mark.parametrize(
    ("reports", "end"),
    [
        ([(LEVEL, 1_000)], SourceSeen(Offset(90), 1_000)),
        ([(LEVEL, 1_000), (OLD, 9_000)], SourceSeen(Offset(90), 1_000)),
        ([(OLD, 9_000), (LEVEL, 1_000)], SourceSeen(Offset(90), 1_000)),
        ([(OLD, 9_000)], SourceSeen(Offset(90), -1)),
        ([(OLD, 9_000), (replace(OLD, high_watermark=95), 5_000)], SourceSeen(Offset(95), -1)),
        ([(LEVEL, 1_000), (STARTING, 2_000)], SourceSeen(Offset(90), 1_000)),
        (
            [(replace(LEVEL, high_watermark=99), 1_000), (LEVEL, 2_000)],
            SourceSeen(Offset(90), 2_000),
        ),
        ([(STARTING, 2_000)], None),
    ],
    ids=[
        "seen",
        "seen before its source was gone",
        "read backwards",
        "seen at a time not known",
        "the farthest of those",
        "a new round knows none",
        "a source that lost records",
        "never seen",
    ],
)
def test_the_end_counts_that_was_seen_last(
    reports: list[tuple[PartitionReport, int]], end: SourceSeen | None
) -> None:
    seen = EndsSeen()
    for item, at_ms in reports:
        seen.take(item, at_ms)
    assert seen.ends.get(P) == end
    assert seen.are_known([P]) == (end is not None and end.at_ms >= 0)
    assert not seen.are_known([P, Q])


BEHIND = replace(LEVEL, high_watermark=100)


def drained(*looks: tuple[list[PartitionReport], float], has_driver: bool = True) -> Drained | None:
    drain = Drain([P], 30.0, 0.0)
    last = None
    for reports, now_s in looks:
        last = drain.look(reports, now_s, has_driver=has_driver)
        if last is not None:
            break
    return last


def test_a_drain_ends_when_all_is_level() -> None:
    found = drained(([BEHIND], 0.0), ([replace(BEHIND, position=100)], 1.0))
    assert found == Drained(DrainEnd.LEVEL, 1.0, 10, ())


@pytest.mark.parametrize(
    "item",
    [BEHIND, OLD, STARTING, replace(LEVEL, source=Q)],
    ids=["behind", "its end is old", "not known", "not reported"],
)
def test_a_drain_ends_where_nothing_moves_and_names_it(item: PartitionReport) -> None:
    assert drained(([item], QUIET_S - 0.1)) is None
    found = drained(([item], 0.0), ([item], QUIET_S))
    assert found == Drained(DrainEnd.NO_PROGRESS, QUIET_S, 0, (P,))


def test_a_drain_goes_on_while_something_moves_until_the_time_is_over() -> None:
    moving = [([replace(BEHIND, position=90 + n)], 4.0 * n) for n in range(9)]
    found = drained(*moving)
    assert found == Drained(DrainEnd.TIME_OVER, 32.0, 8, (P,))


def test_how_far_a_drain_is_can_be_told() -> None:
    drain = Drain([P, Q], 30.0, 0.0)
    drain.look([BEHIND, replace(LEVEL, source=Q)], 0.0, has_driver=True)
    drain.look([replace(BEHIND, position=97)], 3.0, has_driver=True)
    assert drain.progress(4.0) == "after 4 s: 7 records copied, 2 of 2 partitions not level"


def test_nothing_is_waited_for_where_no_driver_copies() -> None:
    found = drained(([BEHIND], 0.0), has_driver=False)
    assert found is not None
    assert found.end is DrainEnd.NO_DRIVER
    assert "no driver copies" in found.text()


@pytest.mark.parametrize(
    ("state", "driver", "forecast"),
    [
        ("running", {"lease_s": 6}, FenceForecast(FencedBy.OWNER, 5.0)),
        ("paused", {}, FenceForecast(FencedBy.OWNER, 5.0)),
        ("silent", {"lease_s": 6}, FenceForecast(FencedBy.LEASE, 13.0)),
        ("silent", {}, FenceForecast(FencedBy.LEASE, 27.0)),
        ("no_owner", {"lease_s": 6}, FenceForecast(FencedBy.LEASE, 5.0)),
    ],
)
def test_it_is_known_beforehand_which_fence_will_hold(
    state: str, driver: dict[str, Any], forecast: FenceForecast
) -> None:
    assert fence_forecast(state, driver) == forecast
    assert f"{forecast.within_s:.0f} s" in forecast.text()


def test_what_was_failed_over_is_told_until_its_source_is_fenced() -> None:
    rows = [
        Promotion(TopicName(f"t{n:02}"), PromotedBy.FAILOVER, f"by{n}", 100 - n) for n in range(30)
    ]
    switched = Promotion(TopicName("s"), PromotedBy.SWITCH, "ann", 1)
    fenced = Promotion(TopicName("f"), PromotedBy.FAILOVER, "ann", 1, is_source_fenced=True)
    assert Promotion.from_json(fenced.key, fenced.to_json()) == fenced
    told = Unfenced.of([*rows, switched, fenced])
    assert told is not None
    assert (told.count, len(told.topics), told.by, told.at_ms) == (30, 20, "by29", 71)
    assert Unfenced.from_json(json.loads(json.dumps(told.to_json()))) == told
    assert "30 topics were failed over by by29" in told.text()
    assert Unfenced.of([switched, fenced]) is None
    board = StatusBoard(LinkName("l"))
    board.know_remembered(Remembered(None, told))
    assert board.status(NOW_MS).unfenced == told


def test_rules_hold_where_the_driver_is_silent() -> None:
    denied = FenceForecast(FencedBy.DENY_RULE, 5.0)
    assert fence_forecast("silent", {}, can_deny=True) == denied
    assert fence_forecast("running", {}, can_deny=True).by is FencedBy.OWNER
    assert "brokers deny the link to write, within 5 s" in denied.text()
    board = StatusBoard(LinkName("l"))
    board.know_denial(can_deny=True)
    board.consume("driver", {"state": "running", "at_ms": 1})
    assert board.status(NOW_MS).failover_fence == denied


G, H = GroupId("g"), GroupId("h")


def test_groups_read_again_no_more_than_lies_behind_their_offsets() -> None:
    sent = {A: Sent(Offset(80))}
    rows = moved_groups(
        {G: Published(sent, 5), H: Published(sent, 6), GroupId("other"): Published({}, 7)},
        {G: {A: Offset(86)}},
        {A: Offset(90)},
        {G: 3, H: 40},
        are_all=True,
    )
    assert rows == (MovedGroup(H, 6, 10, 10, 1), MovedGroup(G, 5, 3, 4, 1))
    published = {G: Published(sent, 5)}
    [not_measured] = moved_groups(published, {}, {A: Offset(90)}, {}, are_all=False)
    assert (not_measured.again, not_measured.at_most) == (None, 10)


def test_a_group_that_the_report_does_not_name_is_not_measured_while_it_names_not_all() -> None:
    """Given reports of all groups, of some of 21, and where of one it is not known / when failed

    over / then a group that is named has its figure, another one 0 only where all are named.
    """
    told = Rereads(5, "exact", 1, 0, NOW_MS, {"g": 5}, True)
    sent = {A: Sent(Offset(80))}

    def again(rereads: Rereads | None) -> list[int | None]:
        measured, are_all = measured_rereads(rereads)
        named = {GroupId(group): records for group, records in measured.items()}
        published = {G: Published(sent, 5), H: Published(sent, 6)}
        rows = moved_groups(published, {}, {A: Offset(90)}, named, are_all=are_all)
        return [row.again for row in rows]

    assert again(told) == [5, 0]
    assert again(replace(told, groups=21)) == [5, None]
    assert again(replace(told, unknown=1)) == [None, None], "what it has may be too small"
    assert again(replace(told, records=None)) == [None, None]
    assert again(None) == [None, None]


HELD = HeldBack("t", 0, 91, 9, 7, "writer", 3.0)


def report() -> FailoverReport:
    return FailoverReport(
        LinkName("l"),
        "ann",
        "fire",
        NOW_MS,
        False,
        FenceForecast(FencedBy.OWNER, 5.0),
        FencedBy.OWNER,
        Drained(DrainEnd.NO_PROGRESS, 6.0, 4, (Q,)),
        (
            MirrorPartition(P, A, PartitionPromotion(Offset(90), Offset(88), None, SEEN)),
            MirrorPartition(Q, A, PartitionPromotion(Offset(0), Offset(0))),
        ),
        StillOpen((HELD,), 2),
        (MovedGroup(G, NOW_MS, 3, 4, 1),),
        True,
        {"fence": 1.2},
        opening=(
            Opened(Part.RIGHTS, "2 rules granted"),
            Opened(Part.REGISTRY, "no address answers", "REGISTRY_UNREACHABLE", "look"),
        ),
    )


def test_all_rows_stand_in_each_form_of_the_report() -> None:
    made = report()
    told = json.loads(json.dumps(made.to_json()))
    assert (told["missing"], told["partitions_not_known"], told["fenced_by"]) == (10, 1, "owner")
    assert [row["missing"] for row in told["partitions"]] == [10, None]
    assert [row["known_ms"] for row in told["partitions"]] == [NOW_MS, None]
    lines, document = "\n".join(made.lines()), made.markdown()
    for text in (lines, document):
        for part in (
            "2 partitions) are given away; not all is open to producers",
            "the link's driver has given them up, 1.2 s",
            "at least 10 records; of 1 partitions nothing is known",
            "nothing moved for 10 s after 6.0 s, 4 records were copied; 1 partitions are not level",
            IN_PART,
            "is open since offset 91",
            "in 2 more partitions transactions that are not named hold back records",
            "1 group resumes",
            UNFENCED,
            "rights: 2 rules granted",
            "registry: not all is open (REGISTRY_UNREACHABLE): no address answers; look",
            NOT_OPEN,
        ):
            assert part in text, (part, text)
    assert "| t-0 | 90 | 100 at 2023-11-14 22:13:20Z | 10 | m-0 | 88 |" in document
    assert "| t-1 | 0 | not known | not known | m-0 | 0 |" in document
    assert "| g | 2023-11-14 22:13:20Z | 3 | 4 |" in document


def test_one_that_was_done_before_is_told_by_its_rows() -> None:
    last = replace(report(), fenced_by=None, drained=None, took_s={}, is_source_fenced=True)
    last = replace(last, opening=(), is_target_open=True)
    assert NOT_OPEN not in last.markdown()
    assert "are given away, and may be written" in last.markdown()
    assert NOT_OPEN in replace(last, is_target_open=False).markdown()
    assert "it has held" in last.markdown()
    assert UNFENCED not in last.markdown()
    assert UNFENCED not in "\n".join(last.lines())
    assert last.to_json()["is_source_fenced"]


def test_a_dry_run_says_what_would_hold() -> None:
    tried = replace(report(), is_tried=True, fenced_by=None, groups=(), is_group_sync_on=False)
    first, fence, *rest = tried.lines()
    assert "would be given away; nothing was changed" in first
    assert "the link's driver answers, within 5 s" in fence
    assert any("groups.sync is off" in line for line in rest)
    assert "None is known" in replace(tried, transactions=StillOpen()).markdown()


def test_transactions_that_no_row_names_are_counted_by_their_partitions() -> None:
    """Given one that is named, two partitions more that hold records back, and another topic /

    then each is told of its topic, and only of topics that are given away.
    """
    other = TopicPartition(TopicName("u"), PartitionId(0))
    held = {P: 9, Q: 4, A: 0, other: 1}
    found = still_open([HELD], held, [P.topic, A.topic])
    assert found == {P.topic: StillOpen((HELD,), 1)}
    every = still_open([HELD], held, [P.topic, A.topic, other.topic])
    assert StillOpen.summed(every.values()) == StillOpen((HELD,), 2)
    assert not StillOpen()
    assert next(StillOpen((), 1).lines()).startswith("in 1 partitions")
