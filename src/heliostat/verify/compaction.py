"""What compaction on either side explains, and what it does not.

A compacted log keeps the newest record of each key; a tombstone (null value) is removed once it
is older than `delete.retention.ms` (KIP-534 and `LogCleaner`). So when each side compacts at its
own pace, a record may be on one side only. Both logs are read once, in step:

*proved*   the side that lacks the record has a newer one of its key, or the other side does
           (which is then judged itself);
*allowed*  it is a tombstone old enough to be removed, or has no key, which a cleaner drops: nothing
           that is left proves or refutes it;
*finding*  everything else: the newest record of a key with a value, a tombstone removed too early,
           a record for which the offset map has no place, different contents in one place.

A record that a copier lost or doubled moves all records after it, so contents differ in place:
compaction can't hide that, as it leaves holes and moves nothing.

Memory is one small entry for each key of which a record is missing and no newer one was found yet;
if there are more than `KEYS_MAX`, the logs are read again, for a share of the keys each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, Protocol, Self
from zlib import crc32

from heliostat.clusters.admin import ConfigEntry
from heliostat.verify.align import Findings, content_field, finding, placed
from heliostat.verify.places import Places
from heliostat.verify.stream import ConsumedRecord

KEYS_MAX = 1_000_000
"""Keys in memory at once: about 250 MB."""
SHARES_GROWTH = 4
SHARES_MAX = 256
KEY_BYTES_MAX = 32
"""Longer keys are kept as a digest."""
CLOCKS_APART_MS = 3_600_000
"""How far a producer's clock may be ahead of a broker's: a tombstone may be this much older than
its timestamp says."""


CLEANING_KEYS = ("cleanup.policy", "delete.retention.ms")
DELETE_RETENTION_MS = 86_400_000
"""Kafka's default of `delete.retention.ms`."""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """How one side cleans a topic: its `cleanup.policy` and `delete.retention.ms`."""

    compacts: bool = False
    delete_retention_ms: int = 0

    @classmethod
    def of(cls, configs: Mapping[str, ConfigEntry]) -> Self:
        """Read it from a topic's settings; brokers return defaults as well."""
        policy, kept_ms = (configs.get(key) for key in CLEANING_KEYS)
        return cls(
            policy is not None and "compact" in (policy.value or ""),
            int((kept_ms and kept_ms.value) or DELETE_RETENTION_MS),
        )


@dataclass(frozen=True, slots=True)
class CleaningRule:
    """How both sides clean, and the time of the comparison (ms since the epoch)."""

    source: Cleaning
    target: Cleaning
    now_ms: int

    @property
    def matters(self) -> bool:
        """Whether either side compacts."""
        return self.source.compacts or self.target.compacts


@dataclass(slots=True)
class Compacted:
    """Numbers of records that are on one side only because of compaction, by reason."""

    compacted_source: int = 0
    """At the target only; a newer record of the key proves it."""
    compacted_target: int = 0
    """At the source only; a newer record of the key proves it."""
    expired_source: int = 0
    """At the target only: tombstones, or records without a key. Allowed, not proved."""
    expired_target: int = 0
    """At the source only: tombstones, or records without a key. Allowed, not proved."""

    def add(self, other: Compacted) -> None:
        """Add other numbers to these."""
        self.compacted_source += other.compacted_source
        self.compacted_target += other.compacted_target
        self.expired_source += other.expired_source
        self.expired_target += other.expired_target


class Logs(Protocol):
    """Both sides of one partition, which can be read repeatedly; rows in offset order."""

    def source(self) -> Iterator[ConsumedRecord]:
        """Yield the compared range."""

    def target(self) -> Iterator[ConsumedRecord]:
        """Yield its counterpart at the target."""

    def source_later(self) -> Iterator[ConsumedRecord]:
        """Yield later source records, as of now."""

    def target_later(self) -> Iterator[ConsumedRecord]:
        """Yield later target records, as of now."""

    def source_others(self) -> Collection[bytes]:
        """Keys of others' records that were passed over there since the last call."""
        return ()

    def target_others(self) -> Collection[bytes]:
        """Keys of others' records that were passed over there since the last call."""
        return ()

    def source_row(self, offset: int) -> ConsumedRecord | None:
        """One record, to be shown."""

    def target_row(self, offset: int) -> ConsumedRecord | None:
        """One record, to be shown."""


@dataclass(slots=True)
class Judged:
    """Result for one partition: explained by compaction, and findings."""

    compacted: Compacted = field(default_factory=Compacted)
    findings: Findings = field(default_factory=Findings)


class _Missing(NamedTuple):
    """Records of one key that a side lacks, with no newer one found: number, and the newest."""

    records: int
    offset: int
    timestamp_ms: int
    is_tombstone: bool


class _TooManyKeysError(Exception):
    """More keys than fit into memory."""


