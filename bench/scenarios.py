"""What is copied in each scenario, and the parts each replicator runs."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holes
import limit
import measure
import ours
import peer
import piped
from clusters import Pair, create_topic, log_ends
from fill import fill, framed
from measure import Part
from reach import NEAR, Far
from registries import registries_of

PART_NAMES = ("append_limit", "mm2_default", "mm2_tuned", "ours")
"""Order of parts: the first also warms up the brokers' compiled code for the others."""
PARTS_WITH_HOLES = ("mm2_default", "mm2_tuned", "ours")
"""Parts for sources with holes or a pipeline, for which the append limit is meaningless."""
WORKERS = {"ours_1_worker": 1, "ours_2_workers": 2}
"""Parts that run on a standalone Spark cluster, and their number of one-core workers."""
DEADLINE_S = 600.0
"""A part is meant to take a few minutes; default MirrorMaker needs two for 4 M records."""
DEADLINE_SMALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One shape of source data.

    `record_bytes` is the size of a record's value; keys are null and there are no headers.
    `batch_records` is how many of them the source holds in a batch. `secure` is whether replicators
    connect by TLS with SCRAM.
    """

    name: str
    codecs: tuple[str, ...]
    partitions: int
    records: int
    record_bytes: int
    batch_records: int
    small: bool = False
    secure: bool = False
    far: Far = NEAR
    holes: str = ""
    """Kind of holes between the offsets, see `holes`; empty: none."""
    steps: tuple[Mapping[str, Any], ...] = ()
    """The pipeline that records go through on their way, see `piped`."""
    avro: bool = False
    """Whether values are framed Avro records, whose schema a registry has."""
    json: bool = False
    """Whether values are JSON objects."""

    def shrunk(self) -> Scenario:
        """Return the same shape with a few thousand records, for the benchmark's own test."""
        return dataclasses.replace(self, records=SMALL_RECORDS, small=True)

    @property
    def is_filtered(self) -> bool:
        """Whether the pipeline leaves records out."""
        return bool(self.steps) and self.steps != piped.DROP

    @property
    def deadline_s(self) -> float:
        """Time limit of a part."""
        return DEADLINE_SMALL_S if self.small else DEADLINE_S

    def topic(self, codec: str) -> str:
        """Return the source topic of a codec."""
        return f"{self.name}-{codec}"


GROUP_NUMBERS = itertools.count(1)
SMALL_RECORDS = 8_000
SENDERS = 2
"""Processes that measure what the target can append; more were not faster on 2 cores."""

