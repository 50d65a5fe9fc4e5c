"""What a topic was like that is deleted and made again, so that it is copied whole; pure.

Noted at the other cluster before it is deleted: whoever goes on after a crash makes it as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from heliostat.names import BrokerId, PartitionId, TopicId


@dataclass(frozen=True, slots=True)
class Recreation:
    """A topic as it was.

    Parameters
    ----------
    former_id
        The id of the topic that goes; None before Kafka 2.8.
    replicas
        The brokers of each partition, the preferred leader first.
    configs
        Settings of its own, not those that it inherits.
    """

    former_id: TopicId | None
    replicas: Mapping[PartitionId, tuple[BrokerId, ...]]
    configs: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return its part of a promotion's row."""
        return {
            "former_id": None if self.former_id is None else str(self.former_id),
            "replicas": {str(number): list(some) for number, some in self.replicas.items()},
            "configs": dict(self.configs),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row's part; raises `LookupError`, `TypeError` or `ValueError`."""
        former = value["former_id"]
        return cls(
            None if former is None else TopicId(former),
            {
                PartitionId(int(number)): tuple(BrokerId(int(replica)) for replica in some)
                for number, some in value["replicas"].items()
            },
            {str(key): str(text) for key, text in value["configs"].items()},
        )
