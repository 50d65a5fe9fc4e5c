"""The load of a drill: producers and groups that move with a switch, and what they have counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.clusters.plain_records import PlainReader
from heliostat.clusters.steady_clients import GroupReader, SteadyProducer, Written, number_of
from heliostat.errors import BrokerError
from heliostat.handover.drill import DrillNote
from heliostat.handover.drill_report import Check
from heliostat.names import GroupId, PartitionId, TopicPartition
from heliostat.offsets.log_bounds import log_ends_of


def partitions_of(note: DrillNote) -> list[TopicPartition]:
    """Return all partitions of a drill's topics."""
    return [
        TopicPartition(topic, PartitionId(number))
        for topic, count in note.topics.items()
        for number in range(count)
    ]


class Load:
    """Producers and groups of a drill. For one thread, but for `told`."""

    def __init__(self, note: DrillNote, records_a_second: float) -> None:
        self._note = note
        self._rate = records_a_second
        self.written = Written(partitions_of(note))
        self._producer: SteadyProducer | None = None
        self._readers: list[GroupReader] = []
        self._groups: Sequence[GroupId] = ()
        self._read: dict[GroupId, dict[TopicPartition, list[int]]] = {}
        self._last_s: float | None = None
        self.refused = 0
        """Records that a fence kept out."""

    def use_groups(self, groups: Sequence[GroupId]) -> None:
        """Name the groups that read from now on."""
        self._groups = groups

    def write_at(self, cluster: Reachable) -> None:
        """Begin to write there."""
        self._producer = SteadyProducer(cluster, self.written, self._rate)

    def read_at(self, cluster: Reachable) -> None:
        """Begin to read there, each group as its offsets say."""
        topics = list(self._note.topics)
        self._readers = [GroupReader(cluster, group, topics) for group in self._groups]

    @property
    def accepted_s(self) -> float | None:
        """Monotonic time of the first record that this producer got accepted."""
        return None if self._producer is None else self._producer.first_s

    @property
    def last_accepted_s(self) -> float | None:
        """The same of the last one, of all producers."""
        if self._producer is not None and self._producer.last_s is not None:
            return self._producer.last_s
        return self._last_s

    def read_counts(self) -> list[int]:
        """Return how many records each group that reads now has read.

        Raises
        ------
        ConnectionLost, BrokerError
            One can't go on.
        """
        for reader in self._readers:
            reader.check()
        return [reader.count for reader in self._readers]

    def stop_writing(self) -> None:
        """End the producer, with what it has sent acknowledged."""
        if self._producer is not None:
            self._producer.stop()
            self._last_s = self._producer.last_s or self._last_s
            self.refused += self._producer.refused
        self._producer = None

    def finish_reading(self, cluster: Reachable) -> None:
        """Tell readers to read to the end, commit and leave; returns at once."""
        ends = ends_at(cluster, self._note)
        for reader in self._readers:
            reader.finish(ends)

    def wait_read(self) -> None:
        """Wait until all have left, and take what they have read."""
        try:
            for reader in self._readers:
                reader.wait()
        finally:
            self._take()

    def abandon_readers(self) -> None:
        """Have all leave now, wherever they are."""
        for reader in self._readers:
            reader.stop()
        self._take()

    def _take(self) -> None:
        for reader in self._readers:
            of_group = self._read.setdefault(reader.group, {})
            for partition, numbers in reader.read.items():
                of_group.setdefault(partition, []).extend(numbers)
        self._readers = []

    def stop(self) -> None:
        """End everything; may be called again."""
        self.stop_writing()
        self.abandon_readers()

    def record_checks(self, cluster: Reachable, where: str) -> tuple[Check, ...]:
        """Return how the records there compare with what was acknowledged."""
        logs = numbers_at(cluster, self._note)
        doubled = strange = disordered = 0
        for partition, numbers in logs.items():
            accepted = set(self.written.accepted[partition])
            counts = Counter(numbers)
            doubled += sum(count - 1 for count in counts.values())
            strange += sum(
                number not in accepted and (partition, number) not in self.written.unclear
                for number in counts
            )
            disordered += numbers != sorted(numbers)
        return (
            Check(f"records accepted and missing at {where}", 0, self.missing_of(logs)),
            Check(f"records twice at {where}", 0, doubled),
            Check(f"records at {where} that nobody was told of", 0, strange),
            Check(f"partitions in another order at {where}", 0, disordered),
        )

    def missing_of(self, logs: Mapping[TopicPartition, Sequence[int]]) -> int:
        """Return how many acknowledged records are not there."""
        return sum(
            len(set(self.written.accepted[partition]) - set(numbers))
            for partition, numbers in logs.items()
        )

    def group_checks(self) -> tuple[Check, ...]:
        """Return what groups have read, over both sides, compared with what was acknowledged."""
        again = skipped = 0
        for group in self._groups:
            for partition, accepted in self.written.accepted.items():
                numbers = self._read.get(group, {}).get(partition, [])
                again += len(numbers) - len(set(numbers))
                skipped += len(set(accepted) - set(numbers))
        if not self._groups:
            return ()
        return (
            Check("records that groups read again", 0, again),
            Check("records that groups skipped", 0, skipped),
        )

    def reads_again(self) -> dict[GroupId, int]:
        """Return how many records each group has read more than once."""
        return {
            group: sum(len(numbers) - len(set(numbers)) for numbers in of_group.values())
            for group, of_group in self._read.items()
        }

    def forget(self, kept: Mapping[TopicPartition, set[int]]) -> int:
        """Take what was accepted and is not among `kept` for lost; return how many that were."""
        lost = 0
        for partition, numbers in self.written.accepted.items():
            left = [number for number in numbers if number in kept.get(partition, set())]
            lost += len(numbers) - len(left)
            self.written.accepted[partition] = left
        return lost


def ends_at(cluster: Reachable, note: DrillNote) -> dict[TopicPartition, int]:
    """Return the log ends of a drill's topics at a cluster."""
    with ClusterAdmin(cluster) as admin:
        infos = admin.describe_topics(note.topics)
        return dict(log_ends_of(admin, [info for info in infos.values() if not info.error]))


def commits_at(cluster: Reachable, note: DrillNote) -> dict[GroupId, int]:
    """Return the sum of the offsets that each of a drill's groups has at a cluster."""
    with ClusterAdmin(cluster) as admin:
        return {
            group: sum(
                commit.offset
                for commit in ({} if isinstance(answer, BrokerError) else answer).values()
                if isinstance(commit, CommittedOffset)
            )
            for group, answer in admin.committed_offsets(note.groups).items()
        }


def numbers_at(cluster: Reachable, note: DrillNote) -> dict[TopicPartition, list[int]]:
    """Return the numbers of all records of a drill's topics at a cluster."""
    partitions = partitions_of(note)
    with PlainReader(cluster, committed=True) as reader:
        bounds = reader.bounds(partitions)
        return {
            partition: [
                number_of(record.value)
                for record in reader.read(partition, bounds[partition].start, bounds[partition].end)
            ]
            for partition in partitions
        }
