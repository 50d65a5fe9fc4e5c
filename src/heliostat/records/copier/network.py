"""What a copier needs of its environment: fetch from a source, append to a target, wait.

`kafka_network.WireNetwork` is the real implementation; the tests' simulation is the other one. A
partition is named by its index in the lane; a request that may be answered late carries the
partition's attempt, so that an answer to an abandoned attempt is recognised.

What is created for every record or answer is a named tuple: creating frozen dataclasses took a
seventh of a lane's processor time with 1,200 busy partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from heliostat.errors import BrokerError, ConnectionLost, OffsetMapLost
from heliostat.merge.own_end import OwnNote
from heliostat.names import BrokerId, Offset
from heliostat.offsets.offset_map import MapRow, OffsetMap
from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.converted import ConvertedBatch, Stop
from heliostat.records.copier.lane import LineUse, PartitionSpec
from heliostat.records.copier.plain_sends import INDEX, SENT_ATTEMPT, batch_of


class Traffic(IntEnum):  # its numbers are hashed for each connection on every turn
    """Kinds of traffic that must not wait for one another, each on separate connections."""

    LIVE = 0
    """Appends of all partitions but those far behind."""
    SPARSE = 1
    """Groups of partitions, each with a fetch that waits at the broker for the next record."""
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
"""Connections that are opened concurrently."""


class Want(NamedTuple):
    """Read partition `index` from `offset`."""

    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    attempt: int
    offset: int
    bytes_max: int
    last_epoch: int = -1
    """Leader epoch of the last batch read before, see `CopiedEpochs` (-1: none)."""


ASKED_INDEX, ASKED_ATTEMPT, ASKED_OFFSET, ASKED_BYTES, ASKED_EPOCH = range(5)
"""Fields of a `Want` as columns, see `GroupAnswer.asked`."""
ASKED_FIELDS = 5


class Send(NamedTuple):
    """Append `batch` to partition `index`; it names the target offset it expects (I1)."""

    index: int  # type: ignore[assignment]  # as above
    attempt: int
    batch: ConvertedBatch
    coordinator_epoch: int = -1
    """Coordinator epoch of markers, see `markers.Filling` (-1: no markers)."""


class Fetched(NamedTuple):
    """Answer to a `Want`: batches are `buffer[start:end]`; offsets are -1 beside an error."""

    want: Want
    error: int
    high_watermark: int
    buffer: bytearray | memoryview
    start: int
    end: int
    last_stable_offset: int = -1
    """First offset of an open transaction, or the high watermark if none is open."""
    aborted: Sequence[Aborted] = ()
    """Aborted transactions in it."""
    diverging_epoch: tuple[int, int] | None = None
    """Set if the source does not hold what was read before: see `heliostat.clusters.wire.fetch`."""
    opened: Codec = Codec.NONE
    """See `ConvertSettings.opened`."""


class Transformed(NamedTuple):
    """An answer whose batches went through the lane's pipeline, see `transform`."""

    fetched: Fetched
    """The answer, with batches that have the same offsets and maybe fewer or other records."""
    stop: Stop | None
    """Why nothing after them can be copied."""


class Watched(NamedTuple):
    """Answer to a group's fetch, after a `Fetched` for each partition with news."""

    broker: BrokerId
    channel: Channel


class Appended(NamedTuple):
    """Answer to a `Send`."""

    send: Send
    error: int
    base_offset: int
    message: str
    refused: int = -1
    """Number in the batch of the first record that the broker names as refused (KIP-467)."""
    is_repeated: bool = False
    """Whether the broker took the batch for a duplicate (`UnifiedLog.append`): its answer then has
    a log append time, which it otherwise never has for a mirror, as that keeps CreateTime."""


@dataclass(frozen=True, slots=True)
class FetchLost:
    """A fetch that will not be answered."""

    wants: Sequence[Want]
    reason: str


@dataclass(frozen=True, slots=True)
class AppendLost:
    """Appends that will not be answered; they may have landed or may still land (I4)."""

    sends: Sequence[Send]
    reason: str


@dataclass(frozen=True, slots=True)
class MapWrite:
    """A row of the offset map to make durable, for partition `index`."""

    index: int
    attempt: int
    row: MapRow


@dataclass(frozen=True, slots=True)
class MapWritten:
    """Rows that are durable on all in-sync replicas; batches after them may be sent (I3)."""

    writes: Sequence[MapWrite]