class _Lacks:
    """Records that one side lacks."""

    def __init__(self, cleaning: Cleaning, now_ms: int, share: tuple[int, int]) -> None:
        self._share, self._shares = share
        self.is_first = self._share == 0
        self.compacts = cleaning.compacts
        self._oldest_ms = now_ms - max(0, cleaning.delete_retention_ms - CLOCKS_APART_MS)
        self.waiting: dict[bytes, _Missing] = {}
        self.compacted = 0
        self.expired = 0
        self.found: list[int] = []
        """Offsets, on the side that has them, of records that nothing explains."""
        self.found_count = 0

    def lack(self, row: ConsumedRecord) -> None:
        """Note a record that the other side has and this one does not."""
        key = row[2]
        if not self.compacts:
            self.find(row[0])
        elif key is None:
            self.expired += self.is_first
        elif self._shares == 1 or crc32(key) % self._shares == self._share:
            name = _short(key)
            before = self.waiting.get(name)
            count = 1 if before is None else before.records + 1
            self.waiting[name] = _Missing(count, row[0], row[1], row[3] is None)
            if before is None and len(self.waiting) > KEYS_MAX:
                raise _TooManyKeysError

    def meet(self, row: ConsumedRecord) -> None:
        """Note a record that this side has: it supersedes earlier ones of its key."""
        if self.waiting and row[2] is not None:
            self._supersede(row[2])

    def meet_others(self, keys: Iterable[bytes]) -> None:
        """Note what others have written at this side."""
        for key in keys if self.waiting else ():
            self._supersede(key)

    def _supersede(self, key: bytes) -> None:
        gone = self.waiting.pop(_short(key), None)
        if gone is not None:
            self.compacted += gone.records

    def find(self, offset: int) -> None:
        """Note a record that nothing explains, whatever its key; only in the first pass."""
        if self.is_first:
            self._find(offset)

    def _find(self, offset: int) -> None:
        self.found_count += 1
        self.found.append(offset)
        if len(self.found) > 4 * SHOWN_MAX:
            self.found = sorted(self.found)[:SHOWN_MAX]

    def settle(self) -> None:
        """Judge what still waits after the last record: only tombstones may be gone."""
        for one in self.waiting.values():
            self.compacted += one.records - 1
            if one.is_tombstone and one.timestamp_ms <= self._oldest_ms:
                self.expired += 1
            else:
                self._find(one.offset)
        self.waiting.clear()


SHOWN_MAX = 20
"""Findings that are shown; all are counted."""


def judge(logs: Logs, places: Places, rule: CleaningRule, target_stop: int) -> Judged:
    """Judge every record: it is where it must be, was removed by compaction, or is a finding.

    Parameters
    ----------
    logs
        Both sides, from the same record on.
    places
        The offset map.
    rule
        How both sides clean.
    target_stop
        End of the target: what it lacks from there on was never there.
    """
    shares = 1
    while True:
        judged = Judged()
        try:
            for share in range(shares):
                lacks = (
                    _Lacks(rule.source, rule.now_ms, (share, shares)),
                    _Lacks(rule.target, rule.now_ms, (share, shares)),
                )
                _pass(judged, logs, places, target_stop, *lacks)
        except _TooManyKeysError:
            if shares >= SHARES_MAX:
                raise
            shares *= SHARES_GROWTH
            continue
        return judged


def _pass(  # noqa: PLR0917  # both sides and what is between them
    judged: Judged,
    logs: Logs,
    places: Places,
    target_stop: int,
    at_source: _Lacks,
    at_target: _Lacks,
) -> None:
    """Read both logs once and judge a share of the keys; the first pass also all else."""
    is_first = at_source.is_first
    findings = judged.findings
    for place, one, two in _in_step(logs.source(), logs.target(), places):
        findings.records += is_first and one is not None
        if one is not None:
            at_source.meet_others(logs.source_others())
            at_source.meet(one)
        if two is not None:
            at_target.meet_others(logs.target_others())
            at_target.meet(two)
        if one is None:
            assert two is not None
            at_source.lack(two)
        elif two is not None:
            if is_first:
                _compare(findings, one, two, places)
        elif place is None or place >= target_stop:
            at_target.find(one[0])
        else:
            at_target.lack(one)
    at_source.meet_others(logs.source_others())
    at_target.meet_others(logs.target_others())
    for row in logs.source_later():
        at_source.meet(row)
    for row in logs.target_later():
        at_target.meet(row)
    at_source.settle()
    at_target.settle()
    _show(findings, logs, at_source, at_target, places)
    judged.compacted.add(
        Compacted(at_source.compacted, at_target.compacted, at_source.expired, at_target.expired)
    )


def _compare(findings: Findings, one: ConsumedRecord, two: ConsumedRecord, places: Places) -> None:
    if one[1] == two[1] and one[2] == two[2] and one[3] == two[3] and one[4] == two[4]:
        findings.matched += 1
        return
    source, target = placed(one), placed(two)
    name = content_field(source[1], target[1])
    findings.add(finding("different", name, source, target, places))


def _in_step(
    source: Iterable[ConsumedRecord], target: Iterable[ConsumedRecord], places: Places
) -> Iterator[tuple[int | None, ConsumedRecord | None, ConsumedRecord | None]]:
    """Yield rows of both sides by place; a source row without a place comes alone."""
    left, right = iter(source), iter(target)
    one, two = next(left, None), next(right, None)
    while one is not None or two is not None:
        place = None if one is None else places.place_of(one[0])
        if one is not None and place is None:
            yield None, one, None
            one = next(left, None)
        elif two is None or (place is not None and place < two[0]):
            yield place, one, None
            one = next(left, None)
        elif place is None or two[0] < place:
            yield two[0], None, two
            two = next(right, None)
        else:
            yield place, one, two
            one, two = next(left, None), next(right, None)


def _show(
    findings: Findings, logs: Logs, at_source: _Lacks, at_target: _Lacks, places: Places
) -> None:
    """List the first findings; further ones are only counted."""
    for lacks, kind, look in (
        (at_target, "lost", logs.source_row),
        (at_source, "foreign", logs.target_row),
    ):
        shown = 0
        for offset in sorted(lacks.found)[:SHOWN_MAX]:
            row = look(offset)
            if row is None:
                continue  # compacted in the meantime: counted below
            some = placed(row)
            one, two = (some, None) if kind == "lost" else (None, some)
            findings.add(finding(kind, None, one, two, places))
            shown += 1
        findings.count(kind, lacks.found_count - shown)


def _short(key: bytes) -> bytes:
    return key if len(key) <= KEY_BYTES_MAX else blake2b(key, digest_size=KEY_BYTES_MAX).digest()
