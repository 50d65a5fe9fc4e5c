"""Records that can't be copied: tried again for a while, then what the link's rules say.

I6  A record that an error policy passes is a row of the gap ledger like any other; what the rules
    say is only who decides, and what is kept of it.

A record whose schema is missing does not stop its partition by itself: it waits, and may go on at
any moment. Once the link waits no longer, the driver gives it up, by `PartitionSpec.fails_at`: the
lane copies up to it and stops there, and the rest is as for other records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from heliostat.access import ClusterAccess
from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.plain_records import PlainRecord
from heliostat.config import ErrorRule, ErrorsConfig
from heliostat.framed_ids import Headers, shown_id
from heliostat.gaps.choices import CAUSE_OF_CODE, Cause, Facts, GapChoice
from heliostat.gaps.dead_letters import REASON_CHARACTERS_MAX, DeadLetter, DeadLetters
from heliostat.gaps.originals import Failing, Original, first_missing, look
from heliostat.names import Offset, TopicName, TopicPartition, id_text
from heliostat.records.batches.converted import StopReason
from heliostat.records.copier.lane import (
    PartitionCode,
    PartitionReport,
    PartitionSpec,
    PartitionState,
    RoundReport,
)
from heliostat.topics.values import MirrorRecord

RETRY_FIRST_S = 1.0
RETRY_MAX_S = 60.0
"""Pauses between two tries double up to this."""
_CHOICES = {"skip": GapChoice.CONTINUE, "dead_letter": GapChoice.DEAD_LETTER}


class MissingSchemas(Protocol):
    """Knows which schemas can be read at the target."""

    def missing_id(
        self, topic: TopicName, key: bytes | None, value: bytes | None, headers: Headers
    ) -> int | None:
        """Return a schema id of a source record that can't be; None: all can, as far as known."""
        ...

    def is_readable(self, schema_id: int) -> bool:
        """Return whether an id of the source can be read there."""
        ...


@dataclass(slots=True)
class _Tried:
    """A stop at one position, and when it is tried again (monotonic seconds)."""

    cause: Cause
    position: int
    since_s: float
    next_s: float
    pause_s: float = RETRY_FIRST_S


class _GivenUp(NamedTuple):
    """A record whose schema is waited for no longer."""

    offset: Offset
    schema_id: int


