"""Who has written a link's merged topics at their source lately, by what its brokers remember.

    leaders        each partition's producers: id, last timestamp, open transaction
    coordinators   their transactional ids
    our own rows   ids that are links', which are left out

Leaders remember idempotent producers, for a day after their last batch
(`producer.id.expiration.ms`). Who writes without an id is not among them: only ends that move
show it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from heliostat.clusters.acl import Operation, ResourceKind
from heliostat.clusters.admin import ActiveProducer, TopicInfo, TransactionNames
from heliostat.clusters.admin.right_calls import NOBODY, May, Right
from heliostat.clusters.producer_rows import ProducerRows
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, Refused
from heliostat.names import LinkName, Offset, ProducerId, TopicName, TopicPartition
from heliostat.operate.promotion import promotable
from heliostat.ops.shown import time_text
from heliostat.state.connections import connected
from heliostat.state.link_state import Stored
from heliostat.topics.merged_links import refuse_unless_merged

CLIENT_ID = "heliostat-writers"
SEE_IDS = Right(ResourceKind.TRANSACTIONAL_ID, NOBODY, Operation.DESCRIBE)
"""Brokers leave out transactional ids that we may not describe, without a word."""
NO_ROLLING = "docs/merge.md says how a running mirror becomes a merged topic"
Links = Callable[[], Mapping[ProducerId, LinkName]]
Active = Mapping[TopicPartition, tuple[ActiveProducer, ...] | BrokerError]


class Source(Protocol):
    """What is asked of the source; `ClusterAdmin` is one."""

    def describe_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, TopicInfo]:
        """Return topics with their partitions."""

    def active_producers(self, partitions: Iterable[TopicPartition]) -> Active:
        """Return producers that leaders remember."""

    def transaction_names(self, producers: Iterable[ProducerId]) -> TransactionNames:
        """Return transactional ids of producers."""

    def may(self, rights: Iterable[Right]) -> May:
        """Return whether we have each right."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What a producer has written last into one partition."""

    last_ms: int
    """Timestamp of its last batch; -1: the leader knows none."""
    open_from: Offset | None = None
    """Where its open transaction begins; None: none is open."""


@dataclass(frozen=True, slots=True)
class SourceWriter:
    """One producer that is no link's."""

    producer_id: ProducerId
    transactional_id: str
    """Empty: it has none, or no broker names it."""
    partitions: Mapping[TopicPartition, Writing]

    @property
    def last_ms(self) -> int:
        """Newest timestamp of its batches, by the producer's own clock."""
        return max(each.last_ms for each in self.partitions.values())

    @property
    def open_in(self) -> list[TopicPartition]:
        """Partitions in which it has an open transaction."""
        return [where for where, each in self.partitions.items() if each.open_from is not None]

    def text(self) -> str:
        """Return a line about it."""
        name = f" ({self.transactional_id})" if self.transactional_id else ""
        topics = sorted({where.topic for where in self.partitions})
        last = f"last at {time_text(self.last_ms)}" if self.last_ms >= 0 else "when is not known"
        opened = "".join(
            f"; its transaction in {where} is open since offset {self.partitions[where].open_from}"
            for where in self.open_in
        )
        return f"producer {self.producer_id}{name}: {', '.join(topics)}, {last}{opened}"

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "producer_id": self.producer_id,
            "transactional_id": self.transactional_id,
            "last_ms": self.last_ms,
            "partitions": [
                {
                    "topic": where.topic,
                    "partition": where.partition,
                    "last_ms": each.last_ms,
                    "open_from": each.open_from,
                }
                for where, each in self.partitions.items()
            ],
        }


@dataclass(frozen=True, slots=True)
class SourceWriters:
    """Who has written some topics.

    Parameters
    ----------
    writers
        Who wrote last comes first.
    refused
        A line for each thing that is not known: somebody may be missing, or not be named.
    """

    writers: tuple[SourceWriter, ...] = ()
    refused: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "writers": [each.to_json() for each in self.writers],
            "refused": list(self.refused),
        }


