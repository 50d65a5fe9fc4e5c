"""What a link does at its target, tried on a topic of its own that is removed again.

Restricted and managed clusters refuse some of it by policies, or take a setting and ignore it: no
right shows that. The topic's name is always the same, so that a second run removes what a killed
one has left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from heliostat.clusters.acl import PatternKind
from heliostat.clusters.admin import LATELY_S, ClusterAdmin, NewTopic
from heliostat.clusters.keyed_topic import STATE_REPLICAS
from heliostat.clusters.log_reader import LogReader
from heliostat.clusters.log_writer import LogWriter, NewRecord
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate.finding import Finding, Standing, fine, problem, problem_of
from heliostat.state.connections import connected
from heliostat.topics.configs import wanted_configs
from heliostat.topics.naming import TOPIC, naming_of
from heliostat.topics.reach import reach_of
from heliostat.topics.values import SourceTopic

TRIAL = "heliostat-check"
STEP_S = 10.0
"""A topic is made, led and gone within a second or two; on a busy cluster within this."""
LOOK_S = 0.1
VALUE = b"heliostat check --try"
OLD_MS = 86_400_000
"""Timestamp of the records: the second day of 1970, as old as a backlog may be."""
RECORDS = 3

T = TypeVar("T")


def trial_topic(link: LinkConfig) -> TopicName:
    """Return the name of the topic that is made and removed; the link's rights cover it.

    It begins as the link's mirrors do. Where all names are mirrors' it is among the link's own
    topics, which other links never copy.
    """
    prefix = naming_of(link).rule.partition(TOPIC)[0]
    reaches = reach_of(link.topics.include)
    wide = [reach for reach in reaches if reach.pattern is PatternKind.PREFIXED]
    if any(reach.is_everything for reach in reaches) or not wide:
        return TopicName(
            f"{prefix}{TRIAL}.{link.name}" if prefix else f"heliostat.{link.name}.check"
        )
    return TopicName(f"{prefix}{wide[0].name}{TRIAL}.{link.name}")


def try_target(config: Config, link: LinkConfig) -> Iterator[Finding]:
    """Yield what of a link's work its target refuses; the topic is removed again.

    Raises
    ------
    ConnectionLost
        The target does not answer.
    """
    with connected(config, link, TRIAL) as both, ClusterAdmin(both.target) as admin:
        trial = _Trial(link, both.target, admin)
        yield from trial.left_over()
        made = trial.made()
        yield made
        if made.standing is not Standing.FINE:
            return
        try:
            yield from trial.work()
        finally:
            removed = trial.removed()
        yield removed


class _Trial:
    """The topic, and what is done with it."""

    def __init__(self, link: LinkConfig, target: LentClusters, admin: ClusterAdmin) -> None:
        self.topic = trial_topic(link)
        self.subject = f"link {link.name}"
        self._partition = TopicPartition(self.topic, PartitionId(0))
        self._target, self._admin = target, admin
        replicas = link.topics.replication_factor
        self._replicas = replicas or min(STATE_REPLICAS, len(admin.brokers(LATELY_S)))
        inherited = admin.inherited_configs()
        defaults = {} if isinstance(inherited, BrokerError) else inherited
        nothing = SourceTopic(self.topic, None, 1, self._replicas, {})
        self._wanted = wanted_configs(link.topics, nothing, None, defaults)
        self._settings = self._wanted.of_new_topic(defaults)

    def left_over(self) -> Iterator[Finding]:
        """Remove what a killed run has left."""
        if not self._is_there():
            return
        if (error := self._delete()) is not None:
            yield problem_of(self.subject, error, f"{self.topic} of an earlier try is left")
        else:
            yield fine(self.subject, f"try: {self.topic} of an earlier try is removed")

    def made(self) -> Finding:
        """Make the topic as a mirror; where that is refused, find which setting is the cause."""
        new = NewTopic(self.topic, 1, self._replicas, self._settings)
        answer = self._admin.create_topics([new])[self.topic]
        if not isinstance(answer, BrokerError):
            self._until(self._is_there)
            count = len(self._settings)
            return fine(
                self.subject, f"try: {self.topic} is made with {count} settings of a mirror"
            )
        cause = self._cause()
        text = f"try: {answer.text}" + (f"; it refuses {cause}" if cause else "")
        hint = (
            "ask the target's administrators to allow it: mirrors need these settings, as batches "
        )
        hint += "cross unchanged" if cause else "the name, and the replicas"
        return problem(self.subject, answer.kafka_name, text, answer.hint or hint)

    def _cause(self) -> str:
        """Return the settings that are refused one by one, by validation only."""
        causes = []
        for key, value in self._settings.items():
            new = NewTopic(self.topic, 1, self._replicas, {key: value})
            (answer,) = self._admin.create_topics([new], validate_only=True).values()
            if isinstance(answer, BrokerError):
                causes.append(f"{key}={value}")
        bare = NewTopic(self.topic, 1, self._replicas)
        (answer,) = self._admin.create_topics([bare], validate_only=True).values()
        return "" if isinstance(answer, BrokerError) else ", ".join(causes)

    def work(self) -> Iterator[Finding]:
        """Do on the topic what a link does on mirrors, each step though another one failed."""
        steps: Mapping[str, Callable[[], str]] = {
            "settings in force": self._settings_hold,
            "changing settings (IncrementalAlterConfigs)": self._settings_change,
            "idempotent writes of old records (InitProducerId)": self._writes,
            "who has written (DescribeProducers)": self._producers,
            "reading back": self._reads,
            "deleting the first records (DeleteRecords)": self._deletes,
            "more partitions (CreatePartitions)": self._grows,
        }
        for what, step in steps.items():
            try:
                wrong = step()
            except HeliostatError as error:
                yield problem_of(self.subject, error, f"try: {what}")
                continue
            if wrong:
                hint = "ask the target's administrators to allow it"
                yield problem(self.subject, "TARGET_RESTRICTED", f"try: {what}: {wrong}", hint)
            else:
                yield fine(self.subject, f"try: {what}")

    def removed(self) -> Finding:
        """Remove the topic."""
        error = self._delete()
        if error is not None:
            what = f"try: {self.topic} is left and must be deleted by hand"
            return problem_of(self.subject, error, what)
        return fine(self.subject, f"try: {self.topic} is removed")

    def _settings_hold(self) -> str:
        configs = _sound(self._admin.describe_configs([self.topic])[self.topic])
        differing = [
            f"{key} is {configs[key].value if key in configs else 'not there'}, not {value}"
            for key, value in self._wanted.forced.items()
            if key not in configs or configs[key].value != value
        ]
        return (
            "the target takes settings and has others: " + ", ".join(differing) if differing else ""
        )

    def _settings_change(self) -> str:
        for value in ("86400000", None):
            change = {self.topic: {"retention.ms": value, **self._wanted.forced}}
            error = self._admin.alter_configs(change)[self.topic]
            if error is not None:
                raise error
        return ""

    def _writes(self) -> str:
        writer = LogWriter(self._target, self.topic, within_s=STEP_S, request_s=STEP_S)
        offsets: list[Offset] = []
        for number in range(RECORDS):
            offsets += writer.write([NewRecord(b"%d" % number, VALUE, OLD_MS)])
        return "" if offsets == [*range(RECORDS)] else f"records landed at offsets {offsets}"

    def _producers(self) -> str:
        answer = _sound(self._admin.active_producers([self._partition])[self._partition])
        sequences = [producer.last_sequence for producer in answer]
        expected = [RECORDS - 1]
        return "" if sequences == expected else f"last sequences are {sequences}, not {expected}"

    def _reads(self) -> str:
        reader, records = LogReader(self._target, self.topic), list[tuple[bytes | None, int]]()
        until_s = time.monotonic() + STEP_S
        while len(records) < RECORDS and time.monotonic() < until_s:
            records += [(record.value, record.timestamp) for record in reader.poll(0.5)]
        same = records == [(VALUE, OLD_MS)] * RECORDS
        return "" if same else f"{len(records)} records came back, values or timestamps changed"

    def _deletes(self) -> str:
        start = _sound(self._admin.delete_records({self._partition: Offset(1)})[self._partition])
        return "" if start == 1 else f"the log starts at {start}, not at 1"

    def _grows(self) -> str:
        error = self._admin.grow_partitions({self.topic: 2})[self.topic]
        if error is not None:
            raise error
        return ""

    def _is_there(self) -> bool:
        info = self._admin.describe_topics([self.topic])[self.topic]
        return not info.is_missing and all(part.leader is not None for part in info.partitions)

    def _delete(self) -> BrokerError | ConnectionLost | None:
        error = self._admin.delete_topics([self.topic])[self.topic]
        if error is None:
            gone = self._until(lambda: not self._is_there())
            return None if gone else ConnectionLost(f"{self.topic} is still shown")
        return error

    def _until(self, holds: Callable[[], bool]) -> bool:
        until_s = time.monotonic() + STEP_S
        while not holds():
            if time.monotonic() > until_s:
                return False
            time.sleep(LOOK_S)
        return True


def _sound(answer: T | BrokerError) -> T:
    if isinstance(answer, BrokerError):
        raise answer
    return answer