class RecordErrors:
    """What the rules of one link say; used by the driver's reconciliation only, but `is_news`.

    Parameters
    ----------
    config
        The rules; the link's keeper of gaps replaces them.
    source
        The cluster that is copied from.
    target, letters
        The cluster that is copied to, and the dead letters there.
    clock
        A clock.
    schemas
        Knows which are missing; None: the link mirrors none.
    on_retry
        Forgets why a partition stopped, so that it is tried again.
    """

    def __init__(
        self,
        config: ErrorsConfig,
        source: ClusterAccess,
        target: ClusterAdmin,
        letters: DeadLetters,
        *,
        clock: Clock,
        schemas: MissingSchemas | None = None,
        on_retry: Callable[[TopicPartition], None] = lambda _: None,
    ) -> None:
        self.config = config
        self._source = source
        self._target = target
        self._letters = letters
        self._clock = clock
        self._schemas = schemas
        self._on_retry = on_retry
        self._tried: dict[TopicPartition, _Tried] = {}
        self._attempts: dict[TopicPartition, int] = {}
        self._missing_since: dict[int, float] = {}
        """When each schema id was first missed (monotonic seconds)."""
        self._waiting: dict[TopicPartition, tuple[int, _GivenUp | None]] = {}
        """First record that misses a schema, by position of a partition that waits."""
        self._given_up: dict[TopicPartition, _GivenUp] = {}
        self._seen: dict[TopicPartition, tuple[str, int]] = {}

    def rule_of(self, cause: Cause) -> ErrorRule | None:
        """Return the rule for a cause; None: no record is at fault."""
        match cause:
            case Cause.RECORD_FAILED:
                return self.config.transform
            case Cause.SCHEMA_MISSING:
                return self.config.schema_missing
            case Cause.RECORD_TOO_LARGE:
                return self.config.too_large
            case Cause.RECORD_REFUSED:
                return self.config.refused
            case Cause.RECORD_CORRUPT:
                return self.config.corrupt
            case _:
                return None

    def is_news(self, report: RoundReport) -> bool:
        """Return whether something has stopped that a rule may pass; from any thread."""
        news = False
        for item in report.partitions:
            cause = CAUSE_OF_CODE.get(item.code)
            if cause is None or (rule := self.rule_of(cause)) is None:
                self._seen.pop(item.source, None)
            elif rule.policy != "stop" or rule.retry_for_s:
                seen = item.state.value + item.code, item.position
                news |= self._seen.get(item.source) != seen
                self._seen[item.source] = seen
        return news

    # -- decisions -----------------------------------------------------------------------------

    def chosen(self, source: TopicPartition, code: str, position: int) -> GapChoice | None:
        """Return what the rules say about a stopped partition; None: it waits.

        While it is to be tried again, this is what has it tried when it is time.
        """
        cause = CAUSE_OF_CODE[code]
        rule = self.rule_of(cause)
        if rule is None:
            return None
        if cause is not Cause.SCHEMA_MISSING and self._is_retried(source, cause, position, rule):
            return None
        return _CHOICES.get(rule.policy)

    def _is_retried(
        self, source: TopicPartition, cause: Cause, position: int, rule: ErrorRule
    ) -> bool:
        now_s = self._clock.monotonic_s()
        tried = self._tried.get(source)
        if tried is None or (tried.cause, tried.position) != (cause, position):
            tried = _Tried(cause, position, now_s, now_s + RETRY_FIRST_S)
            self._tried[source] = tried
        if now_s - tried.since_s >= rule.retry_for_s:
            return False
        if now_s >= tried.next_s:
            tried.pause_s = min(RETRY_MAX_S, 2 * tried.pause_s)
            tried.next_s = now_s + tried.pause_s
            self.take_anew(source)
            self._on_retry(source)
        return True

    def take_anew(self, source: TopicPartition) -> None:
        """Have a lane take a partition anew, by the number of its attempt."""
        self._attempts[source] = self._attempts.get(source, 0) + 1

    def try_again(self, source: TopicPartition) -> None:
        """Have a stopped partition tried again, as a person orders it, whatever was found of it."""
        self.passed(source)
        self.take_anew(source)

    def failing(self, facts: Facts) -> Failing | None:
        """Return what can't be copied from a stopped partition's position on; None: nothing now.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer or refuses.
        """
        source = facts.source
        found = look(
            self._source,
            source,
            facts.position,
            facts.cause,
            lambda record: self._is_given_up(source.topic, record),
        )
        if found is None:
            self.passed(source)
        return found

    def keep(
        self,
        failing: Failing,
        facts: Facts,
        record: MirrorRecord,
        reason: str,
        decided_by: str,
    ) -> None:
        """Write the records that can't be copied to the dead letters; durable when it returns.

        Raises
        ------
        ConnectionLost, BrokerError
            They can't be kept now, so nothing may be passed.
        """
        now_ms = self._clock.wall_ms()
        letters = [
            _letter(original, facts, record, reason, decided_by, now_ms)
            for original in failing.originals
        ]
        self._letters.put(letters, self._target)

    def passed(self, source: TopicPartition) -> None:
        """Forget a partition's stop: its record is passed, or can be copied by now."""
        self._tried.pop(source, None)
        self._given_up.pop(source, None)
        self._waiting.pop(source, None)
        self._on_retry(source)

    # -- schemas that are missing --------------------------------------------------------------

    def waiting(self, reports: Iterable[PartitionReport]) -> list[PartitionReport]:
        """Return those of partitions that wait for a schema, if a rule says how long."""
        schemas = self._schemas
        if schemas is None or self.config.schema_missing.policy == "stop":
            return []
        for each in [one for one in self._missing_since if schemas.is_readable(one)]:
            del self._missing_since[each]
        found = [
            report
            for report in reports
            if report.code == PartitionCode.SCHEMA_UNREADABLE
            and report.state is PartitionState.RETRYING
            and report.position >= 0
        ]
        here = {report.source for report in found}
        self._waiting = {at: each for at, each in self._waiting.items() if at in here}
        return found

    def give_up(self, report: PartitionReport) -> None:
        """Give up the record that a partition waits for, if it has waited long enough.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer or refuses.
        """
        source = report.source
        position, found = self._waiting.get(source, (-1, None))
        if position != report.position or found is None:
            found = self._first_missing(source, Offset(report.position))
            self._waiting[source] = report.position, found
        if found is not None and self._is_due(found.schema_id):
            self._given_up[source] = found

    def _first_missing(self, source: TopicPartition, position: Offset) -> _GivenUp | None:
        topic = source.topic
        found = first_missing(
            self._source, source, position, lambda each: self._missing_id(topic, each) is not None
        )
        missing = None if found is None else self._missing_id(topic, found)
        return None if found is None or missing is None else _GivenUp(Offset(found.offset), missing)

    def _missing_id(self, topic: TopicName, record: PlainRecord) -> int | None:
        """Return a schema id of a record that is missing, None: there is none."""
        assert self._schemas is not None
        return self._schemas.missing_id(topic, record.key, record.value, record.headers)

    def _is_due(self, schema_id: int) -> bool:
        now_s = self._clock.monotonic_s()
        since_s = self._missing_since.setdefault(schema_id, now_s)
        return now_s - since_s >= self.config.schema_missing.retry_for_s

    def _is_given_up(self, topic: TopicName, record: PlainRecord) -> bool:
        if self._schemas is None:
            return False
        schema_id = self._missing_id(topic, record)
        return schema_id is not None and self._is_due(schema_id)

    # -- for lanes -----------------------------------------------------------------------------

    def marked(
        self, specs: Mapping[TopicPartition, PartitionSpec]
    ) -> dict[TopicPartition, PartitionSpec]:
        """Return the specifications with what is tried again, and what is given up."""
        found = dict(specs)
        for source, attempt in self._attempts.items():
            if source in found:
                found[source] = replace(found[source], attempt=attempt)
        for source, (offset, schema_id) in self._given_up.items():
            if source in found:
                found[source] = replace(
                    found[source],
                    fails_at=offset,
                    fail_code=StopReason.SCHEMA_UNREADABLE.name,
                    why_fails=f"source offset {offset}: schema id {shown_id(schema_id)} could not "
                    f"be read at the target for {self.config.schema_missing.retry_for_s:g} s",
                )
        return found


def _letter(  # noqa: PLR0917 - all that a letter says
    original: Original,
    facts: Facts,
    record: MirrorRecord,
    reason: str,
    decided_by: str,
    at_ms: int,
) -> DeadLetter:
    return DeadLetter(
        source=facts.source,
        offset=Offset(original.record.offset),
        last=original.last,
        is_batch=original.is_batch,
        timestamp_ms=original.record.timestamp_ms,
        key=original.record.key,
        value=original.record.value,
        headers=original.record.headers,
        cause=facts.cause,
        reason=reason[:REASON_CHARACTERS_MAX],
        mirror=record.target,
        decided_by=decided_by,
        at_ms=at_ms,
        source_id=id_text(record.source_id),
    )
