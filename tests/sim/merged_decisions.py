"""What an operator decides on stopped links of merged topics, by what the sites say then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sim.log_answers import epoch_end
from sim.log_batches import fields_of, records_of
from sim.merged_sites import Sites
from sim.merged_world import Link, OwnLog

from heliostat.gaps.choices import Cause, Effect, Facts, GapChoice, effect_of, still_holds
from heliostat.merge.landed_log import UnknownPlaceError
from heliostat.merge.shared_records import PlacedRecord, SharedEnd, shared_end
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break
from heliostat.records.copier.lane import PartitionCode

PARTITION = TopicPartition(TopicName("t"), PartitionId(0))


def is_truncated(link: Link) -> bool:
    """Whether it waits for a decision after an unclean election at its source."""
    return any(why.split()[0] == PartitionCode.SOURCE_TRUNCATED for why in link.stopped.values())


class BothLogs:
    """The records of a link's source that are its own, at both sides."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._sent = link.world.offset_map(0)
        self.jump = link.jump or Break(0, 0)

    def read(self, start: Offset) -> tuple[Iterable[PlacedRecord], Iterable[PlacedRecord]]:
        """See `shared_end`."""
        return self._at_source(start), self._at_target(start)

    def _at_source(self, start: Offset) -> Iterator[PlacedRecord]:
        log = self._link.source.logs[0]
        ids = set(self._link.source.rows)
        for batch in log.batches:
            if fields_of(batch.data).producer_id in ids:
                continue
            for record in records_of(batch.data):
                offset = batch.base_offset + record.delta
                if offset >= start:
                    content = record.timestamp, record.key, record.value
                    yield PlacedRecord(offset, content, batch.leader_epoch)

    def _at_target(self, start: Offset) -> Iterator[PlacedRecord]:
        first = max(self._sent.target_of(start), self.jump.target)
        for batch in OwnLog(self._link.target.logs[0], self._link).batches:
            for record in records_of(batch.data):
                number = batch.base_offset + record.delta
                if number >= first:
                    content = record.timestamp, record.key, record.value
                    yield PlacedRecord(self._sent.source_of(number), content)


def facts_of(sites: Sites, link: Link) -> Facts | None:
    """What `gaps.facts` gathers of it; None: how much it has appended is not told now."""
    source, kept = link.source.logs[0], link.durable[0]
    try:
        number = sites.into(link.target.name)[link.source.name].landed.count
    except UnknownPlaceError:
        return None
    known = link.world.offset_map(0)
    position = known.source_of(number)
    diverged_at, shared_epoch, copied_to = None, -1, None
    if kept.copied is not None:
        copied_to, epoch = Offset(kept.copied[0]), kept.copied[1]
        now = epoch_end(source, epoch)
        if now.end < copied_to or now.epoch < epoch:
            at = now.end if now.epoch == epoch else None
            both = BothLogs(link)
            lowest = Offset(both.jump.source)
            if at is not None and at < lowest:
                end: SharedEnd | None = SharedEnd(at, -1)
            else:
                end = shared_end(both.read, lowest, at, position, is_compacted=False)
            if end is not None:
                diverged_at = end.offset
                shared_epoch = now.epoch if end.epoch < 0 else end.epoch
    return Facts(
        source=PARTITION,
        target=PARTITION,
        cause=Cause.SOURCE_TRUNCATED,
        code=PartitionCode.SOURCE_TRUNCATED,
        position=position,
        source_start=Offset(source.start),
        source_end=Offset(source.end),
        target_start=Offset(0),
        target_end=Offset(number),
        is_dense=False,
        diverged_at=diverged_at,
        shared_epoch=shared_epoch,
        copied_to=copied_to,
        is_merged=True,
    )


def decide(sites: Sites, link: Link) -> Effect | None:
    """Go on at the cut; None: it is not known, or the lane's stop is late, and it looks again.

    As in the product, what the lane knows of its source's epochs is noted before. Nobody waits for
    what is still under way to the target.
    """
    link.note()
    facts = facts_of(sites, link)
    if facts is None:
        return None
    effect = effect_of(facts, GapChoice.CONTINUE) if still_holds(facts) else None
    if effect is None or effect.jump is None:
        if not still_holds(facts):
            link.stopped.clear()
            link.kill()
        return None
    kept = link.durable[0]
    assert facts.diverged_at is not None
    is_still = effect.jump.source <= facts.diverged_at
    kept.copied = (effect.jump.source, facts.shared_epoch, -1) if is_still else None
    link.jump = effect.jump
    link.stopped.clear()
    link.kill()
    return effect