SCENARIOS = {
    "bulk": Scenario(
        name="bulk",
        codecs=("none", "lz4"),
        partitions=4,
        records=4_000_000,
        record_bytes=500,
        batch_records=128,  # 64 KB
    ),
    # Eight partitions, so that requests can carry several one-record batches at once: a broker
    # takes only one batch of a partition in a request. 2 M records keep tuned MirrorMaker busy for
    # about half a minute.
    "tiny": Scenario(
        name="tiny",
        codecs=("none",),
        partitions=8,
        records=2_000_000,
        record_bytes=200,
        batch_records=1,
    ),
    # A marker after every hundred records of a partition.
    "transactional": Scenario(
        name="transactional",
        codecs=("none",),
        partitions=4,
        records=1_000_000,
        record_bytes=500,
        batch_records=100,
        holes=holes.TRANSACTIONS,
    ),
    # One record in ten is left, some twelve in a batch of 128.
    "compacted": Scenario(
        name="compacted",
        codecs=("none",),
        partitions=4,
        records=8_000_000,
        record_bytes=200,
        batch_records=128,
        holes=holes.COMPACTION,
    ),
    "pipeline": Scenario(
        name="pipeline",
        codecs=("none", "lz4"),
        partitions=4,
        records=2_000_000,
        record_bytes=500,
        batch_records=128,
        steps=piped.STEPS,
    ),
}
SCENARIOS["pipeline_headers"] = dataclasses.replace(
    SCENARIOS["pipeline"], name="pipeline_headers", steps=piped.DROP
)
SCENARIOS["pipeline_sql"] = dataclasses.replace(
    SCENARIOS["pipeline"], name="pipeline_sql", steps=piped.SQL
)
SCENARIOS["pipeline_avro"] = dataclasses.replace(
    SCENARIOS["pipeline"], name="pipeline_avro", steps=piped.AVRO, avro=True
)
SCENARIOS["pipeline_json"] = dataclasses.replace(
    SCENARIOS["pipeline"], name="pipeline_json", steps=piped.JSON, json=True
)


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of one scenario between two running clusters."""

    scenario: Scenario
    pair: Pair
    folder: Path
    java: Path
    due: dict[str, int] = dataclasses.field(default_factory=dict)
    """Number of records that readers see, of a source topic with holes or through a pipeline."""

    def fill(self, codec: str) -> None:
        """Create the source topic, the only one at A, and fill it."""
        topic = self.scenario.topic(codec)
        self.pair.clear(topic)
        create_topic(self.pair.source, topic, self.scenario.partitions)
        shape: dict[str, Any] = {
            "partitions": self.scenario.partitions,
            "records": self.scenario.records,
            "record_bytes": self.scenario.record_bytes,
        }
        each = self.scenario.batch_records
        if self.scenario.holes == holes.TRANSACTIONS:
            self.due[topic] = holes.fill_transactions(self.pair.source, topic, each=each, **shape)
        elif self.scenario.holes == holes.COMPACTION:
            self.due[topic] = holes.fill_compacted(self.pair.source, topic, each=each, **shape)
        elif self.scenario.steps:
            is_filtered = self.scenario.is_filtered
            more: dict[str, Any] = {"headers": piped.headers_of if is_filtered else piped.dropped}
            if self.scenario.avro:
                # The first id that a registry gives.
                more["values"] = framed(piped.avro_begins(1, self.scenario.record_bytes))
            if self.scenario.json:
                more["values"] = piped.json_value
            count = fill(self.pair.source, topic, batch_records=each, codec=codec, **more, **shape)
            self.due[topic] = piped.left(count, each) if is_filtered else count
        else:
            fill(self.pair.source, topic, batch_records=each, codec=codec, **shape)

    def measure(self, name: str, codec: str) -> dict[str, Any]:
        """Run one part for one codec on fresh topics and return its block."""
        if name == "mm2_default":
            return self.mirror_maker(name, codec, {})
        if name == "mm2_tuned":
            best = peer.TUNED[self.scenario.name]
            settings = peer.CANDIDATES[best]
            block = self.mirror_maker(name, codec, settings)
            return {**block, "settings": best, "properties": settings}
        if name in WORKERS:
            return self.on_workers(name, codec)
        return self.append_limit(codec) if name == "append_limit" else self.heliostat(name, codec)

    def mirror_maker(self, name: str, codec: str, settings: Mapping[str, str]) -> dict[str, Any]:
        """Run MirrorMaker 2 with these settings besides the necessary ones."""
        topic = self.scenario.topic(codec)
        folder = self.folder / f"{name}-{codec}"
        wanted = peer.properties(*self.pair.ways(), topic, codec, settings)
        # A separate group: the coordinator waits for the previous part, which was killed.
        wanted["B.group.id"] = f"mm2-{next(GROUP_NUMBERS)}"
        if self.scenario.steps:
            wanted |= piped.TRANSFORMS if self.scenario.is_filtered else piped.TRANSFORMS_DROP
        total = self.due.get(topic) or sum(self._high_watermarks(codec).values())
        return self._run(
            name,
            codec,
            peer.command(self.java, folder, wanted, quick=self.scenario.small),
            peer.target_topic(topic),
            records_total=total,
            stop=signal.SIGKILL,  # it takes seconds to shut down, and all its topics are deleted
        )

    def _high_watermarks(self, codec: str) -> dict[int, int]:
        topic = self.scenario.topic(codec)
        return log_ends(self.pair.source, topic, self.scenario.partitions)

    def heliostat(self, name: str, codec: str) -> dict[str, Any]:
        """Run Heliostat with defaults; its target must have the source's end offsets."""
        topic = self.scenario.topic(codec)
        folder = self.folder / f"{name}-{codec}"
        wanted = ours.config(*self.pair.ways(), [topic], steps=self.scenario.steps, part=name)
        expected: dict[str, Any] = {"ends": self._high_watermarks(codec)}
        if topic in self.due:
            expected = {"records_total": self.due[topic], "look": self._map_size}
        with contextlib.ExitStack() as open_until_done:
            if self.scenario.avro:
                subjects = [(f"{topic}-value", piped.AVRO_SCHEMA)]
                having = registries_of(wanted, folder, "isolate", subjects)
                open_until_done.enter_context(having)
            command = ours.command(folder, wanted)
            return self._run(name, codec, command, ours.prefix_of(name) + topic, **expected)

    def _map_size(self) -> dict[str, Any]:
        """Return the size of the offset map: keys and values of its rows after compaction."""
        rows = ours.map_rows(self.pair.target)
        size = sum(len(key) + len(value) for key, value in rows.items())
        millions = sum(self.due.values()) / 1e6
        return {
            "map_bytes": size,
            "map_rows": len(rows),
            "map_bytes_per_million_records": round(size / millions),
        }

    def on_workers(self, name: str, codec: str) -> dict[str, Any]:
        """Run Heliostat on a standalone Spark cluster, whose executors and workers are counted."""
        from heliostat_sandbox.spark_cluster import SparkCluster

        topic = self.scenario.topic(codec)
        folder = self.folder / f"{name}-{codec}"
        with SparkCluster.start(WORKERS[name], worker_cores=1) as spark:
            wanted = ours.config(*self.pair.ways(), [topic], spark.master)
            return self._run(
                name,
                codec,
                ours.command(folder, wanted),
                ours.prefix_of(name) + topic,
                ends=self._high_watermarks(codec),
                environment={"PYSPARK_PYTHON": sys.executable},
                helpers=[worker.pid for worker in spark.workers],
            )

    def append_limit(self, codec: str) -> dict[str, Any]:
        """Measure the append limit: the better of the two shapes, with both under `shapes`."""
        shapes = {shape: self._append(codec, shape) for shape in ("as_source", "joined")}
        best = max(shapes, key=lambda shape: shapes[shape].get("records_per_s", 0))
        return {**shapes[best], "shape": best, "shapes": shapes}

    def _append(self, codec: str, shape: str) -> dict[str, Any]:
        scenario = self.scenario
        source_topic = scenario.topic(codec)
        topic = f"limit.{source_topic}"
        batch = limit.shaped(self.pair.source, source_topic, shape)
        _, total = limit.plan(batch, scenario.partitions, scenario.records)
        command = limit.command(
            source=self.pair.source,
            source_topic=source_topic,
            target=self.pair.target,
            target_topic=topic,
            partitions=scenario.partitions,
            records=scenario.records,
            senders=SENDERS,
            shape=shape,
        )
        return self._run(
            f"append_limit-{shape}", codec, command, topic, records_total=total, create=True
        )

    def _run(
        self,
        name: str,
        codec: str,
        command: Sequence[str],
        target_topic: str,
        *,
        ends: Mapping[int, int] | None = None,
        records_total: int = 0,
        create: bool = False,
        stop: signal.Signals = signal.SIGTERM,
        environment: Mapping[str, str] | None = None,
        helpers: Sequence[int] = (),
        look: Callable[[], dict[str, Any]] = dict,
    ) -> dict[str, Any]:
        keep = self.scenario.topic(codec)
        self.pair.clear(keep)
        if create:
            create_topic(self.pair.target, target_topic, self.scenario.partitions)
        part = Part(
            name=name,
            command=command,
            environment=environment or {},
            folder=self.folder / f"{name}-{codec}",
            topic=target_topic,
            partitions=self.scenario.partitions,
            records_total=sum(ends.values()) if ends is not None else records_total,
            record_bytes=self.scenario.record_bytes,
            deadline_s=self.scenario.deadline_s,
            ends=ends,
            stop=stop,
            helpers=helpers,
        )
        try:
            return {**measure.run(part, self.pair.brokers()), **look()}
        finally:
            self.pair.clear(keep)
