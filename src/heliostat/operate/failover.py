"""`heliostat failover`: mirrors are given away as they are, the source dead or half dead.

Nothing of it asks the source: what it had is known from the reports of the link's lanes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, Refused
from heliostat.groups.naming import group_naming_of
from heliostat.groups.published import PublishedOffsets
from heliostat.handover.drain import Drain, Drained
from heliostat.handover.failover import FailoverReport, MirrorPartition
from heliostat.handover.fence_forecast import (
    LAST_CHANCE_S,
    WELL,
    FenceForecast,
    fence_forecast,
)
from heliostat.handover.moved_groups import MovedGroup, measured_rereads, moved_groups
from heliostat.handover.opening import Opened, is_all_open
from heliostat.handover.promotion import FencedBy, MirrorEnds, PromotedBy
from heliostat.handover.still_open import StillOpen, still_open
from heliostat.names import GroupId, LinkName, Offset, TopicName, TopicPartition
from heliostat.operate.named_places import nearest
from heliostat.operate.opening import opened, opening_of
from heliostat.operate.promotion import (
    ANSWERS_WITHIN_S,
    SourceEnds,
    ends_now,
    promotable,
    promote,
    records_of,
)
from heliostat.operate.shut_out import why_not
from heliostat.operate.wish_desk import WishDesk, wish_desk
from heliostat.state.link_state import LinkState, Stored
from heliostat.status.ends_seen import ends_seen
from heliostat.status.values import LinkStatus
from heliostat.topics.merged_links import refuse_if_merged
from heliostat.topics.values import MirrorRecord

READ_S = 0.2
TELL_EVERY_S = 2.0
SEEN_WITHIN_S = 2.0
"""How long is looked back for when a dead source was seen last; it is known less exactly then."""


def failover(
    config: Config,
    link: LinkConfig,
    topics: Sequence[str] = (),
    *,
    by: str,
    why: str = "",
    drain_s: float = 0.0,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> FailoverReport:
    """Give mirrors away as they are; done again it goes on where it ended, and tells the same.

    Parameters
    ----------
    topics
        Names at the source, * is a wildcard; none: all mirrors that the link has.
    by, why
        Who does it.
    drain_s
        How long to wait at most for what is still copied.
    dry_run
        Whether only to tell what would be done.
    tell
        Called with what is waited for.

    Raises
    ------
    Refused
        The link has no such mirror, or a mirror is gone or recreated.
    ConnectionLost, BrokerError
        The target does not answer, or refuses; call it again.
    """
    refuse_if_merged(link, "failover")
    began_s, at_ms = time.monotonic(), round(time.time() * 1000)
    with wish_desk(config, link) as desk:
        with closing(LinkState(link, desk.target)) as state:
            stored = promotable(state)
            desk.book.read()
            chosen = _chosen(stored, desk, topics)
            drained = None if dry_run or not drain_s else _drain(desk, chosen, drain_s, tell)
            status = _status(desk)
        look_s = time.monotonic() - began_s
        records = records_of(stored, chosen)
        forecast = _forecast(config, link, desk, status, records)
        if dry_run:
            ended = _tried(config, link, desk, records, status)
        else:
            ended = _give_away(config, link, desk, chosen, status, _Who(by, why), tell)
        began_s = time.monotonic()
        partitions = _partitions(records, ended.ends)
        groups = _groups(desk, link, partitions, status)
        took_s = {"look": look_s, **ended.took_s, "groups": time.monotonic() - began_s}
    return FailoverReport(
        desk.link,
        by,
        why,
        at_ms,
        dry_run,
        forecast,
        ended.fenced_by,
        drained,
        partitions,
        ended.still_open,
        groups,
        link.groups.sync,
        took_s,
        opening=ended.opening,
        is_target_open=not dry_run and is_all_open(ended.opening),
    )


def last_failover(config: Config, link: LinkConfig) -> FailoverReport | None:
    """Return what failovers of a link told, as their rows say; None: there was none.

    Groups are as they are now. What was waited for, and which fence held, is not in the rows.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with wish_desk(config, link) as desk, closing(LinkState(link, desk.target)) as state:
        desk.book.read()
        stored = state.read()
        ends = {
            name: promotion.ends
            for name, promotion in desk.book.wishes.promotions.items()
            if promotion.how is PromotedBy.FAILOVER
            and promotion.ends is not None
            and (name in stored.mirrors or name in stored.promoted)
        }
        if not ends:
            return None
        rows = [desk.book.wishes.promotions[name] for name in ends]
        status, first = _status(desk), min(rows, key=lambda row: row.at_ms)
        partitions = _partitions(records_of(stored, ends), ends)
        return FailoverReport(
            desk.link,
            first.by,
            first.why,
            first.at_ms,
            False,
            status.failover_fence,
            None,
            None,
            partitions,
            StillOpen.summed(row.still_open for row in rows),
            groups=_groups(desk, link, partitions, status),
            is_group_sync_on=link.groups.sync,
            is_source_fenced=all(row.is_source_fenced for row in rows),
            is_target_open=all(row.is_target_open for row in rows),
        )


