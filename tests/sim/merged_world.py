"""Sites that all write one topic, and the links between them, over model logs.

The production `Copier` runs unchanged, as in the other simulations. What it takes for the target's
log is the log of the link's own records, by their numbers; what it reads of the source has the
records of other links emptied. Both views stand where the product's connections will: what they
conclude, they conclude by `heliostat.merge`.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from sim.log_answers import epoch_end
from sim.log_batches import GZIP, TRANSACTIONAL, Fields, Kept, encode, fields_of
from sim.merged_pipes import NAME_BYTES, Piped
from sim.own_book import OwnBook
from sim.partition_log import MODULUS, NONE, PartitionLog, StoredBatch
from sim.sim_clock import SimClock
from sim.sim_network import NOT_LEADER
from sim.sim_pipeline import NoPipe, PipedSimNetwork, SimPipe, SimSteps, exchange_of
from sim.sim_world import World
from sim.test_copy_simulation import granted, lane
from typing_extensions import override

from heliostat.errors import ConnectionLost
from heliostat.merge.own_end import (
    BatchPlace,
    Evidence,
    OwnEnd,
    OwnNote,
    cut_back,
    numbered,
    own_end,
)
from heliostat.merge.places import Site
from heliostat.merge.producers import SiteProducers
from heliostat.names import LinkName, Offset, ProducerId
from heliostat.offsets.offset_map import Break
from heliostat.records.batches.crossed import leave_crossed
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.lane import LaneSpec
from heliostat.records.copier.network import (
    Appended,
    BrokerProblem,
    LastBatch,
    LogRange,
    MirrorEnd,
    Send,
    SourceSays,
)
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.records.copier.partition_report import copied_in
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.transport.piped_answers import InPlaceExchange

if TYPE_CHECKING:
    from heliostat.records.rows.in_place import InPlace

PARTITIONS = 1
PIPE = "pipe"
KEYS = 6
UNKNOWN_END = 10**9
"""Behind all that a link may have noted."""


class Broker:
    """A site: its logs, the rows of links' producer ids, and its own producers."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = Site(name)
        self.chance = chance
        self.logs = [PartitionLog() for _ in range(PARTITIONS)]
        self.rows: dict[ProducerId, LinkName] = {}
        self.next_id = 0
        self.written = 0
        """Records written by the site's own producers."""
        self._sequences = [dict[int, int]() for _ in range(PARTITIONS)]
        self.seen = [dict[int, bytes]() for _ in range(PARTITIONS)]
        """Every record that the logs ever had and did not lose by an election, by offset."""

    def new_id(self) -> int:
        """Return a producer id as a coordinator does: each once."""
        self.next_id += 1
        return self.next_id

    def write(self, now_ms: int, *, transactions: bool = True) -> None:
        """Append a batch of one of the site's own producers, or end a transaction."""
        at = self.chance.randrange(PARTITIONS)
        log, known = self.logs[at], self._sequences[at]
        if self.chance.random() < 0.2 or not known:
            known[self.new_id()] = 0
        pid = self.chance.choice([-1, *known])
        if pid in log.open and self.chance.random() < 0.5:
            assert log.end_transaction(pid, 0, now_ms, commit=self.chance.random() < 0.7) == NONE
            return
        count = self.chance.choice([1, 1, 2, 5])
        kept = [
            Kept(d, now_ms + d, b"k%d" % self.chance.randrange(KEYS), self._value(d))
            for d in range(count)
        ]
        self.written += count
        is_in = pid in log.open or (transactions and pid >= 0 and self.chance.random() < 0.2)
        attributes = self.chance.choice([0, GZIP]) | (TRANSACTIONAL if is_in else 0)
        epoch, sequence = (0, known[pid]) if pid >= 0 else (-1, -1)
        fields = Fields(attributes, count - 1, now_ms, now_ms + count - 1, pid, epoch, sequence, 0)
        code, _ = log.append(encode(fields, kept))
        if code != NONE:  # an election took what it wrote before
            known.pop(pid)
            return
        if pid >= 0:
            known[pid] = (sequence + count) % MODULUS

    def _value(self, delta: int) -> bytes:
        return b"%s%06d" % (self.name.encode(), self.written + delta)

    def end_all(self, now_ms: int) -> None:
        """Leave no transaction open."""
        for log in self.logs:
            for pid in list(log.open):
                assert log.end_transaction(pid, 0, now_ms, commit=True) == NONE

    def look(self) -> None:
        """Remember what is there, before anything is taken."""
        for log, seen in zip(self.logs, self.seen, strict=True):
            seen.update(
                (offset, (record.value or b"")[:NAME_BYTES]) for offset, record in log.committed()
            )

    def left(self) -> list[int]:
        """Offsets of records that are still there."""
        return [offset for log in self.logs for offset, _ in log.committed()]

    def elect(self, at: int) -> int:
        """An unclean election: a log loses its newest batches; return its end."""
        self.look()
        log = self.logs[at]
        log.truncate(self.chance.randrange(max(log.start, log.end - 12), log.end + 1))
        self.seen[at] = {o: v for o, v in self.seen[at].items() if o < log.end}
        self._sequences[at].clear()
        return log.end


