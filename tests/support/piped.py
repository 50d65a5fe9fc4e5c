"""A link with a pipeline, on real clusters."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import said
from support.holes import read_if_there
from support.links import write_config
from support.records import NONE, Sample, encode, write_batches

from heliostat.names import TopicName


class Piped:
    """A topic with a pipeline, and one without, of a link of their own."""

    def __init__(
        self,
        pair: ClusterPair,
        folder: Path,
        *steps: dict[str, Any],
        timeout_s: float = 60,
        **link: Any,
    ) -> None:
        self.pair = pair
        self.at_ms = int(time.time() * 1000)
        self.topic = create_topic(pair.source, fresh_name("piped"), partitions=2)
        self.plain = create_topic(pair.source, fresh_name("plain"))
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=fresh_name("link"),
            topics={"include": [self.topic, self.plain], "refresh_interval_s": 0.5},
            pipelines=[
                {
                    "name": "hide",
                    "topics": [self.topic],
                    "steps": list(steps),
                    "timeout_s": timeout_s,
                }
            ],
            **link,
        )

    def write(
        self,
        *values: bytes | None,
        topic: TopicName | None = None,
        partition: int = 0,
        codec: int = NONE,
    ) -> None:
        """Write one batch."""
        headers = (("secret", b"1"), ("kept", None))
        batch = encode([Sample(b"k", value, self.at_ms, headers) for value in values], codec)
        cluster = self.pair.source.bootstrap.split(",")
        write_batches(cluster, topic or self.topic, [batch], partition=partition)

    def read(self, topic: TopicName | None = None) -> list[Any]:
        """All that a reader of the target sees; nothing while the topic is not there yet."""
        return read_if_there(self.pair.target.bootstrap, topic or self.topic)

    def values(self, topic: TopicName | None = None) -> list[bytes | None]:
        # Rows are (offset, key, value, timestamp, headers).
        return [row[2] for row in self.read(topic)]

    def problems(self) -> list[Any]:
        (status,) = said(self.config, "status")
        return list(status["problems"])
