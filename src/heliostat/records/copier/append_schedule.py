"""Which partitions of a lane have something to append, and when it is sent to which broker.

I10 `may_send` is checked before every append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.names import BrokerId
from heliostat.records.copier.fetch_schedule import FetchSchedule
from heliostat.records.copier.lane_copies import any_old, went_wrong
from heliostat.records.copier.lane_limits import Priority
from heliostat.records.copier.lease import Lease
from heliostat.records.copier.network import (
    LIVE,
    AppendLost,
    ChannelKey,
    GroupAnswer,
    Network,
    Send,
    Traffic,
)
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.plain_way import PlainWay

APPEND_REQUEST_BYTES_MAX = 8 * 1024 * 1024
"""Far below a broker's `socket.request.max.bytes` (100 MiB); it reads so much in milliseconds."""
Sendable = dict[int, PartitionCopy]


class AppendSchedule:
    """The appends of one lane.

    Parameters
    ----------
    partitions
        Partitions of the lane, by index.
    network
        Connections to both clusters.
    lease
        For how long the round may send.
    fetches
        Decides which partitions lag far: these have separate connections for appends, too.
    plain
        The partitions that compiled code copies.
    """

    def __init__(
        self,
        partitions: Sequence[PartitionCopy],
        network: Network,
        lease: Lease,
        fetches: FetchSchedule,
        plain: PlainWay,
    ) -> None:
        self.plain = plain
        self._partitions = partitions
        self._network = network
        self._lease = lease
        self._fetches = fetches
        self._leader: Mapping[int, BrokerId] = {}
        self._sendable: dict[ChannelKey, Sendable] = {}
        self._channel: dict[int, ChannelKey] = {}

    def led_by(self, leaders: Mapping[int, BrokerId]) -> None:
        """Rebuild the queues for the brokers that lead the target's partitions now."""
        self._leader = leaders
        self._sendable = {}
        for item in self._partitions:
            item.progress.cells.leave_plain()  # its leader may be another
            self.mark(item)  # one that was given up has no queue

    def mark(self, item: PartitionCopy) -> None:
        """Queue a partition for its connection if it has something to send.

        It changes connections only with nothing in flight: two connections don't keep an order.
        """
        index = item.index
        broker = self._leader.get(index)
        if broker is None or not (item.appends.queue or item.phase is Phase.ALIGN_START):
            return
        channel_key = self._channel.get(index)
        if channel_key is None or item.appends.in_flight == 0 or channel_key[0] != broker:
            channel = self._fetches.channel_of(index)
            wanted = (broker, channel if channel.traffic is Traffic.BACKLOG else LIVE)
            if channel_key is not None and channel_key != wanted:
                self._sendable.get(channel_key, {}).pop(index, None)
            channel_key = self._channel[index] = wanted
        self._sendable.setdefault(channel_key, {})[index] = item

    def judge(self, item: PartitionCopy) -> None:
        """Let compiled code copy a partition from now on, if it is plain; see `PlainWay`."""
        index = item.index
        broker = self._leader.get(index)
        if broker is not None and self._channel.get(index) == (broker, LIVE):
            self.plain.judge(item, broker)

    def take(self, answer: GroupAnswer, asked_ms: int, now_ms: int) -> list[int]:
        """See `PlainWay.take`; what goes by way of objects is sent first."""
        brokers = tuple(
            broker
            for broker in self.plain.leaders
            if not self._sendable.get((broker, LIVE)) and self._network.can_append(broker, LIVE)
        )
        return self.plain.take(answer, brokers, asked_ms, now_ms)

    def _send_plain(self, now_s: float) -> None:
        for broker, sends in self.plain.to_send():
            if self._lease.may_send():
                self._network.append_plain(broker, LIVE, sends)
            else:
                self._lose(sends.objects(), now_s, self._lease.clock.wall_ms())

    def _lose(self, sends: list[Send], now_s: float, now_ms: int) -> None:
        """The lease ended while the request was built: nothing of it was sent."""
        lost = AppendLost(sends, "the round's lease has ended")
        went_wrong(self._partitions, lost, now_s, now_ms)

    @property
    def has_any(self) -> bool:
        """Whether some partition has something to send, now or after a while."""
        return self.plain.has_any or any(self._sendable.values())

    def send(self, now_s: float) -> None:
        """Send what can be sent, first what compiled code has taken; nothing before a lease."""
        if self._lease.is_pending:
            return
        if self.plain.has_any:
            self._send_plain(now_s)
        now_ms = self._lease.clock.wall_ms()
        for (broker, channel), items in self._sendable.items():
            while items and self._network.can_append(broker, channel):
                if self._network.is_appending(broker, channel) and any_old(items, now_ms):
                    break
                sends = self._one_batch_of_each(items, now_s, now_ms)
                if not sends or not self._lease.may_send():
                    self._lose(sends, now_s, now_ms)
                    break
                self._network.append(broker, channel, sends)

    def _one_batch_of_each(self, items: Sendable, now_s: float, now_ms: int) -> list[Send]:
        """Take one batch of every ready partition: brokers accept one per partition and request."""
        sends: list[Send] = []
        size = 0
        ready = list(items.values())
        if self._fetches.limited.has_high:
            ready.sort(key=_is_not_high)
        for item in ready:
            send = item.next_send(now_s, now_ms)
            if send is None:
                if now_s >= item.appends.may_land_until_s:
                    del items[item.index]  # comes back when an answer or a fetch changes it
                continue
            # To the end of the queue, so that a full request does not starve the others.
            items[item.index] = items.pop(item.index)
            sends.append(send)
            size += send.batch.size
            if size >= APPEND_REQUEST_BYTES_MAX:
                break
        return sends


def _is_not_high(item: PartitionCopy) -> bool:
    return item.spec.priority is not Priority.HIGH
