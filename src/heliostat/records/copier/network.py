"""What a copier needs of the world: a source to fetch from, a target to append to, time to wait.

`kafka_network.WireNetwork` is the real one; the simulation in the tests is the other. A partition
is named by its index in the lane; a request that can be answered late carries the partition's
attempt, so that an answer to an abandoned attempt is recognised.

What is made for every record or answer is a named tuple: making frozen dataclasses took a seventh
of a lane's processor time with 1,200 busy partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from heliostat.errors import BrokerError, ConnectionLost, OffsetMapLost
from heliostat.names import BrokerId, Offset
from heliostat.offsets.offset_map import OffsetMap, Row
from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.converted import ConvertedBatch


class Traffic(IntEnum):  # its numbers are hashed for each connection on every turn
    """Kinds of traffic that must not wait for each other, each on connections of its own."""

    LIVE = 0
    """Small fetches that wait at the broker for the next record: an answer within milliseconds."""
    SPARSE = 1
    """Small groups of partitions in which little happens, each with a fetch that waits."""
    BACKLOG = 2
    """Partitions far behind: large fetches and appends."""


class Channel(NamedTuple):
    """One connection to each broker of a side; `slot` counts those of one kind of traffic."""

    traffic: Traffic
    slot: int


LIVE = Channel(Traffic.LIVE, 0)
ChannelKey = tuple[BrokerId, Channel]
"""One connection: requests in it are served in order."""
DIALS_AT_ONCE = 16
"""Connections that are opened side by side."""


class Want(NamedTuple):
    """Read partition `index` from `offset`."""

    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    attempt: int
    offset: int
    bytes_max: int
    last_epoch: int = -1
    """Leader epoch of what was read before, see `CopiedEpochs`."""


class Send(NamedTuple):
    """Append `batch` to partition `index`; it names the target offset it expects (I1)."""

    index: int  # type: ignore[assignment]  # as above
    attempt: int
    batch: ConvertedBatch
    coordinator_epoch: int = -1
    """Of markers, see `filling`."""


class Fetched(NamedTuple):
    """Answer to a `Want`: batches are `buffer[start:end]`; offsets are -1 beside an error."""

    want: Want
    error: int
    high_watermark: int
    buffer: bytearray | memoryview
    start: int
    end: int
    last_stable_offset: int = -1
    """End of what is decided: behind it transactions are open (the last stable offset)."""
    aborted: Sequence[Aborted] = ()
    """Transactions in it that were aborted."""
    diverging_epoch: tuple[int, int] | None = None
    """The source does not hold what was read before: see `heliostat.clusters.wire.fetch`."""


class Watched(NamedTuple):
    """A group's fetch was answered; only partitions with news came as `Fetched` before."""

    broker: BrokerId
    channel: Channel
    """Size of the answer."""


class Appended(NamedTuple):
    """Answer to a `Send`."""

    send: Send
    error: int
    base_offset: int
    message: str
    refused: int = -1
    """Number in its batch of the first record that the broker names as refused (KIP-467)."""
    is_repeated: bool = False
    """The broker has taken it for one that it had (`UnifiedLog.append`): then its answer bears the
    append's time, which one for a mirror, whose times are the source's, does not bear else."""


@dataclass(frozen=True, slots=True)
class FetchLost:
    """The fetch will not be answered."""

    wants: Sequence[Want]
    reason: str


@dataclass(frozen=True, slots=True)
class AppendLost:
    """The appends will not be answered; they may have happened or may still happen (I4)."""

    sends: Sequence[Send]
    reason: str


@dataclass(frozen=True, slots=True)
class MapWrite:
    """Make a row of the offset map durable, for partition `index`."""

    index: int
    attempt: int
    row: Row


@dataclass(frozen=True, slots=True)
class MapWritten:
    """Rows are durable on all replicas in sync; batches behind them may be sent (I3)."""

    writes: Sequence[MapWrite]


@dataclass(frozen=True, slots=True)
class MapLost:
    """Rows may be durable or may not."""

    writes: Sequence[MapWrite]
    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The broker that leads these partitions on one side is silent; requests may be under way."""

    indexes: Sequence[int]
    problem: ConnectionLost
    is_target: bool


Event = Unanswered | Fetched | Watched | Appended | FetchLost | AppendLost | MapWritten | MapLost


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets `[start, end)` a log holds; at the target `end` includes the uncommitted tail."""

    start: Offset
    end: Offset


class LastBatch(NamedTuple):
    """Who appended the last record of a log, and in which place of the producer's sequence."""

    producer_id: int
    sequence: int


Problem = BrokerError | ConnectionLost | OffsetMapLost


