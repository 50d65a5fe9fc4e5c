"""How many records a link has appended to each merged partition of a lane, asked of the leaders.

I2  The position of a merged partition; `heliostat.merge.own_end` says what counts as evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from heliostat.clusters.kafka_codes import DEBUGGING_CONSUMER
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.epoch_ends import epoch_ends
from heliostat.errors import BrokerError, ConnectionLost, ProtocolError
from heliostat.merge.own_end import Evidence, OwnNote, numbered, own_end, own_end_after_cut
from heliostat.names import BrokerId, Offset, TopicPartition
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import BrokerProblem, LogRange
from heliostat.records.transport.own_log import LogStretch, OwnLog, OwnPlace
from heliostat.records.transport.single_batches import NO_SUCH_OFFSET, BatchAt, read_batches

STRETCH_BYTES = 1024 * 1024
LOOK_BYTES = 16 * 1024 * 1024
"""Most bytes of the target's log read at a time: a lane does nothing else meanwhile."""


class OwnProducers(NamedTuple):
    """Producer ids of a link."""

    present: int
    """The one that leaders are asked for: it has appended last."""
    former: frozenset[int]


class OwnEnds:
    """The own ends of partitions, as one round or one command asks for them.

    Parameters
    ----------
    partitions
        The partitions, which may grow.
    own
        Who has appended.
    notes
        What is noted, by index of the partition.
    target
        Target cluster.
    copied_ends
        How many records some of them had, by index, as far as was copied.
    """

    def __init__(
        self,
        partitions: Sequence[PartitionSpec],
        own: OwnProducers,
        notes: Mapping[int, OwnNote],
        target: WireCluster,
        copied_ends: Mapping[int, int] | None = None,
    ) -> None:
        self._partitions = partitions
        self._target = target
        self._producer_id = own.present
        self._ids = frozenset({own.present, *own.former})
        self._copied_ends = copied_ends or {}
        self.logs: dict[int, OwnLog] = {}
        """By index of the partition."""
        for index, spec in enumerate(partitions):
            self.begin(index, spec, notes.get(index))

    def begin(self, index: int, spec: PartitionSpec, note: OwnNote | None = None) -> None:
        """Take a partition, with what is noted of it."""
        self.logs[index] = OwnLog(note or OwnNote(0, spec.merged_from or Offset(0)))

    def ranges(
        self, broker: BrokerId, logs: Mapping[int, LogRange]
    ) -> Iterator[tuple[int, LogRange | BrokerProblem]]:
        """Yield the link's own records as logs that begin at 0.

        Parameters
        ----------
        broker, logs
            The leader of these partitions, and their logs' ranges, asked for a moment ago.

        Raises
        ------
        ConnectionLost, BrokerError, ProtocolError
            The leader does not answer.
        """
        targets = {index: self._partitions[index].target for index in logs}
        epochs = {index: self._target.epochs.of(each) for index, each in targets.items()}
        asked = {
            targets[index]: self.logs[index].note.epoch
            for index in logs
            if 0 <= self.logs[index].note.epoch != epochs[index]
        }
        cuts = epoch_ends(self._target, broker, asked)
        remembered = self._target.last_sequences(broker, list(targets.values()))
        for index, log in logs.items():
            target = targets[index]
            if target not in remembered or (target in asked and target not in cuts):
                text = "the target's leader does not tell which producers it remembers"
                yield index, ConnectionLost(text)
                continue
            own = self.logs[index]
            cut_at = cuts.get(target, log.end)
            if (sequence := remembered[target].get(self._producer_id)) is not None:
                number = numbered(sequence, own.note.number) + 1
                # Memory that was rebuilt from a cleaned log may be of an earlier batch.
                if number >= own.note.number or cut_at < own.note.complete_to:
                    own.stands_at(number, epochs[index])
                    yield index, LogRange(Offset(0), Offset(number))
                    continue
            yield index, self._by_log(index, broker, log, cut_at=cut_at, epoch=epochs[index])

    def _by_log(
        self, index: int, broker: BrokerId, log: LogRange, *, cut_at: int, epoch: int
    ) -> LogRange | BrokerProblem:
        """Return what the target's log shows: the leader has forgotten our producer."""
        own = self.logs[index]
        is_cut = cut_at < own.note.complete_to
        if own.note.is_closed and not is_cut:
            own.stands_at(own.note.number, epoch)
            return LogRange(Offset(0), Offset(own.note.number))
        begin = log.start if is_cut else max(log.start, own.note.complete_to)
        if (problem := self._read(index, broker, begin, log, epoch)) is not None:
            return problem
        assert own.stretch is not None
        known = Evidence(own.note, None, own.stretch.batches, log.end)
        if is_cut:
            said = own_end_after_cut(known, log.start, cut_at, self._ids)
        else:
            said = own_end(known, self._ids)
        own.stands_at(said.number, epoch)
        if said.number is None:
            past = max(own.note.number, self._copied_ends.get(index, 0))
            return LogRange(Offset(0), Offset(past + 1))  # nobody is known to have written that
        return LogRange(Offset(0), Offset(said.number))

    def _read(
        self, index: int, broker: BrokerId, begin: Offset, log: LogRange, epoch: int
    ) -> ConnectionLost | None:
        """Read the target's log from `begin` to its end; return why that is not done yet."""
        own, spec = self.logs[index], self._partitions[index]
        stretch = own.stretch
        if stretch is None or stretch.epoch != epoch or stretch.begin != begin:
            stretch = own.stretch = LogStretch(begin, epoch)
        read = 0
        while stretch.next < log.end:
            if read > LOOK_BYTES:
                return ConnectionLost(f"the target's log is read from {stretch.next} to {log.end}")
            at = BatchAt(spec.target, spec.target_topic_id, stretch.next)
            data = read_batches(self._target, broker, {index: at}, STRETCH_BYTES).get(index, b"")
            before = stretch.next
            if data is None:  # a cleaner has removed what was there
                stretch.next = log.end
            elif data != NO_SUCH_OFFSET:
                stretch.take(data, self._ids)
                read += len(data)
            if stretch.next == before:
                own.stretch = None
                return ConnectionLost(f"the target's log can't be read from {before} on yet")
        own.learn(self._ids)
        return None

    # -- quiet partitions ----------------------------------------------------------------------

    def note_quiet(self, broker: BrokerId, some: Mapping[int, TopicPartition]) -> None:
        """Note where the target's log ends of partitions of which nothing is under way.

        Raises
        ------
        ConnectionLost, ProtocolError
            The leader does not answer.
        """
        targets = list(some.values())
        before = self._target.last_sequences(broker, targets)
        answer = self._target.ranges_of({broker: targets}, replica_id=DEBUGGING_CONSUMER)[broker]
        after = self._target.last_sequences(broker, targets)
        if isinstance(answer, ConnectionLost):
            return
        for index, target in some.items():
            own, end = self.logs[index], answer[1].get(target)
            now = after.get(target, {}).get(self._producer_id)
            was = before.get(target, {}).get(self._producer_id)
            if target not in after or now != was or isinstance(end, BrokerError) or end is None:
                continue
            is_ours = now is None or own.count == numbered(now, own.note.number) + 1
            epoch = self._target.epochs.of(target)
            if is_ours and epoch == own.epoch:
                own.stands_alone(end, epoch)

    # -- places --------------------------------------------------------------------------------

    def place_of(
        self, index: int, broker: BrokerId | None, number: int
    ) -> OwnPlace | ConnectionLost | None:
        """Return where a record is; None: nothing shows that any more."""
        own = self.logs[index]
        place = own.place_of(number)
        if place is not None or number < own.note.number:
            return place
        if broker is None:
            return ConnectionLost("no leader known", index=index)
        target = self._partitions[index].target
        try:
            starts, ends = self._target.list_ranges(broker, [target], replica_id=DEBUGGING_CONSUMER)
            start, end = starts.get(target), ends.get(target)
            if not isinstance(start, int) or not isinstance(end, int):
                return ConnectionLost("its log's range can't be read", index=index)
            begin = max(Offset(start), own.note.complete_to)
            log = LogRange(Offset(start), Offset(end))
            problem = self._read(index, broker, begin, log, own.epoch)
        except (ConnectionLost, ProtocolError) as error:
            return ConnectionLost(error.text)
        return problem or own.place_of(number)
