"""Both clusters of a lane of merged topics: the target as the log of the link's own records.

I2  Where a partition goes on is how many records the link has appended there, see `own_ends`.
I4  After another leader was seen at the target, or a connection to it was lost, the own end is read
    before anything is sent: a broker accepts any first sequence of a producer that it forgot.

What links have brought to the source is left out of answers (`site_judge`), before others see them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from heliostat.clusters.wire.scan import END, NEWS, START
from heliostat.errors import BrokerError, ConnectionLost, ProtocolError
from heliostat.invariants import SEQUENCE_MODULUS
from heliostat.merge.own_end import OwnNote
from heliostat.names import BrokerId, Offset
from heliostat.records.copier.lane import LaneSpec, PartitionSpec
from heliostat.records.copier.merged_lane import MergedLane
from heliostat.records.copier.network import (
    Appended,
    AppendLost,
    BrokerProblem,
    Channel,
    Event,
    Fetched,
    FetchLost,
    GroupAnswer,
    LastBatch,
    Leaders,
    LogRange,
    PlainAppended,
    PlainSends,
    Send,
    Want,
)
from heliostat.records.copier.plain_sends import BASE_OFFSET, COUNT, INDEX, LANDED_AT
from heliostat.records.transport.kafka_network import WireNetwork
from heliostat.records.transport.own_ends import OwnEnds, OwnProducers
from heliostat.records.transport.own_log import OwnPlace
from heliostat.records.transport.piped_network import PipedNetwork
from heliostat.records.transport.single_batches import (
    NO_SUCH_OFFSET,
    SMALL_BATCH_BYTES,
    BatchAt,
    Batches,
    by_leader,
    each_batch,
    read_led,
)
from heliostat.records.transport.site_judge import SiteJudge
from heliostat.records.transport.watched_connections import APPEND, ConnectionKey

NOTE_EVERY_S = 60.0
NEW_LEADER = "the target's leader may be another one: what has landed is looked up first"
OFFSET = struct.Struct(">q")


class MergedNetwork(WireNetwork):
    """See `WireNetwork`.

    Parameters
    ----------
    lane, merged
        The round, and what it is told of merged topics.
    network
        See `WireNetwork`.
    """

    def __init__(self, lane: LaneSpec, merged: MergedLane, *network: Any, **more: Any) -> None:
        super().__init__(lane.partitions, *network, **more)
        own = OwnProducers(lane.producer_id, lane.former_producers)
        copied = {index: end for index, _, _, end in lane.copied}
        notes = dict(merged.notes)
        self._own = OwnEnds(self._partitions, own, notes, self._target, copied)
        self._judge = SiteJudge(lane.source_access, self._source, merged, self._monotonic_s)
        self._must_look: set[int] = set()
        self._note_at_s = self._monotonic_s() + NOTE_EVERY_S

    @override
    def close(self) -> None:
        """See `WireNetwork`."""
        self._judge.close()
        super().close()

    @override
    def change(self, gone: Sequence[int], new: Sequence[PartitionSpec]) -> None:
        """See `Network`; a round of merged topics takes none, as a change tells no notes."""
        first = len(self._partitions)
        super().change(gone, new)
        for index, spec in enumerate(new, first):
            self._own.begin(index, spec)

    @override
    def own_note(self, index: int) -> OwnNote | None:
        """See `Network`."""
        own = self._own.logs[index]
        return None if own.count is None else own.note

    @override
    def delete_target_records(self, index: int, before: Offset) -> BrokerProblem | None:
        """See `Network`; nothing deletes in a merged topic."""
        return ConnectionLost("nothing is deleted from a merged topic", index=index)

    # -- the own end ---------------------------------------------------------------------------

    @override
    def target_ranges(
        self, indexes: Iterable[int], *, confirmed: bool = False
    ) -> Mapping[int, LogRange | BrokerProblem]:
        """Return how many records the link has appended, as logs that begin at 0."""
        found = dict(super().target_ranges(list(indexes), confirmed=True))
        logs = {index: each for index, each in found.items() if isinstance(each, LogRange)}
        for broker, some in by_leader(self._leaders.target, logs).items():
            try:
                found.update(self._own.ranges(broker, some))
            except (ConnectionLost, BrokerError) as error:
                found.update(dict.fromkeys(some, error))
            except ProtocolError as error:
                found.update(dict.fromkeys(some, ConnectionLost(error.text)))
        self._must_look -= {i for i in logs if isinstance(found[i], LogRange)}
        return found

    @override
    def target_last_batches(self, ranges: Mapping[int, LogRange]) -> Mapping[int, LastBatch | None]:
        """Return us, as only our records are in this log; None where its end is not known."""
        return {
            index: None
            if self._own.logs[index].count is None
            else LastBatch(self._producer_id, (log.end - 1) % SEQUENCE_MODULUS)
            for index, log in ranges.items()
        }

    @override
    def leaders(self, indexes: Sequence[int] | None = None) -> Leaders:
        """See `WireNetwork`; notes of which partitions the own end must be read again."""
        before = self._leaders.target
        found = super().leaders(indexes)
        for index, broker in found.target.items():
            epoch = self._target.epochs.of(self._partitions[index].target)
            is_other = before.get(index, broker) != broker
            if is_other or self._own.logs[index].epoch not in {-1, epoch}:
                self._must_look.add(index)
        return found

    @override
    def _drop(self, key: ConnectionKey, reason: str) -> None:
        super()._drop(key, reason)
        side, broker, _ = key
        if side == APPEND:
            self._must_look |= {i for i, led_by in self._leaders.target.items() if led_by == broker}

    # -- appending -----------------------------------------------------------------------------

    @override
    def append(self, broker: BrokerId, channel: Channel, sends: Sequence[Send]) -> None:
        """See `Network`; what must be looked up first comes back as lost."""
        left = self._may_go(sends) if self._must_look else sends
        if left:
            super().append(broker, channel, left)

    @override
    def append_plain(self, broker: BrokerId, channel: Channel, sends: PlainSends) -> None:
        """See `Network`; what must be looked up first comes back as lost."""
        if not self._must_look:
            super().append_plain(broker, channel, sends)
        elif left := self._may_go(sends.objects(with_bytes=True)):
            super().append(broker, channel, left)

    def _may_go(self, sends: Sequence[Send]) -> Sequence[Send]:
        held = [send for send in sends if send.index in self._must_look]
        if held:
            self._lost.append(AppendLost(held, NEW_LEADER))
        return [send for send in sends if send.index not in self._must_look]

    # -- answers -------------------------------------------------------------------------------

    @override
    def wait(self, timeout_s: float, room_bytes: int) -> Iterable[Event]:
        """See `Network`."""
        self._note_quiet()
        return [self._seen(event) for event in super().wait(timeout_s, room_bytes)]

    def _seen(self, event: Event) -> Event:
        """Return an event as of the numbered log, without what links brought to the source."""
        if isinstance(event, Fetched):
            return self._own_of_site(event)
        if isinstance(event, GroupAnswer):
            return self._group_of_site(event)
        if isinstance(event, PlainAppended):
            rows = event.sends.rows
            columns = (INDEX, BASE_OFFSET, COUNT, LANDED_AT)
            for index, *landed in zip(*(rows[:, each].tolist() for each in columns), strict=True):
                self._own.logs[index].landed(*landed)
            rows[:, LANDED_AT] = rows[:, BASE_OFFSET]
        elif isinstance(event, Appended) and not event.error:
            batch, index = event.send.batch, event.send.index
            self._own.logs[index].landed(batch.base_offset, batch.records, event.base_offset)
            return event._replace(base_offset=batch.base_offset)
        return event

    def _own_of_site(self, event: Fetched) -> Event:
        if event.error or event.end <= event.start:
            return event
        data = np.frombuffer(event.buffer, np.uint8)
        why = self._judge.leave_crossed(event.buffer, data, event.start, event.end)
        return FetchLost([event.want], why) if why else event

    def _group_of_site(self, event: GroupAnswer) -> Event:
        buffer = memoryview(event.data)
        for place in event.watched[: event.news, NEWS].tolist():
            start, end = int(event.rows[place][START]), int(event.rows[place][END])
            if end > start and (why := self._judge.leave_crossed(buffer, event.data, start, end)):
                return FetchLost([Want(*row) for row in event.asked.tolist()], why)
        return event

    def _note_quiet(self) -> None:
        """Note now and then where quiet partitions end: a later look then has little to read."""
        now_s = self._monotonic_s()
        if now_s < self._note_at_s:
            return
        self._note_at_s = now_s + NOTE_EVERY_S
        busy = self._must_look.union(*(c.under_way for c in self._conns.appending.values()))
        quiet = {
            index: self._partitions[index].target
            for index, own in self._own.logs.items()
            if own.count is not None and index not in busy and index not in self._gone
        }
        for broker, some in by_leader(self._leaders.target, quiet).items():
            try:
                self._own.note_quiet(broker, some)
            except (ConnectionLost, ProtocolError):
                self._target.doubt(broker)

    # -- comparing -----------------------------------------------------------------------------

    @override
    def _at_source(self, offsets: Mapping[int, Offset], room: int = SMALL_BATCH_BYTES) -> Batches:
        found: Batches = {}
        for index, data in super()._at_source(offsets, room).items():
            copied = bytearray(data or b"")
            array = np.frombuffer(copied, np.uint8)
            if not copied:
                found[index] = data
            elif not self._judge.leave_crossed(copied, array, 0, len(copied)):
                found[index] = bytes(copied)
        return found

    @override
    def _at_target(self, offsets: Mapping[int, Offset], room: int = SMALL_BATCH_BYTES) -> Batches:
        """Read batches by the numbers of their records; each comes with that as its offset."""
        found: Batches = {}
        places: dict[int, OwnPlace] = {}
        for index, number in offsets.items():
            place = self._own.place_of(index, self._leaders.target.get(index), number)
            if place is None:
                found[index] = NO_SUCH_OFFSET
            elif isinstance(place, OwnPlace):
                places[index] = place
        of = self._partitions
        asked = {
            index: BatchAt(of[index].target, of[index].target_topic_id, place.offset)
            for index, place in places.items()
        }
        for index, data in read_led(self._target, self._leaders.target, asked, room).items():
            found[index] = _renumbered(places[index], data)
        return found


class PipedMergedNetwork(PipedNetwork, MergedNetwork):
    """A `MergedNetwork` that waits for a pipeline, too: it gets what no link brought there."""


def _renumbered(place: OwnPlace, data: bytes | None) -> bytes:
    """Return the first batch with its number as its offset; nothing if it is another one."""
    batch = bytearray(next(each_batch(data), b"") if data else b"")
    if not batch or OFFSET.unpack_from(batch)[0] != place.offset:
        return NO_SUCH_OFFSET
    OFFSET.pack_into(batch, 0, place.number)
    return bytes(batch)
