"""Values of the conversion: its settings, its result, and reasons to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from heliostat.offsets.offset_map import Break
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.crc import Buffer

JOIN_BYTES_MAX = 1024 * 1024
"""Default size of joined batches: 5,000 small records; larger ones gain nothing measurable."""
JOIN_BELOW_BYTES = 256 * 1024
"""Default: a broker appends larger batches about as fast as joined ones (docs/adr/0005)."""
OPENED_BYTES_MAX = 16 * 1024 * 1024
"""So much of an answer is left uncompressed at most: a batch can have a thousand times its size."""


@dataclass(frozen=True, slots=True)
class ConvertSettings:
    """How the batches of one partition are built; sizes in bytes."""

    producer_id: int
    batch_bytes_max: int
    """The target topic's `max.message.bytes`."""
    join_bytes_max: int = JOIN_BYTES_MAX
    """Size of a joined batch before compression; never above `batch_bytes_max`."""
    join_below_bytes: int = JOIN_BELOW_BYTES
    """Batches smaller than this are joined; 0 joins none."""
    compression: Codec | None = None
    """Codec of joined batches; None leaves them uncompressed, as they came."""
    opened: Codec = Codec.NONE
    """What batches that come uncompressed are to be compressed with: a pipeline has opened them, to
    leave records out or to change them. They are encoded anew, joined where that is possible."""
    in_flight_max: int = 5
    """How many batches may be on their way to the target."""
    is_target_far: bool = False
    """More compressed batches than that, if they come together, are joined (docs/adr/0038)."""
    ends_at_holes: bool = False
    """No batch reaches over a hole between source offsets, because the target fills it."""

    def codec_of(self, codec: Codec) -> Codec:
        """Return what a batch is compressed with that comes with this codec, see `opened`."""
        return self.opened if codec is Codec.NONE else codec


@dataclass(slots=True)
class ConvertedBatch:
    """One batch to append at the target."""

    base_offset: int
    """Target offset of its first record."""
    records: int
    parts: tuple[Buffer, ...]
    """Its bytes in order; they may point into the buffer they came in."""
    size: int
    """Bytes of all parts."""
    max_timestamp: int
    """Largest timestamp of its records (ms), by which a broker remembers the producer."""
    source_ahead: int = 0
    """Source offset of its last record less that at the target."""
    breaks: tuple[Break, ...] = ()
    """Breaks that the offset map must hold before the batch is sent (I3)."""
    places: Sequence[tuple[int, int]] = ()
    """Records with which a run of source offsets begins: (number in the batch, source offset)."""
    fills: range = range(0)
    """Target offsets that it fills with markers instead of records, see `markers.Filling`."""
    own_bytes: int = 0
    """Memory that it alone keeps. Parts that are views of the fetched answer don't count: they keep
    the whole answer, which is counted as such (`lane_memory`)."""

    @property
    def is_view(self) -> bool:
        """Whether its bytes are a view of the fetched answer."""
        return len(self.parts) == 1 and isinstance(self.parts[0], memoryview)

    def copy_out(self) -> int:
        """Copy its bytes out of the fetched answer; return how many."""
        self.parts = (bytes(self.parts[0]),)
        self.own_bytes += self.size
        return self.size

    def let_go(self) -> None:
        """Release it once a connection has it; if it is lost there, it is fetched again."""
        self.parts = ()

    @property
    def next_offset(self) -> int:
        """First target offset after it."""
        return self.base_offset + self.records

    @property
    def next_source_offset(self) -> int:
        """First source offset after its last record."""
        return self.next_offset + self.source_ahead

    @property
    def source_offset(self) -> int:
        """Source offset of its first record."""
        return self.source_of(0)

    def source_of(self, number: int) -> int:
        """Return the source offset of its record of this number, counted from 0."""
        for first, source in reversed(self.places):
            if first <= number:
                return source + number - first
        return self.base_offset + self.source_ahead + number


class StopReason(Enum):
    """Why a partition can't be copied further; the name is the partition's code."""

    CORRUPT = "corrupt"
    """A batch of the source is corrupt, however often it is fetched."""
    TOO_LARGE = "too large"
    """A batch or record is larger than the target accepts."""
    RECORD_REFUSED = "record refused"
    """The target rejects a record: no key although the topic is compacted, or its timestamp."""
    TRANSFORM_FAILED = "transform failed"
    """The mirror's pipeline fails at a record, or gave back other rows than it may."""
    SCHEMA_UNREADABLE = "schema unreadable"
    """The schema of a record can't be read at the target, and the link waits no longer (I8)."""
    HOLE_TOO_LARGE = "hole too large"
    """A hole of the source would need more markers than are written to keep offsets equal."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why copying stops, for the operator."""

    reason: StopReason
    offset: int
    """First offset that could not be converted."""
    text: str


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that the target has refused: all before it is copied, then copying stops."""

    offset: int
    """Source offset."""
    text: str
    reason: StopReason = StopReason.RECORD_REFUSED


@dataclass(slots=True)
class ConvertOutcome:
    """Result of converting a fetch answer."""

    next_offset: int
    """Source offset at which the next fetch begins; all below is in `batches`, is a hole, or was
    below the position."""
    next_target_offset: int
    """Target offset of the next batch."""
    batches: list[ConvertedBatch] = field(default_factory=list)
    stop: Stop | None = None


class BatchPlace(NamedTuple):
    """Where converting begins, on both sides."""

    source: int
    """First source offset that is wanted."""
    target: int
    """Target offset of the next record."""
    ahead: int | None = 0
    """Source offset less target offset, by the offset map; None: the next batch has the break."""

    @classmethod
    def same(cls, offset: int) -> BatchPlace:
        """Return a place with the same offset on both sides."""
        return cls(offset, offset)
