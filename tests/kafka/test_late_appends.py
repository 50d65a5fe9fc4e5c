"""An append of a killed round lands late, after a compaction of the source's log."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pytest
from support.cleaning import COMPACTED, hurry_cleaner, offsets, read_committed, wait_cleaned
from support.clusters import ClusterPair
from support.links import ends
from support.one_partition import OnePartition
from support.proxy import PRODUCE, Cut, FaultProxy, Where
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

NOW_MS = 1_790_000_000_000
STEP_MS = 10
AGAIN = 5
"""A lane sends again what was cut, sooner than it can be killed."""
ANSWERED_WITHIN_S = 10.0
_SIZE = struct.Struct(">i")


class _Killed(Exception):
    """Ends a round while it copies, without a report."""


class Late:
    """A mirror of a compacted topic behind a proxy, and an append that is kept in the network."""

    def __init__(self, source: Cluster, target: Cluster, proxy: FaultProxy) -> None:
        self.source, self.target, self._proxy = source, target, proxy
        pair = ClusterPair(source, target)
        self.one = OnePartition(pair, source_configs=COMPACTED, is_compacted=True)
        with ClusterAdmin([target.bootstrap]) as admin:
            topic_id = admin.describe_topics([self.one.topic])[self.one.topic].topic_id
        assert topic_id is not None
        self._topic_id = topic_id.bytes
        self._written = 0

    def write(self, keys: str) -> None:
        """One batch; that it is younger than the one before closes a segment."""
        at_ms = NOW_MS + self._written * STEP_MS
        batch = encode([Sample(each.encode(), b"%d" % self._written, at_ms) for each in keys])
        write_batches([self.source.bootstrap], self.one.topic, [batch])
        self._written += 1

    def keep_appends(self) -> Sequence[Cut]:
        """Let none of the next appends to the mirror reach its broker."""
        return [
            self._proxy.cut_next(PRODUCE, Where.REQUEST_KEPT, self._topic_id) for _ in range(AGAIN)
        ]

    def killed_append(self) -> bytes:
        """A round is killed as soon as it has sent an append; that, on its way."""
        first, *_ = self.keep_appends()

        def kill(_: PartitionCopy) -> bool:
            if first.done.is_set():
                raise _Killed
            return False

        with suppress(_Killed):
            self.one.copy(kill)
        self._proxy.heal()
        assert first.kept
        return first.kept

    def land(self, request: bytes) -> None:
        """Send the kept append to the broker, and ignore the answer."""
        (broker,) = self.target.brokers
        where = broker.endpoint
        with socket.create_connection((where.host, where.port), ANSWERED_WITHIN_S) as connection:
            connection.sendall(request)
            (size,) = _SIZE.unpack(connection.recv(_SIZE.size, socket.MSG_WAITALL))
            assert len(connection.recv(size, socket.MSG_WAITALL)) == size

    def lands_before_the_next(self, request: bytes) -> Callable[[PartitionCopy], bool]:
        """To be called all the while: lets it land when a round has sent an append of its own."""
        first, *_ = self.keep_appends()
        landed: list[bytes] = []

        def look(item: PartitionCopy) -> bool:
            if first.done.is_set() and not landed:
                landed.append(request)
                self.land(request)
                self._proxy.heal()
            return bool(landed) and item.standing.code == "OFFSET_MAP_LOST"

        return look

    def compact(self) -> None:
        """Write `b` again, and wait until the cleaner has taken the first one."""
        self.write("b")
        self.write("d")
        wait_cleaned(
            self.source.bootstrap, self.one.topic, lambda seen: offsets(seen)[:2] == [0, 2]
        )

    def mirrored(self) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values at the target."""
        return [(key, value) for _, _, key, value, _ in read_committed(*self._mirror)]

    @property
    def _mirror(self) -> tuple[str, str]:
        return self.target.bootstrap, self.one.topic


@pytest.fixture
def late(cluster_pair: ClusterPair, start_cluster: Callable[..., Cluster]) -> Iterator[Late]:
    hurry_cleaner(cluster_pair.source.bootstrap)
    proxy = FaultProxy()
    # The records are of long ago: a second after its start a broker looks which it may delete.
    target = start_cluster("target", settings={**proxy.settings, "log.retention.ms": "-1"})
    with proxy.serving(target.brokers[0].endpoint):
        made = Late(cluster_pair.source, target, proxy)
        made.write("abc")
        yield made


FIRST = [(b"a", b"0"), (b"b", b"0"), (b"c", b"0")]
NEXT = [(b"a", b"0"), (b"c", b"0"), (b"b", b"1"), (b"d", b"2")]


def test_a_late_append_before_the_next_rounds_appends_stops_the_mirror(late: Late) -> None:
    """Given a killed round's append in flight / when it lands under the next round's map / then

    the mirror stops and stays stopped: under that map it would hold other records, or miss one.
    """
    request = late.killed_append()
    assert ends(late.target.bootstrap, {late.one.topic: 1})[late.one.topic] == [0]
    late.compact()
    late.one.copy(late.lands_before_the_next(request))
    assert late.mirrored() == FIRST
    report = late.one.copy_until("OFFSET_MAP_LOST")
    assert report.state.is_stopped
    assert late.mirrored() == FIRST


def test_a_late_append_after_the_next_rounds_appends_duplicates_nothing(late: Late) -> None:
    """Given the same / when it lands after the records of the next round / then it is refused."""
    request = late.killed_append()
    late.compact()
    late.one.copy_to(5)
    late.land(request)
    assert late.mirrored() == NEXT
    late.write("e")
    late.one.copy_to(6)
    assert late.mirrored() == [*NEXT, (b"e", b"3")]
