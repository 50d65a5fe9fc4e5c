"""A source rests before its tail is read: nobody writes, no transaction is open."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from heliostat.clusters.admin.values import OpenTransaction
from heliostat.errors import BrokerError, Refused
from heliostat.names import Offset, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.rescue.source_rest import STANDS_STILL_S, require_rest

PLACES = [TopicPartition(TopicName("orders"), PartitionId(n)) for n in range(3)]


@dataclass
class Source:
    """Log ends, which may move while it is waited, and transactions."""

    ends: dict[TopicPartition, Offset | BrokerError]
    written: dict[TopicPartition, Offset] = field(default_factory=dict)
    open: dict[TopicPartition, tuple[OpenTransaction, ...]] = field(default_factory=dict)
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

    def monotonic_s(self) -> float:
        return self.slept_s

    def wall_ms(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.ends |= self.written


def source(**more: dict[TopicPartition, Offset]) -> Source:
    return Source(dict.fromkeys(PLACES, Offset(5)), **more)


def test_ends_that_stand_still_are_enough() -> None:
    """Given a source that nobody writes / when it must rest / then ten seconds prove it."""
    resting = source()
    require_rest(resting, PLACES, resting)
    assert resting.slept_s == STANDS_STILL_S


def test_who_still_writes_is_named_by_partition() -> None:
    """Given a partition that moves, back or forth / when it must rest / then it is named."""
    for end in (Offset(4), Offset(6)):
        moving = source(written={PLACES[1]: end})
        with pytest.raises(Refused, match=f"orders-1 from 5 to {end}"):
            require_rest(moving, PLACES, moving)


def test_a_fence_spares_the_wait_and_no_commit_passes_it() -> None:
    """Given a fence that stands / when transactions are open / then all of them are named."""
    fenced = source(written={PLACES[1]: Offset(6)})
    require_rest(fenced, PLACES, fenced, lambda _: True)
    assert fenced.slept_s == 0
    fenced.open = {
        PLACES[0]: (OpenTransaction(ProducerId(7), Offset(3), 1),),
        PLACES[2]: (OpenTransaction(ProducerId(9), Offset(4), 2),),
    }
    with pytest.raises(Refused) as refused:
        require_rest(fenced, PLACES, fenced, lambda _: True)
    assert "orders-0 from offset 3 by producer 7 (tx-7)" in str(refused.value)
    assert "orders-2 from offset 4 by producer 9" in str(refused.value)


def test_an_end_that_is_not_told_is_no_rest() -> None:
    """Given a leader that does not answer / when it must rest / then its error is raised."""
    silent = source()
    silent.ends[PLACES[0]] = BrokerError("no leader", kafka_code=5)
    with pytest.raises(BrokerError):
        require_rest(silent, PLACES, silent)
