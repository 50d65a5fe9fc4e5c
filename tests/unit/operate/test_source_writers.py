"""Who has written merged topics at their source: links left out, what is not known told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from heliostat.clusters.admin import ActiveProducer, PartitionInfo, TopicInfo, TransactionNames
from heliostat.clusters.admin.right_calls import May, Right
from heliostat.errors import BrokerError, Refused
from heliostat.names import (
    BrokerId,
    ClusterId,
    LeaderEpoch,
    LinkName,
    Offset,
    PartitionId,
    ProducerId,
    TopicName,
    TopicPartition,
)
from heliostat.operate.source_writers import SourceWriters, merged_topics, source_writers
from heliostat.state.link_state import Stored
from heliostat.topics.values import MirrorRecord

ORDERS, KEYS = TopicName("orders"), TopicName("keys")
A, B = (TopicPartition(ORDERS, PartitionId(number)) for number in (0, 1))
LINK, APP, PAYMENTS = map(ProducerId, (7, 8, 9))


@dataclass
class Source:
    """A cluster with two partitions of one topic."""

    active: Mapping[TopicPartition, tuple[ActiveProducer, ...] | BrokerError]
    names: Mapping[ProducerId, str] = field(default_factory=dict)
    failed: Mapping[BrokerId, str] = field(default_factory=dict)
    shows_ids: bool = True
    named: list[set[ProducerId]] = field(default_factory=list)

    def describe_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, TopicInfo]:
        parts = tuple(
            PartitionInfo(PartitionId(number), BrokerId(1), LeaderEpoch(0), (), ())
            for number in (0, 1)
        )
        gone = BrokerError("is gone", kafka_code=3)
        return {
            name: TopicInfo(name, None, parts, is_internal=False)
            if name == ORDERS
            else TopicInfo(name, None, (), is_internal=False, error=gone)
            for name in names
        }

    def active_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ActiveProducer, ...] | BrokerError]:
        return {each: self.active.get(each, ()) for each in partitions}

    def transaction_names(self, producers: Iterable[ProducerId]) -> TransactionNames:
        self.named.append(set(producers))
        return TransactionNames(self.names, self.failed)

    def may(self, rights: Iterable[Right]) -> May:
        return dict.fromkeys(rights, self.shows_ids)


def links() -> Mapping[ProducerId, LinkName]:
    return {LINK: LinkName("back")}


def active(producer: ProducerId, last_ms: int, open_from: int | None = None) -> ActiveProducer:
    return ActiveProducer(producer, 0, 1, last_ms, None if open_from is None else Offset(open_from))


def test_producers_are_named_and_links_are_not() -> None:
    """Given a link, a transaction and a plain producer / then who wrote last comes first."""
    source = Source(
        {A: (active(LINK, 900), active(APP, 500)), B: (active(PAYMENTS, 700, 41), active(APP, 20))},
        names={PAYMENTS: "pay-1"},
    )
    found = source_writers(source, links, [ORDERS])
    assert [each.producer_id for each in found.writers] == [PAYMENTS, APP]
    pay, app = found.writers
    assert (pay.transactional_id, pay.open_in, pay.last_ms) == ("pay-1", [B], 700)
    assert (app.transactional_id, app.open_in, app.last_ms) == ("", [], 500)
    assert list(app.partitions) == [A, B]
    assert source.named == [{APP, PAYMENTS}]
    assert not found.refused
    assert "producer 9 (pay-1): orders" in pay.text()
    assert "orders-1 is open since offset 41" in pay.text()
    assert found.to_json()["writers"][0]["partitions"] == [
        {"topic": "orders", "partition": 1, "last_ms": 700, "open_from": 41}
    ]


def test_what_brokers_refuse_is_said() -> None:
    """Given refusals of all kinds / then each is told, and what is known is told as well."""

    def unread() -> Mapping[ProducerId, LinkName]:
        raise BrokerError("no Read on heliostat.producers", kafka_code=29)

    source = Source(
        {A: (active(LINK, 5),), B: BrokerError("no Read on orders", kafka_code=29)},
        failed={BrokerId(2): "it is away"},
        shows_ids=False,
    )
    found = source_writers(source, unread, [ORDERS, KEYS])
    assert [each.producer_id for each in found.writers] == [LINK]
    text = "\n".join(found.refused)
    assert len(found.refused) == 5, text
    for part in ("keys: is gone", "orders-1: no Read", "some may be", "broker 2", "grant Describe"):
        assert part in text


def test_ids_that_are_hidden_matter_only_where_a_name_lacks() -> None:
    source = Source({A: (active(APP, 5),)}, names={APP: "a"}, shows_ids=False)
    assert not source_writers(source, links, [ORDERS]).refused
    source.active = {A: (active(LINK, 5),)}
    assert source_writers(source, links, [ORDERS]) == SourceWriters()


def record(topic: TopicName, *, is_merged: bool) -> MirrorRecord:
    known = (topic, topic, None, None, ClusterId("c"), "earliest", 2)
    return MirrorRecord(*known, is_merged=is_merged)


def test_only_merged_topics_count() -> None:
    stored = Stored()
    with pytest.raises(Refused, match="no merged topics"):
        merged_topics(stored)
    stored.mirrors.update(
        {ORDERS: record(ORDERS, is_merged=True), KEYS: record(KEYS, is_merged=False)}
    )
    assert merged_topics(stored) == [ORDERS]
    assert merged_topics(stored, ["orders"]) == [ORDERS]
    with pytest.raises(Refused, match="not merged: keys"):
        merged_topics(stored, ["keys", "orders"])
