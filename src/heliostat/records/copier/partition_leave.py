"""How a partition leaves its lane, waits for the lane's lease, and begins again after a stop."""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.clock import Clock
from heliostat.records.copier.lane import PartitionCode
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase, Standing, Trouble
from heliostat.records.copier.refused_appends import RefusedAppends

LEASE_ENDED = (
    "the driver has not answered this lane for longer than `lanes.lease_s`: nothing is sent until "
    "it does"
)


def give_up(item: PartitionCopy) -> None:
    """Fetch and send nothing more: another lane takes the partition, or nobody does."""
    item.phase = Phase.GIVEN_UP
    item.appends.drop_queue()


def is_at_rest(item: PartitionCopy, now_s: float) -> bool:
    """Return whether nothing of a partition is under way, or may still land."""
    is_under_way = bool(item.appends.in_flight) or item.has_row_under_way
    return not is_under_way and now_s >= item.appends.may_land_until_s


def are_awaited(items: Iterable[PartitionCopy], now_s: float) -> bool:
    """Whether a round should wait before it ends: an append may still be answered, or land."""
    return any(
        not item.standing.is_unanswered and item.appends.are_awaited(now_s) for item in items
    )


def predecessors_ended(items: Iterable[PartitionCopy], now_s: float) -> None:
    """Let old records be sent; what earlier rounds sent last may still land."""
    for item in items:
        item.appends.holds_old = False
        item.appends.may_land(now_s)


def continue_from(item: PartitionCopy, before: PartitionCopy) -> None:
    """Take over what `before`, given up in this round, knew of the same partition."""
    item.fetches.epochs = before.fetches.epochs
    item.fetches.epochs.drop(before.progress.position)
    item.progress.take_place(before.progress, before.doubts.doubted_from)
    if item.spec.is_paused and before.progress.high_watermark >= 0:  # its lag stays known
        item.progress.source_ends(
            before.progress.high_watermark, before.progress.last_stable_offset
        )
        item.progress.missing_ms = before.progress.missing_ms


def lease_ended(items: Iterable[PartitionCopy], clock: Clock) -> None:
    """Show that nothing is sent now."""
    now_s, now_ms = clock.monotonic_s(), clock.wall_ms()
    for item in items:
        if item.phase not in (Phase.STOPPED, Phase.GIVEN_UP):
            code = PartitionCode.LEASE_ENDED
            item.standing.retry(Trouble.APPEND, code, LEASE_ENDED, now_s, now_ms)


def lease_renewed(items: Iterable[PartitionCopy], now_ms: int) -> None:
    """Read the target's ends again: another round may have sent meanwhile."""
    for item in items:
        if item.standing.code == PartitionCode.LEASE_ENDED:
            item.standing.recovered(now_ms, aligns=item.phase is Phase.ALIGN_START)
            item.standing.not_before_s = 0.0
        item.look_again(now_ms)


def try_again(item: PartitionCopy, now_ms: int) -> None:
    """After a stop, look whether its reason still holds: somebody may have mended it."""
    is_under_way = item.appends.in_flight or item.has_row_under_way
    if item.phase is not Phase.STOPPED or is_under_way or item.spec.is_paused:
        return
    item.phase = Phase.COPY
    item.look_again(now_ms)
    item.refusals = RefusedAppends(item.map)
    item.fetches.begin_anew()
    item.standing = Standing(now_ms, item.progress.cells)
    item.progress.is_unknown()
