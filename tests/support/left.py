"""What a killed MirrorMaker 2 leaves, written by tests: positions and mirrors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import RunningLink, ends, wait_for, write_config
from support.records import NONE, Sample, encode, write_batches

from heliostat.cli.main import run
from heliostat.clusters.plain_records import PlainReader, RecordToWrite, write_records
from heliostat.config import load_config
from heliostat.mm2 import adopt as adoption
from heliostat.mm2.connect_offsets import FlowName, encode_key, encode_value, offsets_topic
from heliostat.names import Alias, PartitionId, TopicName, TopicPartition
from heliostat.state.link_state import LinkState
from heliostat.topics.values import MirrorRecord

NOW_MS = 1_790_000_000_000
OFFSET_PARTITIONS = 5


def sample(number: int) -> Sample:
    return Sample(b"k%d" % (number % 3), b"v%d" % number, NOW_MS + number, (("n", b"%d" % number),))


class Left:
    """Two clusters as a killed MirrorMaker 2 leaves them: one topic, one partition."""

    def __init__(self, pair: ClusterPair, folder: Path, at_source: int) -> None:
        self.pair = pair
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        self.alias = Alias(fresh_name("S"))
        self.topic = create_topic(pair.source, fresh_name("adopt"))
        self.mirror = create_topic(pair.target, f"{self.alias}.{self.topic}")
        self.positions = create_topic(
            pair.target,
            offsets_topic(self.alias),
            partitions=OFFSET_PARTITIONS,
            configs={"cleanup.policy": "compact"},
        )
        self.flow = FlowName("MirrorSourceConnector", self.alias)
        self.partition = TopicPartition(self.topic, PartitionId(0))
        self.write_source(range(at_source))
        self.config = write_config(
            folder,
            self.source,
            self.target,
            name=fresh_name("link"),
            topics={"include": [self.topic], "naming": {"prefix": f"{self.alias}."}},
        )

    def write_source(self, numbers: Sequence[int], codec: int = NONE) -> None:
        write_batches(self.source, self.topic, [encode([sample(n) for n in numbers], codec)])

    def write_target(self, numbers: Sequence[int]) -> None:
        write_batches(self.target, self.mirror, [encode([sample(n)]) for n in numbers])

    def commit(self, *copied: int) -> None:
        key = encode_key(self.flow, self.partition)
        rows = [RecordToWrite(key, encode_value(offset + 1)) for offset in copied]
        write_records(self.target, self.positions, rows)

    def committed(self) -> list[tuple[int, Any]]:
        """Return partition and value of all records of our key, as Connect would read them."""
        found: list[tuple[int, Any]] = []
        with PlainReader(self.target, committed=True) as reader:
            parts = reader.partitions(self.positions)
            for each, bounds in reader.bounds(parts).items():
                for record in reader.read(each, *bounds):
                    assert record.key == encode_key(self.flow, self.partition)
                    value = None if record.value is None else json.loads(record.value)["offset"]
                    found.append((each.partition, value))
        return found

    def adopt(self, *words: str) -> int:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(adoption, "STILL_S", 0.2)  # no request of MirrorMaker 2 is in flight
            return run(["adopt", "-c", str(self.config), "--alias", self.alias, *words])

    def at_target(self) -> list[bytes | None]:
        place = TopicPartition(TopicName(self.mirror), PartitionId(0))
        with PlainReader(self.target, committed=True) as reader:
            return [r.value for r in reader.read(place, *reader.bounds([place])[place])]

    def remembered(self) -> dict[TopicName, MirrorRecord]:
        """Return the link's mirrors by its state."""
        config = load_config(self.config)
        (link,) = config.links
        with closing(LinkState(link, config.clusters[link.target])) as state:
            return state.read().mirrors

    def of_another_link(self) -> Path:
        """Write the same configuration to another file, with another link name."""
        config = yaml.safe_load(self.config.read_text())
        config["links"][0]["name"] = fresh_name("rival")
        path = self.config.with_name("rival.yaml")
        path.write_text(yaml.safe_dump(config))
        return path

    def runs_until(self, count: int) -> None:
        with RunningLink(self.config) as link:
            wait_for(
                "the link to go on",
                lambda: ends(self.target, {self.mirror: 1})[self.mirror] == [count],
            )
            assert link.stop() == 0


def values(numbers: Sequence[int]) -> list[bytes]:
    return [b"v%d" % number for number in numbers]