class OthersLeftOut:
    """A source's log as a link reads it: what links brought there is empty batches."""

    def __init__(self, log: PartitionLog, link: Link) -> None:
        self.log = log
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def read(self, offset: int, bytes_max: int, **how: bool) -> bytes:
        """As a fetch is answered: up to the first batch whose producer can't be judged now."""
        data = bytearray(self.log.read(offset, bytes_max, **how))
        found = leave_crossed(data, 0, len(data), self._link.producers)
        if found.unknown and self._link.reads_rows(found.unknown):
            found = leave_crossed(data, 0, len(data), self._link.producers)
        return bytes(data[: found.end])


class OwnLog:
    """A target's log as a link sees it: its own records alone, by their numbers."""

    def __init__(self, log: PartitionLog, link: Link) -> None:
        self.log = log
        self._link = link
        self._known: tuple[int, int, list[StoredBatch]] = (-1, -1, [])
        self.landed_at = -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    @property
    def batches(self) -> list[StoredBatch]:
        """Own batches, from those that are left on."""
        changes, ids, found = self._known
        if (changes, ids) != (self.log.changes, len(self._link.ids)):
            found, near = [], 0
            for batch in self.log.batches:
                fields = fields_of(batch.data)
                if fields.producer_id in self._link.ids and batch.next_offset > self.log.start:
                    near = numbered(fields.sequence, near)
                    found.append(replace(batch, base_offset=near, next_offset=near + batch.count))
            self._known = self.log.changes, len(self._link.ids), found
        return found

    @property
    def start(self) -> int:
        return self.batches[0].base_offset if self.batches else self.end

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Append; the answer's place is that of the number which the sequence names."""
        if self.log.leader_epoch != self._link.led_by[self._link.target.logs.index(self.log)]:
            return NOT_LEADER, -1  # it went to the former leader
        code, self.landed_at = self.log.append(data)
        return code, fields_of(data).sequence if code == NONE else -1

    def read(self, offset: int, bytes_max: int, **how: bool) -> bytes:
        """As `PartitionLog.read`, by numbers."""
        view = PartitionLog()
        view.batches, view.start, view.end = self.batches, self.start, self.end
        return view.read(offset, bytes_max, **how)


@dataclass(slots=True)
class Durable:
    """What a link's topics hold beside rows of its offset map, for one partition."""

    note: OwnNote
    landed: OwnBook = field(default_factory=OwnBook)
    copied: tuple[int, int, int] | None = None


class Rounds:
    """Rounds of one lane, one after another."""

    world: World
    copier: Copier | None = None
    rounds = 0

    def begin(self) -> None:
        """Begin a round."""
        raise NotImplementedError

    def kill(self) -> None:
        """Kill the round; what is under way may land later."""
        if self.copier is not None:
            self.copier._network.cut_all()
        self.copier = None

    def end(self) -> None:
        """Kill the round, and wait for rows that are late: they would undo breaks of the next."""
        self.kill()
        while self.world.late_rows:  # see docs/reliability.md
            self.world.clock.sleep(0.05)
            self.world.settle_late()

    def turn(self) -> Copier:
        """One turn of the lane; a new round once its lease is over."""
        now_s = self.world.clock.monotonic_s()
        if self.copier is None or now_s >= self.copier.lease.until_s:
            self.begin()
        assert self.copier is not None
        self.copier.turn(now_s)
        return self.copier


