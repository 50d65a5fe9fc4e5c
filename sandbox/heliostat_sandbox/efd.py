"""A catalogue of topics with the EFD's shape: names, skew, sizes, rates, keys and framing.

Few topics have nearly all traffic (MTM1M3 84 % of all bytes), thousands are almost silent. Batches
have one record, uncompressed; values are Avro after a header of five bytes; keys are empty for
telemetry and small JSON texts for events and commands.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice

from heliostat.errors import SandboxError
from heliostat.names import TopicName
from heliostat_sandbox import efd_names as names
from heliostat_sandbox.shapes import Record, TopicLoad

CATALOGUE_TOPICS = 3_348
"""All topics of the interface definitions, version 28: 562 + 840 + 1,883 + 63."""
FIRST_SCHEMA_ID = 5_798
TAI_MINUS_UTC_S = 37.0
POOL_BODIES = 8
"""Different bodies per topic; timestamps and counters differ in every record anyway."""
POOL_BYTES_MAX = 64 * 1024
"""Bytes of bodies per topic: thousands of topics must fit into memory."""


class EfdKind(Enum):
    """The four kinds of topics; `KIND_TOPICS` has their numbers in the whole catalogue."""

    TELEMETRY = "telemetry"
    EVENT = "event"
    COMMAND = "command"
    ACKCMD = "ackcmd"


KIND_TOPICS: Mapping[EfdKind, int] = {
    EfdKind.TELEMETRY: 562,
    EfdKind.EVENT: 1_883,
    EfdKind.COMMAND: 840,
    EfdKind.ACKCMD: 63,
}


class Profile(Enum):
    """Levels of load; the value is records per second over all topics."""

    QUIET = 300
    """By day: the telescope does not move."""
    NOMINAL = 2_200
    """As measured in 2023: 1.8 MB/s."""
    OPS = 12_000
    """The estimate for full operation: 10 MB/s."""


@dataclass(frozen=True, slots=True)
class EfdTopic:
    """One topic of the catalogue.

    Parameters
    ----------
    name
        `lsst.sal.<component>.<topic>`.
    component, kind
        Component that writes it, and kind of topic.
    partitions, configs
        Number of partitions and settings with which it is created.
    rate_hz
        Records per second in the night of a nominal day.
    value_bytes
        Size of a value with its header of five bytes.
    indices
        Number of instances of the component; 0 if it is not indexed.
    schema_id
        Schema id in the header of every value.
    """

    name: TopicName
    component: str
    kind: EfdKind
    partitions: int
    rate_hz: float
    value_bytes: int
    indices: int
    schema_id: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes_per_s(self) -> float:
        """Bytes per second that it adds to a broker's disk, with batch headers."""
        return self.rate_hz * (self.value_bytes + names.BATCH_OVERHEAD_BYTES)

    def load(self) -> TopicLoad:
        """Return the topic's load, for the load generator."""
        return TopicLoad(
            self.name, self.partitions, self.rate_hz, EfdShape(self), configs=self.configs
        )


def efd_topics(
    count: int = CATALOGUE_TOPICS,
    seed: int = 1,
    *,
    hot_partitions: int = 4,
    compact_events: bool = False,
    log_append_time: bool = False,
) -> list[EfdTopic]:
    """Make the `count` busiest topics, with kinds in the proportions of the whole catalogue.

    Parameters
    ----------
    count
        Number of topics, 1 to `CATALOGUE_TOPICS`.
    seed
        Seed of made-up names, sizes and rates; the busy topics are always the same.
    hot_partitions
        Partitions of busy telemetry (26 at the observatory); all other topics have one.
    compact_events
        Whether events are compacted, as at the observatory.
    log_append_time
        Whether topics have LogAppendTime, as at the observatory.

    Raises
    ------
    SandboxError
        `count` is out of range.
    """
    if not 1 <= count <= CATALOGUE_TOPICS:
        raise SandboxError("the catalogue does not have this number of topics", count=count)
    configs = {"message.timestamp.type": "LogAppendTime"} if log_append_time else {}
    found: list[EfdTopic] = []
    for kind, wanted in _quotas(count).items():
        chance = random.Random(f"{seed}:{kind.value}")
        for component, name, busy in islice(_candidates(kind, chance), wanted):
            size, rate_hz = _size_and_rate(kind, busy, chance)
            is_hot = kind is EfdKind.TELEMETRY and component in names.MULTI_PARTITION
            compacted = compact_events and kind is EfdKind.EVENT
            found.append(
                EfdTopic(
                    TopicName(f"lsst.sal.{component}.{name}"),
                    component,
                    kind,
                    hot_partitions if is_hot else 1,
                    rate_hz,
                    size,
                    names.INDICES_MAX if component in names.INDEXED else 0,
                    FIRST_SCHEMA_ID + len(found),
                    {**configs, **({"cleanup.policy": "compact"} if compacted else {})},
                )
            )
    return found


def efd_load(
    topics: Iterable[EfdTopic], records_per_s: float | Profile = Profile.NOMINAL
) -> list[TopicLoad]:
    """Return the load on `topics`, with rates scaled to `records_per_s` in total."""
    rows = list(topics)
    total = sum(topic.rate_hz for topic in rows)
    wanted = records_per_s.value if isinstance(records_per_s, Profile) else records_per_s
    factor = wanted / total if total else 0.0
    return [replace(topic, rate_hz=topic.rate_hz * factor).load() for topic in rows]


