"""A source rests before its tail is read: nobody writes, no transaction is open."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from heliostat.clusters.admin.values import ActiveProducer, OpenTransaction
from heliostat.errors import BrokerError, ConnectionLost, Refused
from heliostat.names import Offset, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.rescue.source_rest import STANDS_STILL_S, require_rest

PLACES = [TopicPartition(TopicName("orders"), PartitionId(n)) for n in range(3)]


@dataclass
class Source:
    """Log ends, which may move while it is waited, and transactions."""

    ends: dict[TopicPartition, Offset | BrokerError]
    written: dict[TopicPartition, Offset] = field(default_factory=dict)
    open: dict[TopicPartition, tuple[OpenTransaction, ...]] = field(default_factory=dict)
    writes: dict[TopicPartition, ProducerId] = field(default_factory=dict)
    """Producers that appear while it is waited."""
    slept_s: float = 0.0

    def list_log_ends(
        self, partitions: Collection[TopicPartition], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        assert confirmed  # nothing is concluded from one broker's word
        return {place: self.ends[place] for place in partitions}

    def open_transactions(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[OpenTransaction, ...] | BrokerError]:
        return {place: self.open.get(place, ()) for place in partitions}

    def transactional_ids(self, producers: Collection[ProducerId]) -> Mapping[ProducerId, str]:
        return {producer: f"tx-{producer}" for producer in producers if producer < 9}

    def active_producers(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ActiveProducer, ...] | BrokerError]:
        if not self.slept_s:
            return dict.fromkeys(partitions, ())
        return {
            place: (ActiveProducer(self.writes[place], 0, 1, 1),) if place in self.writes else ()
            for place in partitions
        }

    def monotonic_s(self) -> float:
        return self.slept_s

    def wall_ms(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.ends |= self.written


def source(**more: Any) -> Source:
    return Source(dict.fromkeys(PLACES, Offset(5)), **more)


def test_ends_that_stand_still_are_enough() -> None:
    """Given a source that nobody writes / when it must rest / then ten seconds prove it."""
    resting = source()
    require_rest(resting, PLACES, resting)
    assert resting.slept_s == STANDS_STILL_S


def test_who_still_writes_is_named_by_partition() -> None:
    """Given a partition that moves, back or forth / when it must rest / then it is named, with who

    wrote there as far as its leader knows.
    """
    lost = source(written={PLACES[1]: Offset(4)})
    with pytest.raises(Refused, match="orders-1: its log lost 1 records"):
        require_rest(lost, PLACES, lost)
    moving = source(written={PLACES[1]: Offset(6)}, writes={PLACES[1]: ProducerId(3)})
    with pytest.raises(Refused, match=r"orders-1: 1 records came, by producer 3 \(tx-3\)"):
        require_rest(moving, PLACES, moving)


def test_a_fence_spares_the_wait_and_no_commit_passes_it() -> None:
    """Given a fence that stands / when transactions are open / then all of them are named."""
    fenced = source(written={PLACES[1]: Offset(6)})
    require_rest(fenced, PLACES, fenced, is_fenced=True)
    assert fenced.slept_s == 0
    fenced.open = {
        PLACES[0]: (OpenTransaction(ProducerId(7), Offset(3), 1),),
        PLACES[2]: (OpenTransaction(ProducerId(9), Offset(4), 2),),
    }
    with pytest.raises(Refused) as refused:
        require_rest(fenced, PLACES, fenced, is_fenced=True)
    assert "orders-0 from offset 3 by producer 7 (tx-7)" in str(refused.value)
    assert "orders-2 from offset 4 by producer 9" in str(refused.value)


def test_an_end_that_is_not_told_is_no_rest() -> None:
    """Given a leader that does not answer / when it must rest / then its silence is told."""
    silent = source()
    silent.ends[PLACES[0]] = BrokerError("no leader", kafka_code=5)
    with pytest.raises(ConnectionLost, match="no leader"):
        require_rest(silent, PLACES, silent)
