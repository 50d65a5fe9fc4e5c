"""A compacted topic of one partition as a small durable map: string keys, JSON objects."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from heliostat.access import Reachable
from heliostat.clusters.admin import LATELY_S, ClusterAdmin, ConfigEntry, NewTopic, TopicInfo
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords, shown_key
from heliostat.clusters.kafka_codes import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.log_reader import LogReader, LogRecord
from heliostat.clusters.log_writer import NewRecord
from heliostat.clusters.one_partition import OnePartitionTopic
from heliostat.errors import BrokerError, ConnectionLost, ProtocolError, Refused
from heliostat.names import Offset, TopicName

ANSWER_TIMEOUT_S = 60.0  # a broker that restarts is back in less
POLL_S = 0.5  # a stopped broker is noticed, and a deadline kept, within this
KNOWN_WITHIN_S = 2.0
"""Brokers hear of a new topic one after the other, usually within some milliseconds."""
LOOK_AGAIN_S = 0.05
STATE_REPLICAS = 3  # survives two lost brokers; capped by what the cluster has
COMPACTED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    # The broker must not refuse records if our clock is an hour ahead (KIP-937).
    "message.timestamp.type": "LogAppendTime",
    "max.compaction.lag.ms": "3600000",  # an hour: reading all of it stays fast
    "segment.bytes": str(16 << 20),  # the active segment is never compacted
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One record: the new value of a key, or None if it was removed."""

    key: str
    value: dict[str, Any] | None
    offset: Offset
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class OwnRows:
    """What of such a topic nobody may miss, and who is told of all else that is no row.

    A record that is no row has replaced one if it has its key: then reading raises if that row
    matters, as compaction may have removed it. All other such records are ignored.
    """

    vital: tuple[str, ...] = ("",)
    """Beginnings of keys whose rows matter: by default of all."""
    foreign: ForeignRecords = field(default_factory=ForeignRecords)

    def matters(self, key: object) -> bool:
        """Return whether a record of this key may have replaced a row that matters."""
        try:
            text = key.decode() if isinstance(key, bytes) else key
        except UnicodeDecodeError:
            return False
        return isinstance(text, str) and text.startswith(self.vital)


ALL_ROWS = OwnRows()


class KeyedReader(OnePartitionTopic):
    """Reads all of such a topic, then what is written after that. For one thread.

    Parameters
    ----------
    was_there
        Whether the topic has existed: then it is not taken for empty if a broker doesn't know it.
    own
        Which of its rows matter.
    """

    COMMITTED = True  # a transaction that `FencedWriter` left open is not state

    def __init__(
        self,
        cluster: Reachable,
        topic: str,
        client_id: str,
        was_there: Callable[[], bool] = lambda: False,
        own: OwnRows = ALL_ROWS,
    ) -> None:
        super().__init__(cluster, topic, client_id)
        self._was_there = was_there
        self._own = own
        self._early: list[Change] = []

    @property
    def is_there(self) -> bool:
        """Whether the topic existed when it was read last."""
        return self._log is not None

    @property
    def position(self) -> Offset:
        """Offset after the last record that was returned; 0 while the topic does not exist."""
        if self._early:
            return self._early[0].offset
        return Offset(0) if self._log is None else Offset(self._log.position)

    def read_all(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, dict[str, Any]]:
        """Latest value of every key, from the topic's start to where it ended when this began.

        `poll` returns what is written meanwhile. A topic that never existed is empty.

        Raises
        ------
        ProtocolError
            Somebody else wrote there: a record is not a row, where that row matters.
        """
        return self._read(timeout_s, None)

    def read_sound(
        self, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Offset]]:
        """As `read_all`, with records that are not rows set aside: their offsets, by key.

        Such a key has its previous value, if it still exists. Keys that are not text are given as
        Python represents them, which differs from every row's key.
        """
        strange: dict[str, Offset] = {}
        return self._read(timeout_s, strange), strange

    def _read(
        self, timeout_s: float, strange: dict[str, Offset] | None
    ) -> dict[str, dict[str, Any]]:
        state: dict[str, dict[str, Any]] = {}
        for change in self._all_changes(timeout_s, strange):
            if strange is not None:
                strange.pop(change.key, None)
            if change.value is None:
                state.pop(change.key, None)
            else:
                state[change.key] = change.value
        return state

    def read_changes(self, timeout_s: float = ANSWER_TIMEOUT_S) -> list[Change]:
        """As `read_all`, each record that is there by itself, in order."""
        return list(self._all_changes(timeout_s, None))

    def _all_changes(self, timeout_s: float, strange: dict[str, Offset] | None) -> Iterator[Change]:
        self._early = []
        deadline_s = monotonic() + timeout_s
        with self._alone():
            log, end, first = self._from_start()
            if log is None:
                return
            while first or log.position < end:
                if monotonic() > deadline_s:
                    raise ConnectionLost(
                        f"topic {self.topic} was not read in time", position=log.position, end=end
                    )
                records, first = first or log.poll(POLL_S), []
                for change in self._changes(records, strange):
                    if change.offset >= end:
                        self._early.append(change)
                    else:
                        yield change

    def _from_start(self) -> tuple[LogReader | None, Offset, list[LogRecord]]:
        """Return the log at its start, where it ends, and its first records; None: no such topic.

        Brokers know a new topic a moment after its creation was answered.
        """
        until_s = monotonic() + KNOWN_WITHIN_S
        while True:  # ends: the topic is known, never existed, or the time is over
            log = self._reader()
            try:
                if log is not None:
                    return log, *log.from_start()
            except BrokerError as error:
                if error.kafka_code != UNKNOWN_TOPIC_OR_PARTITION or not self._was_there():
                    raise
            if not self._was_there():
                return None, Offset(0), []
            if monotonic() > until_s:
                raise BrokerError(
                    f"topic {self.topic} existed, and is not known any more: it was deleted, or "
                    "the broker that was asked has lost touch",
                    kafka_code=UNKNOWN_TOPIC_OR_PARTITION,
                )
            sleep(LOOK_AGAIN_S)

    def poll(self, timeout_s: float = POLL_S) -> list[Change]:
        """Changes since `read_all` or the last `poll`, in order; empty if none came in time."""
        if self._early:
            changes, self._early = self._early, []
            return changes
        with self._alone():
            log = self._reader()
            return [] if log is None else list(self._changes(log.poll(timeout_s)))

    def tail(self, timeout_s: float = POLL_S) -> Iterator[Change]:
        """Changes as they come; ends when none came for `timeout_s`."""
        while changes := self.poll(timeout_s):
            yield from changes

    def _changes(
        self, records: Iterable[LogRecord], strange: dict[str, Offset] | None = None
    ) -> Iterator[Change]:
        for record in records:
            try:
                yield _change(self.topic, record)
            except ProtocolError as error:
                if strange is not None:
                    strange[shown_key(record.key)] = Offset(record.offset)
                elif self._own.matters(record.key):
                    raise
                else:
                    self._own.foreign.note(self.topic, record.offset, record.key, error.__cause__)


