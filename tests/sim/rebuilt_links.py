"""Links whose offset map is lost, or their whole state, and rebuilt of what both logs hold."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from sim.log_batches import fields_of, records_of
from sim.merged_sites import Sites
from sim.merged_world import Durable, Link
from sim.partition_log import PartitionLog
from typing_extensions import override

from heliostat.gaps.ledger import CopyNote
from heliostat.merge.own_end import OwnNote
from heliostat.names import Offset
from heliostat.offsets.map_rows import KEPT_VALUE, KeptFrom, Stamp
from heliostat.rebuild.merged_map import MergedProof, merged_proof
from heliostat.rebuild.offset_maps import map_rows
from heliostat.rebuild.proof import MirrorStanding, NotProved
from heliostat.records.copier.network import MapWrite
from heliostat.verify.compaction import Cleaning, CleaningRule
from heliostat.verify.reader import Bounds
from heliostat.verify.stream_values import ConsumedRecord

KEPT = CleaningRule(Cleaning(), Cleaning(), 0)
LANDED_S = 35.0


class RebuiltSites(Sites):
    """Sites of which links lose rows, and go on with rebuilt ones."""

    rebuilt = 0
    refused = 0
    behind_retention = 0
    """Maps of logs whose beginning is gone, at either side."""

    def lose(self) -> None:
        """A link loses its map, or all that it knows but its ids; both are rebuilt, or neither."""
        self.lose_of(self.chance.choice(self.links))

    def lose_of(self, link: Link) -> None:
        """See `lose`."""
        if not link.world.map_rows:
            return
        link.end()
        self.clock.sleep(LANDED_S)
        for each in self.links:
            each.world.settle_late()
        loses_state = self.chance.random() < 0.5
        kept = link.durable[0]
        if loses_state:
            link.durable[0] = Durable(OwnNote(0, Offset(0), link.target.logs[0].leader_epoch))
        log, number = link.target.logs[0], link.own_end(0).number
        noted = None if kept.copied is None else CopyNote(*kept.copied)
        if number is None or (made := _made(link, number, noted)) is None:
            self.refused += 1
            link.durable[0] = kept
            return
        self.rebuilt += 1
        self.behind_retention += max(link.source.logs[0].start, log.start) > 0
        _write(link, made)
        if loses_state:
            note = OwnNote(number, Offset(log.end), log.leader_epoch)
            link.durable[0] = Durable(note, copy.deepcopy(link.books[0]), kept.copied)
            link.take_id()

    @override
    def retain(self) -> None:
        """Lose rows between two of retention's runs, mostly where it took something."""
        super().retain()
        shortened = [each for each in self.links if each.target.logs[0].start]
        self.lose_of(self.chance.choice(shortened or self.links))


def _made(link: Link, number: int, noted: CopyNote | None) -> MergedProof | None:
    rows = LogRows(link)
    numbers = Bounds(min(rows.first, number), number)
    there = Bounds(link.source.logs[0].start, link.source.logs[0].last_stable_offset)
    try:
        return merged_proof(rows, MirrorStanding(there, numbers, KEPT, noted=noted), link.first)
    except NotProved:
        return None


def _write(link: Link, made: MergedProof) -> None:
    """Write it as the product does: rows from 0 on, then from where on it is known."""
    world, key = link.world, link.world.map_rows[-1].row.key
    stamp = Stamp(*key.stamp[:2], key.stamp.attempt + 1)
    rows = map_rows(key.mirror, key.target_topic_id, made.proof.breaks or (), stamp)
    world.map_rows, world.readers, world.rows_read = [MapWrite(0, 0, row) for row in rows], {}, 0
    world.offset_map(0)
    if made.known_from:
        kept = KeptFrom(key.mirror, key.target_topic_id, made.known_from)
        assert world.readers[0].take_record(kept.encode(), KEPT_VALUE, 0) is None
        assert world.offset_map(0).known_from == made.known_from


class LogRows:
    """Both sides of a link as rows, see `rebuild.proof.Rows`."""

    def __init__(self, link: Link) -> None:
        self._log, self._rows = link.source.logs[0], link.source.rows
        self._own = link.world.target[0].batches
        self.first = self._own[0].base_offset if self._own else 10**9
        """Number of the first own record that is left."""

    def source(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """What no link has brought there."""
        log: PartitionLog = self._log
        for batch in log.visible(log.last_stable_offset):
            if fields_of(batch.data).producer_id not in self._rows:
                yield from _rows(batch.data, batch.base_offset, max(start, log.start), stop)

    def target(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Own records by their numbers."""
        for batch in self._own:
            yield from _rows(batch.data, batch.base_offset, start, stop)


def _rows(data: bytes, base: int, start: int, stop: int) -> Iterator[ConsumedRecord]:
    for each in records_of(data):
        if start <= base + each.delta < stop:
            offset, contents = base + each.delta, (each.key, each.value, list(each.headers))
            yield offset, each.timestamp, *contents
