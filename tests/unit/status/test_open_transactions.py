"""Open transactions that hold records back: their producer, and since when."""

from __future__ import annotations

from support.admin_contract import at
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import NOW_MS, SimulatedCluster

from heliostat.names import TopicName, TopicPartition
from heliostat.status.open_transactions import LISTED_MAX, OpenTransactions

T = TopicName("t")
PRODUCER = 77


class Open:
    """A source with a partition that a producer holds back."""

    def __init__(self, partitions: int = 1) -> None:
        self.cluster = SimulatedCluster()
        self.cluster.create(T, partitions)
        self.cluster.append(T, 3)
        self.cluster.transactional_ids[PRODUCER] = "writer"
        self.held: dict[TopicPartition, int] = {}
        self.now_ms = NOW_MS
        self.looked = OpenTransactions(
            SimulatedAdmin(self.cluster), lambda: self.held, lambda: self.now_ms
        )

    def write(self, timestamp_ms: int, partition: int = 0, sequence: int = 0) -> None:
        self.cluster.append_open(T, PRODUCER, timestamp_ms, partition=partition, sequence=sequence)
        self.held[at(T, partition)] = 25


def test_no_request_is_sent_if_nothing_is_held_back() -> None:
    side = Open()
    side.looked.look()
    assert (side.looked.report(), side.cluster.calls) == ([], [])


def test_a_transaction_is_reported_with_its_producer_and_keeps_its_age() -> None:
    side = Open()
    side.write(NOW_MS - 9_000)
    side.looked.look()
    expected = {
        "source": "t",
        "partition": 0,
        "first": 3,
        "records": 25,
        "producer_id": PRODUCER,
        "transactional_id": "writer",
        "since_ms": NOW_MS - 9_000,
    }
    assert side.looked.report() == [expected]
    side.now_ms += 60_000
    side.write(side.now_ms, sequence=1)  # it continues: its age is that of its first record
    side.looked.look()
    assert side.looked.report() == [expected]


def test_an_ended_transaction_is_no_longer_reported_and_the_next_is_another() -> None:
    side = Open()
    side.write(NOW_MS)
    side.looked.look()
    side.cluster.topics[T].logs[0].end_transaction(PRODUCER, 0, NOW_MS, commit=True)
    side.now_ms += 5_000
    side.write(side.now_ms, sequence=1)
    side.looked.look()
    [told] = side.looked.report()
    assert (told["first"], told["since_ms"]) == (5, NOW_MS + 5_000)
    side.held.clear()
    side.looked.look()
    assert side.looked.report() == []


def test_brokers_without_describe_producers_affect_nothing_else() -> None:
    side = Open()
    side.write(NOW_MS)
    side.cluster.fail("open_transactions", 35, T)
    side.looked.look()
    assert side.looked.report() == []


def test_of_thousands_the_largest_are_described() -> None:
    side = Open(LISTED_MAX + 9)
    for partition in range(LISTED_MAX + 9):
        side.write(NOW_MS, partition)
        side.held[at(T, partition)] = partition + 1
    side.looked.look()
    told = side.looked.report()
    assert len(told) == LISTED_MAX
    assert {row["partition"] for row in told} == set(range(9, LISTED_MAX + 9))