class Link(Rounds):
    """One direction between two sites, whose process may be killed at any time."""

    def __init__(
        self,
        source: Broker,
        target: Broker,
        clock: SimClock,
        fault_rate: float,
        piped: Piped | None = None,
    ) -> None:
        self.piped = piped
        self.name = LinkName(f"{source.name}-{target.name}")
        self.source, self.target = source, target
        self.chance = source.chance
        self.ids: list[int] = []
        self.world = World(
            self.chance,
            clock,
            _as_logs(OthersLeftOut(log, self) for log in source.logs),
            _as_logs(OwnLog(log, self) for log in target.logs),
            fault_rate,
            identities=[0] * PARTITIONS,
        )
        self.durable = [
            Durable(OwnNote(0, Offset(log.end), log.leader_epoch, is_closed=True))
            for log in target.logs
        ]
        for kept, log in zip(self.durable, target.logs, strict=True):
            kept.landed.complete_to = Offset(log.end)
        self.books = [OwnBook() for _ in target.logs]
        self.producers = SiteProducers()
        self.stopped: dict[int, str] = {}
        self.fetches_of_rows = 0
        self.first = Offset(0)
        """Source offset at which it begins."""
        self.jump: Break | None = None
        """Where it goes on by a decision; durable, as a row of the ledger."""
        self.left_out: set[bytes] = set()
        """Records that somebody decided to leave out."""
        self.led_by = [log.leader_epoch for log in target.logs]
        """Leader epochs of the target, known before its end was read."""
        self.take_id()

    def take_id(self) -> None:
        """Take a producer id; its row is durable before anything is appended with it."""
        self.ids.append(self.target.new_id())
        self.target.rows[ProducerId(self.ids[-1])] = self.name

    def reads_rows(self, asked: frozenset[int]) -> bool:
        """Read the rows of links' producer ids to their end; False: they could not be read."""
        if self.world.happens(0.3):
            return False
        self.fetches_of_rows += 1
        self.producers.rows_read(dict(self.source.rows), asked)
        return True

    def begin(self) -> None:
        """A new process: it knows what is durable."""
        self.end()
        world = self.world
        self.producers = SiteProducers()
        self.books = [copy.deepcopy(each.landed) for each in self.durable]
        lease_s = self.chance.choice([0.3, 2.0, 10.0])
        made = lane(world, self.rounds, lease_s, [self.first] * PARTITIONS)
        copied = [(at, *each.copied) for at, each in enumerate(self.durable) if each.copied]
        self.rounds += 1
        spec = replace(
            made,
            generation=self.rounds,
            producer_id=ProducerId(self.ids[-1]),
            copied=tuple(copied),
            may_land_s=LANDS_WITHIN_S,
            partitions=tuple(
                replace(
                    each,
                    is_compacted=True,
                    can_align=False,
                    merged_from=Offset(0),
                    jump=self.jump,
                    pipeline="" if self.piped is None else PIPE,
                )
                for each in made.partitions
            ),
            pipeline=None if self.piped is None else Pipeline(PIPE, (self.piped.step,)),
        )
        pipe, exchange = self._way(spec)
        network = MergedNetwork(self, pipe, exchange)
        self.copier = granted(Copier(spec, network, world.clock, exchange))

    def _way(self, spec: LaneSpec) -> tuple[SimPipe | NoPipe, Any]:
        """The round's pipeline: on the bytes of batches, or as rows that come back later."""
        if self.piped is None:
            return NoPipe(), None
        columns = self.piped.columns
        if self.chance.random() < 0.5:
            steps = SimSteps(self.piped.made, columns, ())
            return NoPipe(), InPlaceExchange(spec.partitions, {PIPE: cast("InPlace", steps)})
        pipe = SimPipe(self.world, self.piped.made, ())
        pipe.may_end = False
        return pipe, exchange_of(self.world, spec, pipe, columns)

    @override
    def turn(self) -> Copier:
        """See `Rounds`."""
        copier = super().turn()
        for item in copier.partitions:
            if item.standing.state.is_stopped:
                self.stopped[item.index] = f"{item.standing.code} {item.standing.reason}"
        return copier

    def open_round(self, at: int, number: int) -> None:
        """Note where a partition goes on; durable before anything of it is sent."""
        book = self.books[at]
        self.durable[at].note = OwnNote(number, book.complete_to, self.led_by[at])
        self.durable[at].landed = copy.deepcopy(book)

    def note(self) -> None:
        """The driver notes what a report says."""
        if self.copier is None:
            return
        for _, *row in copied_in(self.copier.partitions):
            self.durable[0].copied = (row[0], row[1], row[2])
        for at, (kept, book) in enumerate(zip(self.durable, self.books, strict=True)):
            if self.copier.partitions[at].phase.name != "COPY":
                continue
            kept.note = OwnNote(book.count, book.complete_to, self.led_by[at])
            kept.landed = copy.deepcopy(book)

    def own_end(self, at: int) -> OwnEnd:
        """Look where a partition goes on, and learn where its own records are."""
        log, note, book = self.target.logs[at], self.durable[at].note, self.books[at]
        if self.world.forgets_ms is not None:
            log.expire_producers(self.world.clock.wall_ms(), self.world.forgets_ms)
        if self.led_by[at] != log.leader_epoch:  # what is late goes to the former leader
            self.world.late = sorted(row for row in self.world.late if row[2].index != at)
        self.led_by[at] = log.leader_epoch
        cut_to = epoch_end(log, note.epoch).end
        note = cut_back(note, cut_to, self.durable[at].landed.landed_before(cut_to))
        book.cut(cut_to)
        known = log.producers.get(self.ids[-1])
        found = own_end(
            Evidence(
                note,
                known.last_sequence if known is not None else None,
                list(places(log, max(log.start, note.complete_to))),
                log.end,
            ),
            self.ids,
        )
        start = max(log.start, book.complete_to)
        book.learn_log(places(log, start), self.ids, start, log.end)
        return found


