"""Dead letters: records that could not be copied, kept whole until somebody replays or drops them.

    heliostat.<link>.dead-letters   compacted; key: <source topic>/<partition>/<offset>/<topic id>

A letter's value and headers are the record's own; one header more says where it was, its key, and
what was wrong (`HEADER`, JSON). Written again after a crash, a letter has the same key, so there is
one of each; a topic that was deleted and created again has other letters, by its id. Before Kafka
2.8, and in letters of earlier versions, there is no id. A null value is stored as an empty one, as
null means that a letter was dropped.

I6  A letter is durable before its row is in the gap ledger, and only then is its record passed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from heliostat.access import ClusterAccess
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import make_if_missing
from heliostat.clusters.kafka_codes import MESSAGE_TOO_LARGE
from heliostat.clusters.keyed_topic import kept_safe
from heliostat.clusters.plain_records import PlainReader, PlainRecord
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.errors import BrokerError, ProtocolError
from heliostat.gaps.choices import Cause
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.batches.encode import NewRecord, encode_batch

HEADER = "heliostat.dead-letter"
SETTINGS = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",  # a broker may refuse the clock of ours (KIP-937)
}
MEBIBYTE = 1 << 20
REASON_CHARACTERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record that could not be copied, or a damaged batch.

    Parameters
    ----------
    source, offset
        Where it stands at the source; of a batch its first offset.
    last
        The last source offset that it covers; of a record the same.
    is_batch
        Whether `value` has the bytes of a whole batch, which could not be decoded.
    timestamp_ms, key, value, headers
        The record's own.
    cause, reason
        What was wrong, for machines and for people.
    mirror
        The target topic that it should have come to.
    decided_by, at_ms
        Who had it put here (`policy` or `user NAME`), and when.
    source_id
        Id of the source's topic; empty: not known.
    """

    source: TopicPartition
    offset: Offset
    last: Offset
    is_batch: bool
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    cause: Cause
    reason: str
    mirror: TopicName
    decided_by: str
    at_ms: int
    source_id: str = ""

    @property
    def name(self) -> str:
        """Its key in the topic."""
        place = f"{self.source.topic}/{self.source.partition}/{self.offset}"
        return f"{place}/{self.source_id}" if self.source_id else place

    def described(self) -> dict[str, Any]:
        """Return all but the record's value and headers, as JSON."""
        return {
            "topic": self.source.topic,
            "topic_id": self.source_id,
            "partition": self.source.partition,
            "offset": self.offset,
            "last": self.last,
            "kind": "batch" if self.is_batch else "record",
            "timestamp_ms": self.timestamp_ms,
            "key": _base64(self.key),
            "value_is_null": self.value is None,
            "cause": self.cause.value,
            "reason": self.reason,
            "mirror": self.mirror,
            "decided_by": self.decided_by,
            "at_ms": self.at_ms,
        }

    def whole(self) -> dict[str, Any]:
        """Return all of it as JSON, bytes in base64."""
        headers = [[name, _base64(content)] for name, content in self.headers]
        return {**self.described(), "value": _base64(self.value), "headers": headers}

    def to_record(self) -> NewRecord:
        """Return it as it is stored."""
        about = json.dumps(self.described(), sort_keys=True).encode()
        value = b"" if self.value is None else self.value
        headers = (*self.headers, (HEADER, about))
        return NewRecord(self.name.encode(), value, self.at_ms, headers)

    @classmethod
    def from_record(cls, record: PlainRecord) -> Self:
        """Back from what is stored.

        Raises
        ------
        ProtocolError
            Somebody else wrote there.
        """
        try:
            (*headers, (_, about)) = record.headers
            row = json.loads(about or b"")
            return cls(
                source=TopicPartition(TopicName(row["topic"]), PartitionId(row["partition"])),
                offset=Offset(row["offset"]),
                last=Offset(row["last"]),
                is_batch=row["kind"] == "batch",
                timestamp_ms=row["timestamp_ms"],
                key=None if row["key"] is None else base64.b64decode(row["key"]),
                value=None if row["value_is_null"] else record.value,
                headers=tuple(headers),
                cause=Cause(row["cause"]),
                reason=row["reason"],
                mirror=TopicName(row["mirror"]),
                decided_by=row["decided_by"],
                at_ms=row["at_ms"],
                source_id=row.get("topic_id", ""),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(
                "a record among the dead letters is none",
                offset=record.offset,
                key=record.key,
                why=repr(error),
            ) from error


def dead_letters_topic(link: LinkName) -> TopicName:
    """Return the name of the topic with the link's dead letters."""
    return TopicName(f"{STATE_TOPIC_PREFIX}{link}.dead-letters")


class DeadLetters:
    """The dead letters of one link; from one thread.

    Every method raises `ConnectionLost` when the target does not answer and `BrokerError` when it
    refuses.

    Parameters
    ----------
    link, target
        The link's name, and where its topic is.
    replication_factor
        None means 3, or as many as there are brokers.
    """

    def __init__(
        self, link: LinkName, target: ClusterAccess, replication_factor: int | None = None
    ) -> None:
        self._topic = dead_letters_topic(link)
        self._at = TopicPartition(self._topic, PartitionId(0))
        self._target = target
        self._replication_factor = replication_factor

    def put(self, letters: Sequence[DeadLetter], admin: ClusterAdmin) -> None:
        """Write letters; durable when it returns.

        The topic is created with the first one, and takes larger records when one needs it.
        """
        if not letters:
            return
        make_if_missing(
            admin,
            self._topic,
            lambda replicas: {**SETTINGS, **kept_safe(replicas)},
            self._replication_factor,
        )
        for each in letters:  # by themselves: a batch of all of them might be too large
            batch = encode_batch([each.to_record()])
            answer = admin.append({self._at: batch})[self._at]
            if isinstance(answer, BrokerError) and answer.kafka_code == MESSAGE_TOO_LARGE:
                limit = str(-(-len(batch) // MEBIBYTE) * MEBIBYTE)
                refused = admin.alter_configs({self._topic: {"max.message.bytes": limit}})
                answer = refused[self._topic] or admin.append({self._at: batch})[self._at]
            if isinstance(answer, BrokerError):
                raise answer

    def read(self) -> dict[str, DeadLetter]:
        """Return all letters by name, oldest first; a topic that does not exist has none.

        Raises
        ------
        ProtocolError
            Somebody else wrote there.
        """
        found: dict[str, DeadLetter] = {}
        with PlainReader(self._target, committed=True) as reader:
            for one in reader.partitions(self._topic):
                bounds = reader.bounds([one])[one]
                for record in reader.read(one, bounds.start, bounds.end):
                    name = (record.key or b"").decode(errors="replace")
                    found.pop(name, None)
                    if record.value is not None:
                        found[name] = DeadLetter.from_record(record)
        return found

    def drop(self, letters: Iterable[DeadLetter], admin: ClusterAdmin, at_ms: int) -> None:
        """Remove letters; durable when it returns."""
        gone = [NewRecord(each.name.encode(), None, at_ms) for each in letters]
        if not gone:
            return
        answer = admin.append({self._at: encode_batch(gone)})[self._at]
        if isinstance(answer, BrokerError):
            raise answer


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