class MirrorEnd(NamedTuple):
    """Where a mirror ends, and which source offsets its records have."""

    target: LogRange
    known: OffsetMap
    """The identity where offsets are equal."""
    doubted_from: Offset = Offset(0)
    """Source offset; what the mirror has of before tells nothing."""
    asks_map: bool = False
    """What is doubted is `known`, not the source: where that does not reach so far, or no more,
    records before tell it as well."""

    @property
    def source(self) -> Offset:
        """Source offset of the record that would come next."""
        return self.known.source_of(self.target.end)


class SourceSays(NamedTuple):
    """What the source holds where a mirror's last record came from."""

    has_them: bool | None
    """That very record; where the mirror has only holes, that the source has no record there.
    None: an older one or none is there, so that nothing tells it."""
    epoch: int
    """Of the leader that took it (-1: not known)."""


@dataclass(frozen=True, slots=True)
class Leaders:
    """Leading brokers by partition index; a partition without one is missing, with its problem."""

    source: Mapping[int, BrokerId]
    target: Mapping[int, BrokerId]
    problems: Mapping[int, Problem]


class Network(Protocol):
    """Both clusters, as one lane's partitions see them."""

    def leaders(self) -> Leaders:
        """Ask both clusters anew who leads what."""
        ...

    def target_ranges(self, indexes: Sequence[int]) -> Mapping[int, LogRange | Problem]:
        """Log starts and real log ends at the target."""
        ...

    def target_last_batches(self, ranges: Mapping[int, LogRange]) -> Mapping[int, LastBatch | None]:
        """Who appended the last record of these logs; missing where that can't be told now.

        None where no record is left to tell it by, and the broker does not remember us.
        """
        ...

    def compare_ends(self, ends: Mapping[int, MirrorEnd]) -> Mapping[int, SourceSays]:
        """Whether the source has the record that these end with; missing: can't be told now."""
        ...

    def source_times(self, places: Mapping[int, Offset]) -> Mapping[int, int]:
        """Times (ms) of the source's records at these offsets, or of the next ones.

        Missing: there is none, or it can't be read now.
        """
        ...

    def offset_maps(self, indexes: Sequence[int]) -> Mapping[int, OffsetMap] | Problem:
        """Maps with all rows that are durable now; to be asked for after the log ends (I2)."""
        ...

    def can_write_map(self) -> bool:
        """No rows are under way."""
        ...

    def write_map(self, writes: Sequence[MapWrite]) -> Sequence[MapWrite]:
        """Send rows and answer which; `MapWritten` or `MapLost` comes as an event."""
        ...

    def source_ranges(self, indexes: Sequence[int]) -> Mapping[int, LogRange | Problem]:
        """Log starts and high watermarks at the source."""
        ...

    def delete_target_records(self, index: int, before: Offset) -> Problem | None:
        """Lift the target's log start."""
        ...

    def expect(self, channel_keys: Iterable[ChannelKey]) -> None:
        """Say which connections to source brokers are needed from now on."""
        ...

    def open(self, target: Iterable[BrokerId]) -> None:
        """Open what is expected, and what these target brokers, ends and offset maps need.

        Where that fails, their use will show it.
        """
        ...

    def can_fetch(self, broker: BrokerId, channel: Channel) -> bool:
        """Whether a fetch may be sent to this source broker now (one is in flight at most)."""
        ...

    def can_append(self, broker: BrokerId, channel: Channel) -> bool:
        """Whether a further append may be in flight to this target broker now."""
        ...

    def is_appending(self, broker: BrokerId, channel: Channel) -> bool:
        """Whether an append is in flight there, before which a further one is not served."""
        ...

    def fetch(self, broker: BrokerId, channel: Channel, wants: Sequence[Want]) -> None:
        """Send one fetch; its answers come as events, a `Fetched` for each want.

        Of a group (`Traffic.SPARSE`) only news comes, see `Watched`. A want with `bytes_max` 0
        brings none.
        """
        ...

    def append(self, broker: BrokerId, channel: Channel, sends: Sequence[Send]) -> None:
        """Begin to send one produce request; its answers come as events."""
        ...

    def held_bytes(self) -> int:
        """Of answers to fetches that anybody refers to, whole, and of those that are coming in.

        Also of what `copy_unsent` has copied.
        """
        ...

    def copy_unsent(self) -> None:
        """Keep no answer for what brokers have not taken yet, but its own bytes."""
        ...

    def send_on(self) -> None:
        """Go on to send what brokers have not taken yet; `wait` ends when one takes more."""
        ...

    def send_no_more(self) -> None:
        """Give up appends that brokers have not taken as a whole; `AppendLost` comes."""
        ...

    def wait(self, timeout_s: float, room_bytes: int) -> Iterable[Event]:
        """Wait for answers, at most so long, and give what has come.

        Answers to fetches are left where they are once those that are taken in fill the room.
        """
        ...