class _Who(NamedTuple):
    by: str
    why: str


class _Ended(NamedTuple):
    """Where mirrors ended."""

    ends: Mapping[TopicName, MirrorEnds]
    fenced_by: FencedBy | None
    took_s: Mapping[str, float]
    opening: tuple[Opened, ...]
    still_open: StillOpen


def _tried(
    config: Config,
    link: LinkConfig,
    desk: WishDesk,
    records: Mapping[TopicName, MirrorRecord],
    status: LinkStatus,
) -> _Ended:
    """Return where mirrors end now; changes nothing."""
    ends = ends_now(desk, link, records, _seen(desk, records))
    opening = _open_target(config, link, desk, records, dry_run=True)
    promotions = desk.book.wishes.promotions
    begun = [promotions[name].still_open for name in records if name in promotions]
    now = _still_open(desk, status, [name for name in records if name not in promotions])
    return _Ended(ends, None, {}, opening, StillOpen.summed([*begun, *now.values()]))


def _give_away(  # noqa: PLR0917 - what, by what is known of it, and by whom
    config: Config,
    link: LinkConfig,
    desk: WishDesk,
    topics: Collection[TopicName],
    status: LinkStatus,
    who: _Who,
    tell: Callable[[str], None],
) -> _Ended:
    promoted = promote(
        config,
        link,
        topics,
        PromotedBy.FAILOVER,
        by=who.by,
        why=who.why,
        within_s=ANSWERS_WITHIN_S if status.state in WELL else LAST_CHANCE_S,
        still_open=_still_open(desk, status, topics),
        read_source_ends=lambda: _seen(desk, topics),
        tell=tell,
    )
    ends = {
        promotion.topic: promotion.ends
        for promotion in promoted.promotions
        if promotion.ends is not None
    }
    began_s = time.monotonic()
    opening = _open_target(config, link, desk, topics, dry_run=False)
    took_s = {**promoted.took_s, "opening": time.monotonic() - began_s}
    kept = StillOpen.summed(promotion.still_open for promotion in promoted.promotions)
    return _Ended(ends, promoted.fenced_by, took_s, opening, kept)


def _open_target(
    config: Config,
    link: LinkConfig,
    desk: WishDesk,
    topics: Collection[TopicName],
    *,
    dry_run: bool,
) -> tuple[Opened, ...]:
    """Let producers write, and register schemas."""
    with (
        closing(LinkState(link, desk.target)) as state,
        closing(ClusterAdmin(desk.target)) as target,
    ):
        opening = opening_of(config, link, target, state.read, topics, dry_run=dry_run)
        came_to = tuple(opened(opening))
    if not dry_run and is_all_open(came_to):
        _note_open(desk, topics)
    return came_to


def _note_open(desk: WishDesk, topics: Collection[TopicName]) -> None:
    """Note with their promotions that the target is open to producers."""
    desk.book.read()
    promotions = desk.book.wishes.promotions
    rows = [
        replace(promotions[topic], is_target_open=True)
        for topic in sorted(topics)
        if not promotions[topic].is_target_open
    ]
    if rows:
        desk.book.write(rows)


def _forecast(
    config: Config,
    link: LinkConfig,
    desk: WishDesk,
    status: LinkStatus,
    records: Mapping[TopicName, MirrorRecord],
) -> FenceForecast:
    """Return which fence will hold; brokers are asked about rules where the driver is silent."""
    if status.state != "silent":
        return status.failover_fence
    mirrors = [record.target for record in records.values()]
    why = why_not(config, link, desk.target, desk.reader.board.driver, mirrors)
    return fence_forecast(status.state, desk.reader.board.driver, can_deny=not why)