def _quotas(count: int) -> dict[EfdKind, int]:
    """Return the number of topics of each kind; telemetry gets what rounding leaves."""
    share = {kind: count * all_of // CATALOGUE_TOPICS for kind, all_of in KIND_TOPICS.items()}
    share[EfdKind.TELEMETRY] += count - sum(share.values())
    return share


_Candidate = tuple[str, str, names.Busy | None]


def _candidates(kind: EfdKind, chance: random.Random) -> Iterator[_Candidate]:
    """Yield topics of a kind, endlessly, the busiest first, none twice."""
    firsts: list[_Candidate]
    begins: Sequence[str]
    match kind:
        case EfdKind.ACKCMD:
            firsts = [(each, "ackcmd", None) for each in names.COMPONENTS]
            prefix, begins = "", ()
        case EfdKind.TELEMETRY:
            firsts = _busy(names.BUSY_TELEMETRY, "")
            prefix, begins = "", names.THINGS
        case EfdKind.EVENT:
            prefix, begins = "logevent_", names.THINGS
            firsts = _busy(names.BUSY_EVENTS, prefix) + [
                (component, prefix + name, names.HEARTBEAT if name == "heartbeat" else None)
                for name in names.GENERIC_EVENTS
                for component in names.COMPONENTS
            ]
        case EfdKind.COMMAND:
            prefix, begins = "command_", names.DEEDS
            firsts = [
                (component, prefix + name, None)
                for name in names.GENERIC_COMMANDS
                for component in names.COMPONENTS
            ]
    yield from firsts
    yield from _made_up(prefix, begins, {each[:2] for each in firsts}, chance)


def _made_up(
    prefix: str, begins: Sequence[str], used: set[tuple[str, str]], chance: random.Random
) -> Iterator[_Candidate]:
    ends = names.THINGS if prefix == "command_" else names.ASPECTS
    while begins:  # endless; when names run out, a number makes them different
        component = chance.choice(names.COMPONENTS)
        end = chance.choice(ends)
        name = f"{prefix}{chance.choice(begins)}{end[0].upper()}{end[1:]}"
        if (component, name) in used:
            name += str(chance.randrange(1, 1_000))
        if (component, name) not in used:
            used.add((component, name))
            yield component, name, None


def _busy(table: Mapping[str, Mapping[str, names.Busy]], prefix: str) -> list[_Candidate]:
    rows: list[_Candidate] = [
        (component, prefix + name, busy)
        for component, topics in table.items()
        for name, busy in topics.items()
    ]
    return sorted(rows, key=lambda row: -(row[2] or (0.0, 0.0))[0])


def _size_and_rate(
    kind: EfdKind, busy: names.Busy | None, chance: random.Random
) -> tuple[int, float]:
    if busy is not None:
        bytes_per_s, rate_hz = busy
        size = round(bytes_per_s / rate_hz) - names.BATCH_OVERHEAD_BYTES
        return max(size, names.SIZES[kind.value][0]), rate_hz
    size = _quantile(names.SIZES[kind.value], chance.random())
    # Nearly silent: minutes to hours between records, and large ones are rarer still.
    often_hz = 0.02 if kind is EfdKind.TELEMETRY else 0.002
    rate_hz = often_hz * math.exp(chance.gauss(0.0, 1.0)) * min(1.0, 500 / size)
    return size, rate_hz


def _quantile(sizes: Sequence[int], at: float) -> int:
    """Interpolate between the table's quantiles, geometrically."""
    marks = names.SIZE_QUANTILES
    upper = next(index for index in range(1, len(marks)) if at <= marks[index])
    part = (at - marks[upper - 1]) / (marks[upper] - marks[upper - 1])
    low, high = sizes[upper - 1], sizes[upper]
    return round(low * math.pow(high / low, part))


class EfdShape:
    """Records of one topic: Avro with a schema header and the private fields of every record.

    Parameters
    ----------
    topic
        The topic.
    """

    def __init__(self, topic: EfdTopic) -> None:
        self.topic = topic
        digest = hashlib.sha256(topic.name.encode()).hexdigest()
        self._frame = b"\x00" + struct.pack(">i", topic.schema_id)
        self._behind = _avro_string(digest[:8]) + _avro_string(topic.component)
        self._bodies: list[bytes] = []

    def record(self, chance: random.Random, number: int, now_ms: int) -> Record:
        """Return record `number` (from 0); its `private_seqNum` counts from 1."""
        topic = self.topic
        index = chance.randint(1, topic.indices) if topic.indices else 0
        sent_s = now_ms / 1000 + TAI_MINUS_UTC_S
        head = b"".join(
            (
                self._frame,
                _avro_int(index) if topic.indices else b"",
                struct.pack("<dddd", sent_s, 0.0, sent_s - TAI_MINUS_UTC_S, sent_s),
                _avro_int(number + 1),
                self._behind,
                _avro_int(4_711),
            )
        )
        body = chance.choice(self._bodies or self._make_bodies(chance))
        value = head + body[: max(0, topic.value_bytes - len(head))]
        return now_ms, self._key(index), value, ()

    def _key(self, index: int) -> bytes:
        if self.topic.kind is EfdKind.TELEMETRY:
            return b""
        key: dict[str, object] = {"name": self.topic.component}
        if index:
            key["index"] = index
        key["topic"] = self.topic.name.rpartition(".")[2]
        return json.dumps(key).encode()

    def _make_bodies(self, chance: random.Random) -> list[bytes]:
        """Make bodies of Gaussian floats; fewer for a topic with large values."""
        size = self.topic.value_bytes
        for _ in range(max(1, min(POOL_BODIES, POOL_BYTES_MAX // size))):
            floats = [chance.gauss(0.0, 100.0) for _ in range(size // 4 + 1)]
            self._bodies.append(struct.pack(f"<{len(floats)}f", *floats))
        return self._bodies


def _avro_int(number: int) -> bytes:
    """Encode as Avro does int and long: zigzag, base 128."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _avro_string(text: str) -> bytes:
    raw = text.encode()
    return _avro_int(len(raw)) + raw