@dataclass(frozen=True, slots=True)
class MapLost:
    """Rows that may be durable or not: their request was not answered."""

    writes: Sequence[MapWrite]
    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Partitions whose leader on one side is silent; requests may be in flight."""

    indexes: Sequence[int]
    problem: ConnectionLost
    is_target: bool


class GroupAnswer:
    """Answer to a group's fetch, instead of a `Fetched` for each partition with news and `Watched`.

    Parameters
    ----------
    broker, channel
        The group.
    data, rows, watched, news
        The whole answer (uint8), and what `scan.scan_news` found in it.
    asked
        What was asked for, int64: a row for each partition, the fields of a `Want`. Who takes a
        partition's records moves its row on, so that `Network.fetch_again` asks for the next ones.
    fetched
        Returns the event of the partition at this place in the group.
    """

    __slots__ = ("asked", "broker", "channel", "data", "fetched", "news", "rows", "watched")

    def __init__(  # noqa: PLR0917 - all that there is
        self,
        broker: BrokerId,
        channel: Channel,
        data: Any,
        rows: Any,
        watched: Any,
        news: int,
        asked: Any,
        fetched: Callable[[int], Fetched],
    ) -> None:
        self.broker = broker
        self.channel = channel
        self.data = data
        self.rows = rows
        self.watched = watched
        self.news = news
        self.asked = asked
        self.fetched = fetched


class PlainSends(NamedTuple):
    """Batches of compiled code for one produce request, see `plain_sends`."""

    rows: Any
    data: Any
    """Their bytes, until `Network.append_plain` returns, and maybe others'."""
    filled: int
    """How much of `data` is in use."""

    def objects(self, *, with_bytes: bool = False) -> list[Send]:
        """Return them as objects."""
        data = self.data if with_bytes else None
        return [
            Send(int(row[INDEX]), int(row[SENT_ATTEMPT]), batch_of(row, data)) for row in self.rows
        ]


class PlainAppended(NamedTuple):
    """Answer to `PlainSends`: none is an error or a repetition, each row has where it landed.

    Any other answer comes as an `Appended` for each.
    """

    sends: PlainSends


OneEvent = (
    Unanswered
    | Fetched
    | Transformed
    | Watched
    | Appended
    | FetchLost
    | AppendLost
    | MapWritten
    | MapLost
)
Event = GroupAnswer | PlainAppended | OneEvent


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets `[start, end)` of a log; `end`: high watermark of a source, log end of a target."""

    start: Offset
    end: Offset


class LastBatch(NamedTuple):
    """Producer id and sequence number of the last record of a log."""

    producer_id: int
    sequence: int


BrokerProblem = BrokerError | ConnectionLost | OffsetMapLost


class MirrorEnd(NamedTuple):
    """Where a mirror ends, and which source offsets its records have."""

    target: LogRange
    known: OffsetMap
    """Offset map of the mirror, without breaks if offsets are equal."""
    doubted_from: Offset = Offset(0)
    """Source offset from which on records are doubted; earlier ones prove nothing."""
    asks_map: bool = False
    """Whether `known` is doubted, not the source: if the source does not reach that far, or no
    longer does, earlier records prove it as well."""
    hides_ids: bool = False
    """Whether records are compared without their schema ids, as the mirror has others."""
    kept: tuple[str, ...] | None = None
    """Columns that the records' pipeline, which may leave some out, changes in none; None: none."""

    @property
    def source(self) -> Offset:
        """Source offset of the next record."""
        return self.known.source_of(self.target.end)


class SourceSays(NamedTuple):
    """What the source has at the offset of a mirror's last record."""

    has_them: bool | None
    """Whether it has it or, where the mirror has only holes, none either; None: no proof."""
    epoch: int
    """Leader epoch of the source's record (-1: not known)."""
    is_last: bool = True
    """Whether only holes of that epoch stand between it and where copying goes on."""


class LeaderProblem(NamedTuple):
    """Why nobody is known to lead a partition now, and at which side."""

    problem: BrokerProblem
    is_target: bool


@dataclass(frozen=True, slots=True)
class Leaders:
    """Leaders by partition index; a partition without one has a problem instead."""

    source: dict[int, BrokerId]
    target: dict[int, BrokerId]
    problems: Mapping[int, LeaderProblem]


