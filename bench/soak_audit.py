"""Whether mirrors and source have the same records, as an ordinary consumer reads both.

Heliostat's code is not used to read: kafka-python's consumer, committed records only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition
from soak_load import LOADS, PARTITIONS, Load

SILENT_S_MAX = 60.0
"""Seconds without a record before a reader gives up."""
SHOWN_MAX = 5


class Seen(NamedTuple):
    """One record, as a reader sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def number(self) -> int:
        """The writer's number, counted by topic."""
        return int((self.value or b"-1").split(b" ", 1)[0])

    @property
    def site(self) -> str:
        """Where it was written, of topics that several sites write; else empty."""
        return dict(self.headers).get("site", b"").decode()


@dataclass(slots=True)
class Finding:
    """What was compared of one partition, and what is wrong."""

    topic: str
    partition: int
    source: int
    target: int
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    foreign: int = 0
    different: int = 0
    """Records with other content, time or headers; in an exact mirror also another offset."""
    examples: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.reordered or self.foreign or self.different)

    def to_json(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return asdict(self)


def audit(
    source: str, target: str, loads: Sequence[Load] = LOADS, partitions: int = PARTITIONS
) -> list[Finding]:
    """Read both sides completely and compare them."""
    found = []
    for load in loads:
        for partition in range(partitions):
            here, there = read(source, load.topic, partition), read(target, load.topic, partition)
            found.append(compare(load, partition, here, there))
    return found


def compare(load: Load, partition: int, source: list[Seen], target: list[Seen]) -> Finding:
    """Compare one partition's records.

    The source's cleaner may remove records that were copied before: those are not foreign. And the
    source may have a record twice that a writer has sent twice, as after the restart of a broker
    that forgot a producer of old records: then so must the target.
    """
    finding = Finding(load.topic, partition, len(source), len(target))
    there: dict[tuple[int, int], Seen] = {}
    here = {one: place for place, (one, _) in enumerate(_each(source))}
    before = -1
    for one, seen in _each(target):
        place = here.get(one, before)
        if one not in here and one[1]:
            finding.doubled += 1
            _show(finding, "twice at the target", seen)
        elif place < before:
            finding.reordered += 1
            _show(finding, "behind what comes later at the source", seen)
        before = max(before, place)
        there[one] = seen
    for one, seen in _each(source):
        copy = there.get(one)
        if copy is None:
            finding.lost += 1
            _show(finding, "not at the target", seen)
        elif not _is_same(seen, copy, is_exact=load.is_exact):
            finding.different += 1
            _show(finding, f"other than target offset {copy.offset}", seen)
    if not load.is_compacted:
        for one in sorted(there.keys() - here.keys()):
            if one[1] == 0:  # otherwise it is duplicated
                finding.foreign += 1
                _show(finding, "not at the source", there[one])
    return finding


def _each(records: Iterable[Seen]) -> Iterator[tuple[tuple[int, int], Seen]]:
    """Yield records, each with its number and how often that occurred before."""
    times: Counter[int] = Counter()
    for seen in records:
        yield (seen.number, times[seen.number]), seen
        times[seen.number] += 1


def read(bootstrap: str, topic: str, partition: int, start: int | None = None) -> list[Seen]:
    """Read all committed records of a partition, from an offset on or from its beginning.

    Raises
    ------
    TimeoutError
        The cluster gives none for a minute though there are more.
    """
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    try:
        one = KafkaPartition(topic, partition)
        consumer.assign([one])
        consumer.seek_to_beginning(one) if start is None else consumer.seek(one, start)
        end = consumer.end_offsets([one])[one]
        seen: list[Seen] = []
        silent_s = 0.0
        while (at := consumer.position(one)) < end:
            seen += _seen(consumer.poll(timeout_ms=500).get(one, ()))
            silent_s = 0.0 if consumer.position(one) > at else silent_s + 0.5
            if silent_s > SILENT_S_MAX:
                raise TimeoutError(f"{topic}-{partition} ends at {end}, nothing comes behind {at}")
        return seen
    finally:
        consumer.close()


def _seen(rows: Iterable[Any]) -> list[Seen]:
    return [Seen(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in rows]


def _is_same(one: Seen, other: Seen, *, is_exact: bool) -> bool:
    return one[1:] == other[1:] and (not is_exact or one.offset == other.offset)


def _show(finding: Finding, what: str, seen: Seen) -> None:
    if len(finding.examples) < SHOWN_MAX:
        finding.examples.append(f"record {seen.number} at offset {seen.offset}: {what}")