def _as_logs(views: Iterable[Any]) -> list[PartitionLog]:
    """What stands for logs."""
    return list(views)


def places(log: PartitionLog, start: int) -> Iterator[BatchPlace]:
    """Batches of a log from an offset on, by their headers."""
    for batch in log.batches:
        if batch.next_offset > start:
            fields = fields_of(batch.data)
            yield BatchPlace(
                fields.producer_id, fields.sequence, batch.base_offset, batch.next_offset
            )


class MergedNetwork(PipedSimNetwork):
    """A network that shows a lane the link's own log in place of the target's."""

    def __init__(self, link: Link, pipe: SimPipe | NoPipe, exchange: Any) -> None:
        super().__init__(link.world, link.chance.choice([1, 5]), pipe, exchange)
        self.link = link
        self._ends: dict[int, OwnEnd] = {}

    @override
    def target_ranges(
        self, indexes: Sequence[int], *, confirmed: bool = False
    ) -> Mapping[int, LogRange | BrokerProblem]:
        self.world.clock.sleep(self.world.random.random() * 0.01)
        self.world.settle_late()
        if self.world.happens(0.2):
            return dict.fromkeys(indexes, ConnectionLost("lost"))
        self._ends |= {at: self.link.own_end(at) for at in indexes}
        numbers = {at: self._ends[at].number for at in indexes}
        for at, number in numbers.items():
            if number is not None:
                self.link.open_round(at, number)
        return {
            at: LogRange(Offset(0), Offset(UNKNOWN_END if number is None else number))
            for at, number in numbers.items()
        }

    @override
    def target_last_batches(self, ranges: Mapping[int, LogRange]) -> Mapping[int, LastBatch | None]:
        found: dict[int, LastBatch | None] = {}
        for at, target in ranges.items():
            if self.world.happens(0.2):
                continue
            is_known = self._ends[at].number is not None
            last = LastBatch(self.link.ids[-1], (target.end - 1) % MODULUS)
            found[at] = last if is_known else None
        return found

    @override
    def compare_ends(self, ends: Mapping[int, MirrorEnd]) -> Mapping[int, SourceSays]:
        """Nothing is compared with a source whose producers can't all be judged now."""
        wrote = {
            fields_of(b.data).producer_id for log in self.link.source.logs for b in log.batches
        }
        if not self.link.reads_rows(frozenset(wrote)):
            return {}
        return super().compare_ends(ends)

    @override
    def _serve(self, send: Send) -> Appended:
        answer = super()._serve(send)
        if answer.error == NONE:
            own = self.world.target[send.index]
            number = answer.base_offset
            assert isinstance(own, OwnLog)
            self.link.books[send.index].learn(number, send.batch.records, own.landed_at)
        return answer