def merged_topics(stored: Stored, topics: Collection[str] = ()) -> list[TopicName]:
    """Return a link's merged topics by their names, or those that are asked for.

    Raises
    ------
    Refused
        One of them is none, or there is none at all.
    """
    merged = {name for name, record in stored.mirrors.items() if record.is_merged}
    names = sorted(map(TopicName, topics)) or sorted(merged)
    if left := [name for name in names if name not in merged]:
        raise Refused(
            f"not merged: {', '.join(left)}",
            hint="`heliostat switch LINK --rolling` makes mirrors merged topics",
        )
    if not names:
        raise Refused(
            "the link has no merged topics",
            hint="`heliostat switch LINK --rolling` makes mirrors merged topics",
        )
    return names


def writers_of(config: Config, link: LinkConfig, topics: Collection[str] = ()) -> SourceWriters:
    """Return who has written a link's merged topics at its source lately.

    Parameters
    ----------
    topics
        Names at the source; none: all merged topics of the link.

    Raises
    ------
    Refused
        A topic is not merged.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses the link's state.
    """
    refuse_unless_merged(link, NO_ROLLING)
    asks: dict[str, Callable[[], None]] = {}
    with connected(config, link, CLIENT_ID) as both, both.admins(asks) as admins:
        with closing(both.state()) as state:
            names = merged_topics(promotable(state, topics), topics)
        with closing(ProducerRows(both.source, admins.source)) as rows:
            return source_writers(admins.source, rows.read, names)


def source_writers(source: Source, links: Links, topics: Collection[TopicName]) -> SourceWriters:
    """Return who has written topics of a cluster lately, without links.

    Parameters
    ----------
    links
        Returns which producer ids there are links' (`ProducerRows.read`).

    Raises
    ------
    ConnectionLost
        No broker answers.
    """
    infos = source.describe_topics(topics)
    refused = [f"{name}: {info.error.text}" for name, info in infos.items() if info.error]
    partitions = [
        TopicPartition(name, part.partition)
        for name, info in infos.items()
        for part in info.partitions
    ]
    active = source.active_producers(partitions)
    refused += [
        f"{partition}: {answer.text}"
        for partition, answer in sorted(active.items())
        if isinstance(answer, BrokerError)
    ]
    own: Mapping[ProducerId, LinkName] = {}
    try:
        own = links()  # after the leaders: a link's id is there before its first batch
    except BrokerError as error:
        refused.append(f"which producers are links' is not known, some may be: {error.text}")
    written = _by_producer(active, own.keys())
    listed = source.transaction_names(written) if written else TransactionNames({})
    if written.keys() - listed.names.keys():
        refused += _hidden(source, listed)
    writers = [
        SourceWriter(producer, listed.names.get(producer, ""), rows)
        for producer, rows in written.items()
    ]
    return SourceWriters(
        tuple(sorted(writers, key=lambda each: (-each.last_ms, each.producer_id))),
        tuple(refused),
    )


def _by_producer(
    active: Active, own: Collection[ProducerId]
) -> dict[ProducerId, dict[TopicPartition, Writing]]:
    """Return where each producer that is no link's has written."""
    found: dict[ProducerId, dict[TopicPartition, Writing]] = {}
    for partition, answer in sorted(active.items()):
        for each in () if isinstance(answer, BrokerError) else answer:
            if each.producer_id not in own:
                row = Writing(each.last_timestamp_ms, each.open_from)
                found.setdefault(each.producer_id, {})[partition] = row
    return found


def _hidden(source: Source, listed: TransactionNames) -> list[str]:
    """Return why a producer without a transactional id may have one."""
    lines = [
        f"broker {broker} does not list transactional ids: {why}"
        for broker, why in sorted(listed.failed.items())
    ]
    if source.may([SEE_IDS]).get(SEE_IDS) is False:
        lines.append(
            "transactional ids that we may not describe are not shown: grant Describe on them "
            "(`heliostat acls --switch`)"
        )
    return lines