class Network(Protocol):
    """Both clusters, as one lane's partitions see them."""

    def leaders(self, indexes: Sequence[int] | None = None) -> Leaders:
        """Ask both clusters for the current leaders, of all partitions or of some.

        Returns all leaders as known now, and the problems of those that were asked for.
        """
        ...

    @property
    def is_outdated(self) -> bool:
        """Whether a new round should begin: so much of the offset maps was not read in this one."""
        ...

    def change(self, gone: Sequence[int], new: Sequence[PartitionSpec]) -> None:
        """Serve partitions that the lane takes, with the next indexes; ask no more of `gone`."""
        ...

    def target_ranges(
        self, indexes: Sequence[int], *, confirmed: bool = False
    ) -> Mapping[int, LogRange | BrokerProblem]:
        """Return log start offsets and log end offsets (not high watermarks) at the target.

        `confirmed` as in `source_ranges`.
        """
        ...

    def target_last_batches(self, ranges: Mapping[int, LogRange]) -> Mapping[int, LastBatch | None]:
        """Return who appended the last record of these logs; missing if that can't be read now.

        None if no record is left that shows it, and the broker does not remember our producer.
        """
        ...

    def own_note(self, index: int) -> OwnNote | None:
        """Return how many records the link has appended to a merged partition, as far as known.

        None: it is not known yet, or its topic is not merged.
        """
        ...

    def compare_ends(self, ends: Mapping[int, MirrorEnd]) -> Mapping[int, SourceSays]:
        """Compare these last records with the source's; missing: they can't be read now."""
        ...

    def source_times(self, places: Mapping[int, Offset]) -> Mapping[int, int]:
        """Return timestamps (ms) of the source's records at these offsets, or of the next ones.

        Missing: there is no record, or it can't be read now.
        """
        ...

    def offset_maps(self, indexes: Sequence[int]) -> Mapping[int, OffsetMap] | BrokerProblem:
        """Return maps with all rows that are durable now; call it after `target_ranges` (I2)."""
        ...

    def can_write_map(self) -> bool:
        """Return whether no request with map rows is in flight."""
        ...

    def write_map(self, writes: Sequence[MapWrite]) -> Sequence[MapWrite]:
        """Send rows and return those sent; `MapWritten` or `MapLost` comes as an event."""
        ...

    def source_ranges(
        self, indexes: Sequence[int], *, confirmed: bool = False
    ) -> Mapping[int, LogRange | BrokerProblem]:
        """Return log start offsets and high watermarks at the source.

        `confirmed`: all brokers are asked who leads, as a deposed leader may answer with a log that
        ends before records which were copied from its successor.
        """
        ...

    def delete_target_records(self, index: int, before: Offset) -> BrokerProblem | None:
        """Delete the target's records before an offset (DeleteRecords)."""
        ...

    def expect(self, channel_keys: Iterable[ChannelKey]) -> None:
        """Declare which connections to source brokers are needed from now on."""
        ...

    def open(self, target: Iterable[BrokerId]) -> Iterator[None]:
        """Open expected connections, and those for these target brokers.

        It yields after each: over a long line each takes seconds, and the lane must report.

        A failure shows only when the connection is used.
        """
        ...

    def can_fetch(self, broker: BrokerId, channel: Channel) -> bool:
        """Return whether a fetch may be sent to this source broker now (at most one in flight)."""
        ...

    def can_append(self, broker: BrokerId, channel: Channel) -> bool:
        """Return whether one more append may be in flight to this target broker now."""
        ...

    def is_appending(self, broker: BrokerId, channel: Channel) -> bool:
        """Return whether an append is in flight there; the broker serves a further one after it."""
        ...

    def fetch(
        self, broker: BrokerId, channel: Channel, wants: Sequence[Want], bytes_max: int = 0
    ) -> None:
        """Send one fetch; its answers come as events, a `Fetched` for each want.

        An answer has at most `bytes_max` bytes, or one batch if that is larger; 0: as usual.

        For a group (`Traffic.SPARSE`) only partitions with news get one, see `Watched`, or all come
        in a `GroupAnswer`. A want with `bytes_max` 0 gets none.
        """
        ...

    def fetch_again(self, broker: BrokerId, channel: Channel, bytes_max: int = 0) -> bool:
        """Send a group's last fetch from where `GroupAnswer.asked` has moved on to.

        False: it can't be, and `fetch` must name what is wanted.
        """
        ...

    def append(self, broker: BrokerId, channel: Channel, sends: Sequence[Send]) -> None:
        """Begin to send one produce request; answers come as events."""
        ...

    def append_plain(self, broker: BrokerId, channel: Channel, sends: PlainSends) -> None:
        """Do as `append` with batches of compiled code."""
        ...

    def held_bytes(self) -> int:
        """Return the size of all fetch answers that are referred to or being received.

        Each counts whole; what `copy_unsent` has copied is included.
        """
        ...

    @property
    def is_target_far(self) -> bool:
        """Whether the round trip to the target is so long that few requests fit into a second."""
        ...

    def lines(self) -> tuple[LineUse | None, LineUse | None]:
        """Return how the lines to source and target were used since the last call."""
        ...

    def moved(self) -> tuple[int, int]:
        """Return the bytes that were fetched, and that brokers acknowledged, since the begin."""
        ...

    def requests(self) -> list[int]:
        """Return what is counted of fetches and appends, see `RoundReport.requests`."""
        ...

    def copy_unsent(self) -> None:
        """Copy bytes not yet sent out of fetch answers, so that these are freed."""
        ...

    def has_unsent(self) -> bool:
        """Return whether a part of a request is still unsent."""
        ...

    def send_on(self) -> None:
        """Continue partial sends; `wait` ends when a broker can take more."""
        ...

    def send_no_more(self) -> None:
        """Give up appends that are not completely sent; each yields an `AppendLost`."""
        ...

    def wait(self, timeout_s: float, room_bytes: int) -> Iterable[Event]:
        """Wait for answers, at most `timeout_s`, and return the events.

        Fetch answers are not received beyond `room_bytes`.
        """
        ...