def _chosen(stored: Stored, desk: WishDesk, topics: Sequence[str]) -> set[TopicName]:
    """Return the topics that are meant; all: those that a switch has moved are left out."""
    switched = {
        name
        for name, promotion in desk.book.wishes.promotions.items()
        if promotion.how is PromotedBy.SWITCH and promotion.ends is not None
    }
    names = {*stored.mirrors, *stored.promoted}
    if not topics:
        if not names - switched:
            raise Refused("all mirrors of the link were switched to the target already")
        return names - switched
    chosen: set[TopicName] = set()
    for pattern in topics:
        matching = {name for name in names if fnmatchcase(name, pattern)}
        if not matching:
            raise Refused(f"the link has no mirror of {pattern}", hint=nearest(pattern, names))
        chosen |= matching
    return chosen


def _status(desk: WishDesk) -> LinkStatus:
    board = desk.reader.board
    return board.status(desk.reader.seen_at_ms(desk.clock))


def _drain(
    desk: WishDesk,
    topics: Collection[TopicName],
    within_s: float,
    tell: Callable[[str], None],
) -> Drained:
    """Wait while partitions of these topics are copied."""
    board = desk.reader.board
    wanted = [place for place in board.positions() if place.topic in topics]
    tell(f"up to {within_s:g} s for what is still copied of {len(wanted):,} partitions")
    drain = Drain(wanted, within_s, desk.clock.monotonic_s())
    tell_s = desk.clock.monotonic_s() + TELL_EVERY_S
    while True:  # ends: the time is over
        state = board.status(desk.reader.seen_at_ms(desk.clock)).state
        drained = drain.look(
            board.reports(), desk.clock.monotonic_s(), has_driver=state == "running"
        )
        if drained is not None:
            return drained
        if (now_s := desk.clock.monotonic_s()) >= tell_s:
            tell(drain.progress(now_s))
            tell_s = now_s + TELL_EVERY_S
        desk.reader.read(READ_S)


def _seen(desk: WishDesk, topics: Collection[TopicName]) -> SourceEnds:
    """Return where the source ended when it was last seen."""
    if not desk.is_reported:
        return {}
    until_s = time.monotonic() + SEEN_WITHIN_S
    places = [place for place in desk.reader.board.positions() if place.topic in topics]
    return ends_seen(desk.link, desk.target, places, lambda: time.monotonic() > until_s)


def _partitions(
    records: Mapping[TopicName, MirrorRecord], ends: Mapping[TopicName, MirrorEnds]
) -> tuple[MirrorPartition, ...]:
    return tuple(
        MirrorPartition(
            TopicPartition(name, number),
            records[name].mirror_of(number),
            mirror_ends.partitions[number],
        )
        for name, mirror_ends in sorted(ends.items())
        for number in sorted(mirror_ends.partitions)
    )


def _still_open(
    desk: WishDesk, status: LinkStatus, topics: Collection[TopicName]
) -> dict[TopicName, StillOpen]:
    """Return which transactions are open at the source, as it was last seen."""
    return still_open(status.held_back, desk.reader.board.held(), topics)


def _groups(
    desk: WishDesk,
    link: LinkConfig,
    partitions: Iterable[MirrorPartition],
    status: LinkStatus,
) -> tuple[MovedGroup, ...]:
    """Return groups as they are at the target."""
    if not link.groups.sync:
        return ()
    ends = {partition.target: partition.at.target_end for partition in partitions}
    with (
        closing(PublishedOffsets(desk.target, LinkName(link.name))) as published,
        closing(ClusterAdmin(desk.target)) as target,
    ):
        published.read()
        answers = target.committed_offsets(published.rows)
        committed = {
            group: {
                place: Offset(commit.offset)
                for place, commit in answer.items()
                if not isinstance(commit, BrokerError)
            }
            for group, answer in answers.items()
            if not isinstance(answer, BrokerError)
        }
        measured, are_all = measured_rereads(status.rereads)
        naming = group_naming_of(link)
        rereads = {naming.target_name(GroupId(group)): n for group, n in measured.items()}
        return moved_groups(published.rows, committed, ends, rereads, are_all=are_all)
