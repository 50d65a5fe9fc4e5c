"""Both clusters of a lane with a pipeline: what came back from it is an event like answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from typing_extensions import override

from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import Event, Transformed
from heliostat.records.copier.transform import Transform
from heliostat.records.transport.kafka_network import WireNetwork


class Exchange(Transform, Protocol):
    """A lane's pipeline, seen from its network."""

    partitions: list[PartitionSpec]
    """By index; the network adds what the lane takes."""

    def fileno(self) -> int | None:
        """Return a file that is readable when something has come back; None: it does at once."""
        ...

    def take(self) -> Sequence[Transformed]:
        """Return the answers that have come back."""
        ...


class PipedNetwork(WireNetwork):
    """A `WireNetwork` that waits for a pipeline, too.

    Parameters
    ----------
    exchange
        The lane's pipeline.
    network
        See `WireNetwork`, or what else it is made of.
    """

    def __init__(self, exchange: Exchange, *network: Any, **more: Any) -> None:
        super().__init__(*network, **more)
        self._exchange = exchange
        if (file := exchange.fileno()) is not None:
            self._watched.wake_by(file)

    @override
    def change(self, gone: Sequence[int], new: Sequence[PartitionSpec]) -> None:
        """See `Network`."""
        super().change(gone, new)
        self._exchange.partitions.extend(new)

    @override
    def wait(self, timeout_s: float, room_bytes: int) -> Iterable[Event]:
        """See `Network`."""
        ready = self._exchange.take()
        return [*ready, *super().wait(0.0 if ready else timeout_s, room_bytes)]