class KeyedTopic(OnePartitionTopic):
    """Latest JSON object per key, kept in a compacted topic. Any thread may read and write."""

    WRITE_S = ANSWER_TIMEOUT_S

    def __init__(
        self,
        cluster: Reachable,
        topic: str,
        client_id: str = "heliostat-state",
        own: OwnRows = ALL_ROWS,
    ) -> None:
        super().__init__(cluster, topic, client_id)
        self._own = own
        self._was_there = False

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic if it is missing, see `ensure_compacted`."""
        ensure_compacted(self._access, self.topic, self._client_id, replication_factor)
        self.exists_now()

    def prepare(self) -> None:
        """Ask for what the first write needs, as far as that can be had now."""
        with contextlib.suppress(ConnectionLost, BrokerError):  # the write will report it
            self._writer().prepare()

    def exists_now(self) -> None:
        """Note that the topic exists: it is not taken for empty if a broker doesn't know it."""
        self._was_there = True

    def reader(self) -> KeyedReader:
        """Return a reader with a place of its own, for one thread; who asks for it closes it."""
        return KeyedReader(
            self._clusters, self.topic, self._client_id, lambda: self._was_there, self._own
        )

    def read_all(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, dict[str, Any]]:
        """As `KeyedReader.read_all`, by a reader of its own."""
        with self.reader() as reader:
            rows = reader.read_all(timeout_s)
            self._was_there |= reader.is_there
        return rows

    def read_sound(
        self, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Offset]]:
        """As `KeyedReader.read_sound`, by a reader of its own."""
        with self.reader() as reader:
            rows = reader.read_sound(timeout_s)
            self._was_there |= reader.is_there
        return rows

    def write(self, key: str, value: Mapping[str, Any] | None) -> Offset:
        """Set a key, or remove it with None; durable on all replicas in sync when it returns."""
        return self.write_many({key: value})[key]

    def write_many(self, values: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Offset]:
        """Set and remove several keys, in order; one wait for all of them."""
        rows = [NewRecord(key.encode(), _encoded(value)) for key, value in values.items()]
        return dict(zip(values, self._writer().write(rows), strict=True))


