"""Every rule for a group's offset at the target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.clusters.admin import CommittedOffset, GroupListing, ListedGroup
from heliostat.errors import BrokerError
from heliostat.groups.plan import GroupDecision, plan_groups, sent_after
from heliostat.groups.values import (
    CommitDecision,
    MergedPlace,
    MirrorPartition,
    Published,
    Reason,
    Sent,
    SourceGroups,
    TargetGroups,
)
from heliostat.invariants import group_offset_may_be_published
from heliostat.names import BrokerId, GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap

GROUP = GroupId("g")
HERE = TopicPartition(TopicName("t"), PartitionId(0))
THERE = TopicPartition(TopicName("east.t"), PartitionId(0))


def listed(state: str = "Empty", name: str = GROUP) -> ListedGroup:
    return ListedGroup(GroupId(name), BrokerId(1), state, "classic", "consumer")


@dataclass(frozen=True)
class Scene:
    """One partition of one group, and what is around it."""

    source: int = 50
    metadata: str = ""
    start: int = 0
    end: int = 100
    breaks: tuple[Break, ...] = ()
    target: CommittedOffset | None = None
    state: str | None = "Empty"
    sent: Sent | None = None
    policy: str = "advance"
    copied_to: int = -1
    merged: MergedPlace | str | None = None

    def decide(self) -> GroupDecision:
        offsets = OffsetMap.of(self.breaks)
        mirror = MirrorPartition(
            THERE, Offset(self.start), Offset(self.end), offsets, self.copied_to
        )
        there = {} if self.state is None else {GROUP: listed(self.state)}
        at_target = {} if self.target is None else {GROUP: {THERE: self.target}}
        published = {} if self.sent is None else {GROUP: Published({THERE: self.sent}, 1)}
        merged = {} if self.merged is None else {(GROUP, HERE): self.merged}
        commit = CommittedOffset(Offset(self.source), self.metadata)
        plan = plan_groups(
            SourceGroups(GroupListing({GROUP: listed("Stable")}), {GROUP: {HERE: commit}}),
            TargetGroups(GroupListing(there), at_target, {HERE: mirror}, merged),
            published,
            self.policy,
        )
        return plan.groups[GROUP]

    def row(self) -> CommitDecision:
        [row] = self.decide().partitions
        return row

    @property
    def outcome(self) -> tuple[Reason, int | None]:
        row = self.row()
        return row.reason, None if row.publish is None else row.publish.offset


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(Offset(offset), metadata)


def sent(offset: int, before: int | None = None) -> Sent:
    return Sent(Offset(offset), None if before is None else Offset(before))


REWOUND = Reason.REWOUND_AT_TARGET
HOLES = (Break(20, 25), Break(40, 60))
"""Source 20..24 and 45..59 have no record at the target."""


@pytest.mark.parametrize(
    ("scene", "reason", "publishes"),
    [
        (Scene(), Reason.PUBLISH, 50),
        (Scene(state=None), Reason.PUBLISH, 50),
        (Scene(target=at(50)), Reason.SYNCED, None),
        (Scene(target=at(50), state="Stable"), Reason.SYNCED, None),
        # Through the map: a record's place; in a hole the next record's; the end is the end.
        (Scene(source=10, breaks=HOLES), Reason.PUBLISH, 10),
        (Scene(source=19, breaks=HOLES), Reason.PUBLISH, 19),
        (Scene(source=20, breaks=HOLES), Reason.PUBLISH, 20),
        (Scene(source=22, breaks=HOLES), Reason.PUBLISH, 20),
        (Scene(source=25, breaks=HOLES), Reason.PUBLISH, 20),
        (Scene(source=44, breaks=HOLES), Reason.PUBLISH, 39),
        (Scene(source=50, breaks=HOLES), Reason.PUBLISH, 40),
        (Scene(source=60, breaks=HOLES), Reason.PUBLISH, 40),
        (Scene(source=70, end=50, breaks=HOLES), Reason.PUBLISH, 50),
        # Never past what has landed.
        (Scene(source=100), Reason.PUBLISH, 100),
        (Scene(source=101), Reason.NOT_LANDED, 100),
        (Scene(source=101, target=at(100), sent=sent(100)), Reason.NOT_LANDED, None),
        (Scene(source=900, target=at(90), sent=sent(90)), Reason.NOT_LANDED, 100),
        (Scene(source=61, end=40, breaks=HOLES), Reason.NOT_LANDED, 40),
        # Behind the last record of a map a hole and what is to come look alike.
        (Scene(source=105, copied_to=110), Reason.PUBLISH, 100),
        (Scene(source=105, copied_to=105, target=at(100)), Reason.SYNCED, None),
        (Scene(source=106, copied_to=105), Reason.NOT_LANDED, 100),
        (Scene(source=95, copied_to=110), Reason.PUBLISH, 95),
        # Never below where the target's log begins.
        (Scene(source=5, start=10), Reason.BELOW_START, 10),
        (Scene(source=5, start=10, target=at(10)), Reason.BELOW_START, None),
        (Scene(source=10, start=10), Reason.PUBLISH, 10),
        (Scene(source=10, start=10, target=at(10)), Reason.SYNCED, None),
        (Scene(source=5, start=30, target=at(10), sent=sent(10)), Reason.TARGET_AGED, None),
        (Scene(source=5, start=30, target=at(10)), Reason.TARGET_AGED, None),
        (Scene(source=20, start=30, target=at(10), sent=sent(10)), Reason.BELOW_START, 30),
        # Held back while the group has members there, whatever is committed there.
        (Scene(state="Stable"), Reason.ACTIVE_AT_TARGET, None),
        (Scene(state="Assigning"), Reason.ACTIVE_AT_TARGET, None),
        (Scene(state=""), Reason.ACTIVE_AT_TARGET, None),  # a broker that returns no state
        (Scene(state="Dead"), Reason.PUBLISH, 50),
        (Scene(state="Stable", target=at(20), sent=sent(20)), Reason.ACTIVE_AT_TARGET, None),
        (Scene(state="Stable", source=900), Reason.ACTIVE_AT_TARGET, None),
        # Ours moves both ways.
        (Scene(target=at(20), sent=sent(20)), Reason.PUBLISH, 50),
        (Scene(target=at(80), sent=sent(80)), Reason.RESET, 50),
        (Scene(target=at(80), sent=sent(90, 80)), Reason.RESET, 50),
        (Scene(target=at(20), sent=sent(40, 20)), Reason.PUBLISH, 50),
        (Scene(target=at(80), sent=sent(80), state="Stable"), Reason.ACTIVE_AT_TARGET, None),
        # What a consumer there reached is never taken back.
        (Scene(target=at(80)), Reason.MOVED_AT_TARGET, None),
        (Scene(target=at(80), sent=sent(60)), Reason.MOVED_AT_TARGET, None),
        (Scene(target=at(20)), Reason.PUBLISH, 50),
        (Scene(target=at(20), sent=sent(10)), Reason.PUBLISH, 50),
        (Scene(target=at(20), sent=sent(10), policy="leave"), Reason.MOVED_AT_TARGET, None),
        (Scene(target=at(20), policy="leave"), Reason.MOVED_AT_TARGET, None),
        (Scene(target=at(20), sent=sent(20), policy="leave"), Reason.PUBLISH, 50),
        # An offset reset there stays.
        (Scene(target=at(20), sent=sent(30)), Reason.REWOUND_AT_TARGET, None),
        (Scene(target=at(20), sent=sent(40, 30)), Reason.REWOUND_AT_TARGET, None),
        (Scene(target=at(20), sent=Sent(Offset(30), over=Offset(20))), Reason.PUBLISH, 50),
        (Scene(target=at(19), sent=Sent(Offset(30), over=Offset(20))), REWOUND, None),
        # The mirror lost its end: no reason to go back.
        (Scene(source=95, end=90, target=at(95), sent=sent(95)), Reason.TARGET_SHORTER, None),
        (Scene(source=80, end=90, target=at(95), sent=sent(95)), Reason.RESET, 80),
        # Metadata is the group's own; what others wrote is left alone.
        (Scene(metadata="m", target=at(50), sent=sent(50)), Reason.PUBLISH, 50),
        (Scene(metadata="m", target=at(50, "m"), sent=sent(50)), Reason.SYNCED, None),
        (Scene(metadata="m", target=at(50)), Reason.SYNCED, None),
    ],
)
def test_rules(scene: Scene, reason: Reason, publishes: int | None) -> None:
    assert scene.outcome == (reason, publishes), scene.row().why


def test_metadata_is_published_with_the_offset() -> None:
    publish = Scene(metadata="words").row().publish
    assert publish == at(50, "words")


@pytest.mark.parametrize(
    ("scene", "reread"),
    [
        (Scene(), 0),
        (Scene(target=at(50)), 0),
        (Scene(state="Stable", target=at(20), sent=sent(20)), 30),
        (Scene(state="Stable"), None),
        (Scene(source=130), 30),
        (Scene(source=5, start=10), 0),
        (Scene(source=70, breaks=HOLES, state="Stable", target=at(39), sent=sent(39)), 11),
        (Scene(source=64, end=40, breaks=HOLES), 4),
        (Scene(target=at(80)), 0),
    ],
)
def test_records_to_read_again_are_counted(scene: Scene, reread: int | None) -> None:
    assert scene.row().reread_records == reread


def test_unknown_facts_are_reported_as_reasons() -> None:
    error = BrokerError("no", kafka_code=29)
    mirror = MirrorPartition(THERE, Offset(0), Offset(10), OffsetMap())
    other = replace(HERE, partition=PartitionId(1))
    third = replace(HERE, partition=PartitionId(2))
    plan = plan_groups(
        SourceGroups(
            GroupListing({}),
            {
                GROUP: {HERE: error, other: at(1), third: at(1)},
                GroupId("x"): error,
                GroupId("y"): {HERE: at(1)},
                GroupId("z"): {other: at(1), third: at(2)},
            },
        ),
        TargetGroups(
            GroupListing({}),
            {GroupId("y"): error},
            {HERE: mirror, other: "the source topic is gone", third: error},
        ),
        {},
        "advance",
    )
    assert [row.reason for row in plan.groups[GROUP].partitions] == [
        Reason.NOT_TOLD,
        Reason.NOT_MIRRORED,
        Reason.NOT_TOLD,
    ]
    assert "the source does not answer" in plan.groups[GroupId("x")].problem
    assert "the target does not answer" in plan.groups[GroupId("y")].problem
    assert plan.commits == {}


def test_a_group_that_a_silent_broker_may_have_is_left_alone() -> None:
    """Given a target broker that does not list / when a group is not listed / then it waits."""
    error = BrokerError("loading", kafka_code=14)
    mirror = MirrorPartition(THERE, Offset(0), Offset(10), OffsetMap())
    source = SourceGroups(GroupListing({GROUP: listed()}), {GROUP: {HERE: at(1)}})
    for failed, commits in (({}, 1), ({BrokerId(2): error}, 0)):
        target = TargetGroups(GroupListing({}, failed), {}, {HERE: mirror})
        plan = plan_groups(source, target, {}, "advance")
        assert len(plan.commits) == commits
        assert bool(plan.groups[GROUP].problem) == (not commits)


def test_a_share_group_at_the_target_takes_no_offsets() -> None:
    mirror = MirrorPartition(THERE, Offset(0), Offset(10), OffsetMap())
    source = SourceGroups(GroupListing({GROUP: listed()}), {GROUP: {HERE: at(1)}})
    there = GroupListing({GROUP: replace(listed(), kind="share", protocol="share")})
    error = BrokerError("no such group", kafka_code=69)
    plan = plan_groups(source, TargetGroups(there, {GROUP: error}, {HERE: mirror}), {}, "advance")
    assert "share group of this name" in plan.groups[GROUP].problem
    assert plan.commits == {}


offsets = st.integers(0, 120)
maybe = st.none() | offsets


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    breaks: list[Break] = []
    target = source = 0
    for _ in range(draw(st.integers(0, 4))):
        step = draw(st.integers(1, 30))
        target, source = target + step, source + step + draw(st.integers(1, 30))
        breaks.append(Break(target, source))
    end = draw(offsets)
    there = draw(maybe)
    first = draw(maybe)
    return Scene(
        source=draw(st.integers(0, 300)),
        start=draw(st.integers(0, end)),
        end=end,
        breaks=tuple(breaks),
        target=None if there is None else at(there),
        state=draw(st.sampled_from([None, "Empty", "Stable", "Dead"])),
        sent=None if first is None else sent(first, draw(maybe)),
        policy=draw(st.sampled_from(["advance", "leave"])),
    )


@given(scenes())
def test_nothing_published_skips_a_record_or_moves_a_live_group(scene: Scene) -> None:
    """I9, and: a reader of the target reads each record that it has not read at the source."""
    row = scene.row()
    if row.publish is None:
        return
    has_members = scene.state == "Stable"
    assert group_offset_may_be_published(row.publish.offset, scene.end, has_members=has_members)
    assert row.publish.offset >= scene.start
    mapped = OffsetMap.of(scene.breaks)
    unread = [
        target
        for target in range(scene.start, scene.end)
        if mapped.source_of(target) >= scene.source
    ]
    assert all(target >= row.publish.offset for target in unread)
    again = [t for t in range(row.publish.offset, scene.end) if mapped.source_of(t) < scene.source]
    assert again == [], "what has landed is not read twice"


@given(scenes())
def test_a_second_turn_changes_nothing(scene: Scene) -> None:
    row = scene.row()
    if row.publish is None:
        return
    kept = sent_after(
        None if scene.sent is None else Published({THERE: scene.sent}), [row], 1
    ).sent[THERE]
    after = replace(scene, target=row.publish, state="Empty", sent=kept)
    assert after.row().publish is None
    crashed = replace(scene, sent=kept)  # remembered, and not committed
    assert crashed.row().publish == row.publish


@given(scenes(), st.integers(0, 300))
def test_a_reset_is_followed_only_where_the_target_has_our_offset(scene: Scene, later: int) -> None:
    row = scene.row()
    if row.publish is None or scene.target is None:
        return
    if row.publish.offset < scene.target.offset:
        assert scene.sent is not None
        assert scene.sent.holds(scene.target.offset)
    kept = sent_after(None, [row], 1).sent[THERE]
    moved = replace(scene, target=at(scene.end + 1), source=later, sent=kept)
    assert moved.row().publish is None, "a consumer at the target went on from there"


def test_remembered_offsets_survive_json() -> None:
    parts = [replace(THERE, partition=PartitionId(number)) for number in range(4)]
    refused = Published({}, 1, {THERE: 12})
    assert Published.from_json(refused.to_json()) == refused
    rows = [sent(5, 3), sent(7), Sent(Offset(7), None, Offset(2)), sent(0, 0)]
    row = Published(dict(zip(parts, rows, strict=True)), 99)
    assert Published.from_json(row.to_json()) == row


@pytest.mark.parametrize(
    ("known", "there", "kept"),
    [
        (None, None, Sent(Offset(50))),
        (None, 20, Sent(Offset(50), over=Offset(20))),
        (sent(20), 20, Sent(Offset(50), before=Offset(20))),
        (sent(30, 20), 20, Sent(Offset(50), before=Offset(20))),
        (sent(10), 20, Sent(Offset(50), over=Offset(20))),
        (sent(10), None, Sent(Offset(50))),
    ],
)
def test_an_offset_at_the_target_is_ours_only_if_we_wrote_it(
    known: Sent | None, there: int | None, kept: Sent
) -> None:
    """Given an offset at the target / when ours replaces it / then whose it was is remembered."""
    row = Scene(target=None if there is None else at(there), sent=known).row()
    assert row.publish is not None
    before = None if known is None else Published({THERE: known})
    assert sent_after(before, [row], 1).sent[THERE] == kept


READ = {"east": 50, "west": 7}
PLACE = MergedPlace(
    Offset(30), again=12, again_now=25, read_to=READ, start=Offset(10), end=Offset(120)
)


def test_a_group_of_a_merged_topic_goes_on_at_the_first_record_that_it_has_not_read() -> None:
    """Given its place there / then that is published, with what it has read and reads again."""
    row = Scene(merged=PLACE).row()
    assert row.publish == at(30)
    assert (row.reread_records, row.reread_now, row.again) == (12, 25, 12)
    assert sent_after(None, [row], 1).sent[THERE] == Sent(Offset(30), read_to=READ)
    held = Scene(merged=PLACE, state="Stable", target=at(20)).row()
    assert (held.reason, held.publish, held.reread_records) == (Reason.ACTIVE_AT_TARGET, None, 25)
    unknown = Scene(merged="its log is being read").row()
    assert (unknown.reason, unknown.why) == (Reason.NOT_TOLD, "its log is being read")


@pytest.mark.parametrize(
    ("known", "there", "kept"),
    [
        (None, 30, Sent(Offset(30), over=Offset(30), read_to=READ)),
        (sent(30, 20), 30, Sent(Offset(30), Offset(20), read_to=READ)),
        (sent(20), 30, Sent(Offset(30), over=Offset(30), read_to=READ)),
        (sent(20), 60, sent(20)),
    ],
)
def test_what_a_group_has_read_elsewhere_is_kept_where_it_need_not_move(
    known: Sent | None, there: int, kept: Sent
) -> None:
    """Given the offset at the target already / then what was read is kept with it: a group that
    comes back has read it still. Not where a consumer is further on.
    """
    row = Scene(merged=PLACE, target=at(there), sent=known).row()
    assert row.publish is None
    before = None if known is None else Published({THERE: known})
    after = sent_after(before, [row], 1)
    assert after.sent[THERE] == kept
    assert Published.from_json(after.to_json()) == after
