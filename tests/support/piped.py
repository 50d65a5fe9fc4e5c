"""Topics with a pipeline, or none, and links that copy them, on real clusters."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import said
from support.holes import read_if_there
from support.links import write_config
from support.records import NONE, Headers, Sample, encode, write_batches

HEADERS: Headers = (("secret", b"1"), ("kept", None))


class Topic:
    """A topic of the source, and its mirror.

    Parameters
    ----------
    pair
        Both clusters.
    name
        What its name begins with.
    options
        See `create_topic`.
    """

    def __init__(self, pair: ClusterPair, name: str = "piped", **options: Any) -> None:
        self.pair = pair
        self.at_ms = int(time.time() * 1000)
        self.topic = create_topic(pair.source, fresh_name(name), **options)

    def pipeline(self, *steps: dict[str, Any], timeout_s: float = 60) -> dict[str, Any]:
        """Return a link's configuration of a pipeline for this topic alone."""
        return {
            "name": self.topic,
            "topics": [self.topic],
            "steps": list(steps),
            "timeout_s": timeout_s,
        }

    def write(self, *values: bytes | None, partition: int = 0, codec: int = NONE) -> None:
        """Write one batch of records that have the same key and headers."""
        rows = [Sample(b"k", value, self.at_ms, HEADERS) for value in values]
        self.write_rows(*rows, partition=partition, codec=codec)

    def write_rows(self, *rows: Sample, partition: int = 0, codec: int = NONE) -> None:
        """Write one batch."""
        batch = encode(rows, codec)
        write_batches(self.pair.source.bootstrap, self.topic, [batch], partition=partition)

    def read(self) -> list[Any]:
        """All that a reader of the mirror sees; nothing while it is not there yet."""
        return read_if_there(self.pair.target.bootstrap, self.topic)

    def values(self) -> list[bytes | None]:
        # Rows are (offset, key, value, timestamp, headers).
        return [row[2] for row in self.read()]


def write_link(folder: Path, *topics: Topic, **link: Any) -> Path:
    """Write a configuration with one link of these topics; `link` has its keys."""
    pair = topics[0].pair
    include = [each.topic for each in topics]
    return write_config(
        folder,
        pair.source.bootstrap,
        pair.target.bootstrap,
        **{
            "name": fresh_name("link"),
            "topics": {"include": include, "refresh_interval_s": 0.5},
            **link,
        },
    )


def problems_of(config: Path) -> list[Any]:
    """Return the partitions of a configuration's one link that are not copied as they should be."""
    (status,) = said(config, "status")
    return list(status["problems"])


class Piped(Topic):
    """A topic with a pipeline, and one without, of a link of their own."""

    def __init__(
        self, pair: ClusterPair, folder: Path, *steps: dict[str, Any], **link: Any
    ) -> None:
        super().__init__(pair, partitions=2)
        self.plain = Topic(pair, "plain")
        self.config = write_link(
            folder, self, self.plain, pipelines=[self.pipeline(*steps)], **link
        )

    def problems(self) -> list[Any]:
        return problems_of(self.config)