def missing_topics(admin: ClusterAdmin, names: Iterable[TopicName]) -> list[TopicName]:
    """Return those of the topics that do not exist, by the word of all brokers.

    Raises
    ------
    ConnectionLost
        No broker answers.
    """
    suspects = [name for name, topic in admin.describe_topics(names).items() if topic.is_missing]
    if not suspects:
        return []
    return [name for name, topic in admin.confirm_topics(suspects).items() if topic.is_missing]


@contextmanager
def read_as_row(topic: str, key: str) -> Iterator[None]:
    """Read a value as its key says: what others write there may be JSON, but not a row of ours.

    Raises
    ------
    ProtocolError
        The value is not such a row; the link that reads it halts, and reports its key.
    """
    try:
        yield
    except NOT_A_ROW as error:
        raise ProtocolError(
            "a record is not a row of ours", topic=topic, key=key, why=repr(error)
        ) from error


def kept_safe(replicas: int) -> dict[str, str]:
    """Settings that keep all acknowledged records if one of three brokers is lost.

    They differ from Kafka's defaults (`min.insync.replicas` 1).
    """
    in_sync = 2 if replicas > 2 else 1
    return {"min.insync.replicas": str(in_sync), "unclean.leader.election.enable": "false"}


EXISTS = BrokerError("the topic exists", kafka_code=TOPIC_ALREADY_EXISTS)


def ensure_compacted(
    cluster: Reachable, name: TopicName, client_id: str, replication_factor: int | None = None
) -> None:
    """Create a state topic of ours if it is missing, see `ensure_own_topics`."""
    with ClusterAdmin(cluster, client_id) as admin:
        ensure_own_topics(admin, {name: COMPACTED}, replication_factor)


def new_own_topic(name: TopicName, settings: Mapping[str, str], replicas: int) -> NewTopic:
    """Return a topic of ours as it is made; rows (`COMPACTED`) must survive a lost broker."""
    safe = kept_safe(replicas) if settings is COMPACTED else {}
    return NewTopic(name, 1, replicas, {**settings, **safe})


def ensure_own_topics(
    admin: ClusterAdmin,
    topics: Mapping[TopicName, Mapping[str, str]],
    replication_factor: int | None = None,
) -> None:
    """Create topics of ours that are missing, each of one partition, with these settings.

    Parameters
    ----------
    replication_factor
        None means 3, or as many as there are brokers.

    Raises
    ------
    Refused
        A topic of that name exists and can't be used: not compacted, or many partitions.
    BrokerError
        One can't be created.
    """
    described = admin.describe_topics(topics)
    replicas = replication_factor or min(STATE_REPLICAS, len(admin.brokers(LATELY_S)))
    answers = admin.create_topics(
        [
            new_own_topic(name, settings, replicas)
            for name, settings in topics.items()
            if described[name].error is not None
        ]
    )
    for answer in answers.values():
        if isinstance(answer, BrokerError) and answer.kafka_code != TOPIC_ALREADY_EXISTS:
            raise answer
    existing = [
        name
        for name, settings in topics.items()
        if settings is COMPACTED and isinstance(answers.get(name, EXISTS), BrokerError)
    ]
    if answers:
        described = admin.describe_topics(topics)
    if existing:
        _must_be_state_topics(admin, existing, described)


def _must_be_state_topics(
    admin: ClusterAdmin, names: Sequence[TopicName], described: Mapping[TopicName, TopicInfo]
) -> None:
    for name, configs in admin.describe_configs(names, ["cleanup.policy"]).items():
        if isinstance(configs, BrokerError):
            raise configs
        partitions = len(described[name].partitions)
        if partitions > 1 or not _is_only_compacted(configs):
            raise Refused(
                f"topic {name} exists and is not a state topic",
                hint="it must have one partition and cleanup.policy=compact: rename or fix it",
                partitions=partitions,
                cleanup_policy=configs["cleanup.policy"].value,
            )


def _is_only_compacted(configs: Mapping[str, ConfigEntry]) -> bool:
    """Whether it only compacts: with `delete`, too, old state would vanish."""
    return configs["cleanup.policy"].value == "compact"


def _encoded(value: Mapping[str, Any] | None) -> bytes | None:
    return None if value is None else json.dumps(value, sort_keys=True).encode()


def _change(topic: TopicName, record: LogRecord) -> Change:
    try:
        value = None if record.value is None else json.loads(record.value)
        if record.key is None:
            raise TypeError("no key")
        key = record.key.decode()
        if value is not None and not isinstance(value, dict):
            raise TypeError("no object")
    except NOT_A_ROW as error:
        raise ProtocolError(
            f"topic {topic} has a record that is not ours",
            hint="somebody else wrote into the state topic; find out who, and remove that record",
            offset=record.offset,
            key=shown_key(record.key),
        ) from error
    return Change(key, value, Offset(record.offset), record.timestamp)
