"""Common code of fault tests: a link under load, and what must hold when a fault is over.

A `Stage` is two clusters and a running link; a `Trial` puts load on its own topics before,
during and after a fault, and ends with everything verified by content.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession
from support.clusters import HEAP_MB, ClusterPair, fresh_name
from support.links import (
    End,
    Link,
    LinkProcess,
    RunningLink,
    ends,
    ends_or_errors,
    wait_for,
    write_config,
)
from support.proxy import FaultProxy

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.names import LinkName, TopicName
from heliostat.offsets.look import look, read_map_view
from heliostat.offsets.values import TranslatedPartition
from heliostat.operate.status import link_statuses
from heliostat.state.link_state import LinkState, Stored
from heliostat.status.values import LinkStatus
from heliostat.verify.pipeline import verify_pair
from heliostat.verify.ranges import RangeSpec, TopicPair
from heliostat.verify.report import VerifyReport
from heliostat_sandbox import Cluster, ClusterSpec, start_many
from heliostat_sandbox.load import LoadGenerator
from heliostat_sandbox.shapes import GenericShape, TopicLoad

LAG_NORMAL_S = 1.5
"""Lag of a link under small load: a fetch, an append, and the time between our own checks."""
STARTED_WITHIN_S = 150.0
"""The first trial of a stage also waits for the start of the link and of Spark."""
LOOK_S = 0.1
RECOVERED_WITHIN_S = 120.0
"""A broker's restart, the longest pause between retries, and a busy machine."""
DAY_MS = 86_400_000
STEPPED_FOLDER = Path(__file__).with_name("stepped")


def small_load(topic: str, **options: Any) -> TopicLoad:
    """Return a load of some hundred records a second over three partitions, in small batches.

    Fifty batches a second: each costs work in a broker, a lane and the load (a hundred took
    0.3 s more of processor time a second).
    """
    settings = {"partitions": 3, "rate_hz": 300.0, "batch_records": 6, **options}
    return TopicLoad(TopicName(topic), **{"shape": GenericShape(value_bytes=200), **settings})


@dataclass
class Stage:
    """Two clusters, a link between them, and Spark; see `stage_of` and `stage_on`.

    `at_source` and `at_target` are proxies in front of the brokers of one-broker clusters.
    """

    source: Cluster
    target: Cluster
    config: Path
    spark: SparkSession
    link: Link | None = None
    has_process: bool = False
    """Whether links run as separate processes, which can be killed."""
    at_source: FaultProxy | None = None
    at_target: FaultProxy | None = None
    prefix: str = "fault"
    """Of the topics that the link copies, before a dash."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the link during the block; it ends with it, whatever happens in it."""
        try:
            self.start_link()
            yield
        finally:
            if self.link is not None:
                self.link.kill_all()

    @property
    def name(self) -> LinkName:
        """Name of the link."""
        return load_config(self.config).links[0].name

    def start_link(self) -> Link:
        """Start `heliostat run`; the one before must have ended."""
        if self.link is not None:
            self.link.kill_all()
        self.link = (LinkProcess if self.has_process else RunningLink)(self.config)
        return self.link

    @property
    def process(self) -> LinkProcess:
        """The link that runs as a separate process."""
        assert isinstance(self.link, LinkProcess)
        return self.link

    def stop_link(self) -> None:
        """Stop the link as an operator does."""
        assert self.link is not None
        assert self.link.stop() == 0, self.text()

    def status(self) -> LinkStatus:
        """Return the output of `heliostat status`."""
        config = load_config(self.config)
        return link_statuses(config, config.links[0].name)[0]

    def looked_at(self) -> list[TranslatedPartition]:
        """Return the output of `heliostat offsets`."""
        config = load_config(self.config)
        return look(config, config.links[0]).partitions

    def remembered(self) -> Stored:
        """Return the contents of the state topic."""
        config = load_config(self.config)
        state = LinkState(config.links[0], config.clusters[config.links[0].target])
        try:
            return state.read()
        finally:
            state.close()

    def said_of(self, topic: TopicName) -> list[str]:
        """Return the status's problems of a topic."""
        status = self.status()
        refused = [status.refused[topic]] if topic in status.refused else []
        return refused + [one.reason for one in status.problems if one.source == topic]

    def text(self) -> str:
        """The end of the link's output."""
        return self.link.text()[-4000:] if self.link is not None else ""

    def verify(self, topics: Sequence[TopicName]) -> VerifyReport:
        """Return the result of `verify --complete`, with offsets compared by the link's map."""
        config = load_config(self.config)
        return verify_pair(
            self.spark,
            self.source.bootstrap,
            self.target.bootstrap,
            [TopicPair(topic, topic) for topic in topics],
            ranges=RangeSpec(is_complete=True),
            read_map=lambda: read_map_view(config, config.links[0]),
        )


class SteppedClock:
    """The wall clock of links that start during the block; not of brokers, nor of Spark's JVM."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock-step"
        self.step(0.0)
        self.environment = {
            "HELIOSTAT_TEST_CLOCK_STEP_FILE": str(self._file),
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(STEPPED_FOLDER), os.environ.get("PYTHONPATH", "")])
            ),
        }

    def step(self, seconds: float) -> None:
        """Set it to so many seconds from the real time."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(seconds), encoding="ascii")
        fresh.replace(self._file)  # atomically: processes read it all the time


@contextlib.contextmanager
def stage_of(
    folder: Path,
    spark: SparkSession,
    *,
    at_target: int = 1,
    proxied: bool = False,
    has_process: bool = False,
    source: Mapping[str, str] | None = None,
    target: Mapping[str, str] | None = None,
    link: Mapping[str, Any] | None = None,
) -> Iterator[Stage]:
    """Two clusters with these broker settings and a running link with these keys.

    `at_target` is the number of brokers of the target.
    """
    proxies = [FaultProxy(), FaultProxy()] if proxied else []
    settings = [dict(source or {}), dict(target or {})]
    for own, proxy in zip(settings, proxies, strict=False):
        own.update(proxy.settings)
    clusters = start_many(
        [
            ClusterSpec(name, brokers=brokers, settings=own, heap_mb=HEAP_MB)
            for name, brokers, own in zip(
                ("source", "target"), (1, at_target), settings, strict=True
            )
        ]
    )
    with contextlib.ExitStack() as stack:
        for cluster in clusters:
            stack.enter_context(cluster)
        for cluster, proxy in zip(clusters, proxies, strict=False):
            stack.enter_context(proxy.serving(cluster.brokers[0].endpoint))
        addresses = [proxy.address for proxy in proxies] or [each.bootstrap for each in clusters]
        keys = {"topics": {"include": ["fault-.*"], "refresh_interval_s": 1}, **(link or {})}
        config = write_config(folder, addresses[0], addresses[1], **keys)
        stage = Stage(clusters[0], clusters[1], config, spark, has_process=has_process)
        if proxied:
            stage.at_source, stage.at_target = proxies
        stack.enter_context(stage.running())
        yield stage


@contextlib.contextmanager
def stage_on(
    pair: ClusterPair,
    folder: Path,
    spark: SparkSession,
    *,
    has_process: bool = False,
    link: Mapping[str, Any] | None = None,
) -> Iterator[Stage]:
    """A running link of its own between shared clusters, with these keys.

    It copies topics with its stage's prefix, which is its name.
    """
    name = fresh_name("fault")
    topics = {"include": [f"{name}-.*"], "refresh_interval_s": 0.5}
    keys = {"name": name, "topics": topics, **(link or {})}
    config = write_config(folder, pair.source.bootstrap, pair.target.bootstrap, **keys)
    stage = Stage(pair.source, pair.target, config, spark, has_process=has_process, prefix=name)
    with stage.running():
        yield stage


class Trial:
    """Load on topics of one test; as a context manager the load runs during the block.

    Parameters
    ----------
    stage
        Clusters and running link.
    loads
        Loads; by default a small load on one fresh topic.
    beside
        Loads on topics that the fault affects on purpose: they are not checked here.
    acks
        `acks` of the producers.
    """

    def __init__(
        self, stage: Stage, *loads: TopicLoad, beside: Sequence[TopicLoad] = (), acks: int = 1
    ) -> None:
        self.stage = stage
        self.loads = loads or (small_load(fresh_name(stage.prefix)),)
        self.topics = {load.topic: load.partitions for load in self.loads}
        self._generator = LoadGenerator(stage.source.bootstrap, [*self.loads, *beside], acks=acks)

    @property
    def topic(self) -> TopicName:
        """The first topic."""
        return self.loads[0].topic

    @cached_property
    def names_at_source(self) -> tuple[bytes, ...]:
        """Names and ids (KIP-516) of the topics, as in requests."""
        return names_of(self.stage.source.bootstrap, self.topics)

    @cached_property
    def names_at_target(self) -> tuple[bytes, ...]:
        """Names and ids of the mirrors, as in requests."""
        return names_of(self.stage.target.bootstrap, self.topics)

    def fill(self, records: int) -> None:
        """Append a backlog to the first topic at once, besides the load."""
        self._generator.fill(self.loads[0], records, distinct_batches=50)

    def __enter__(self) -> Self:
        self._generator.start()
        try:
            self.wait_normal(STARTED_WITHIN_S)
        except BaseException:
            self._generator.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.settle()
        else:
            with contextlib.suppress(Exception):  # the first failure is the one to report
                self._generator.stop()

    def source_ends(self) -> dict[str, list[int]]:
        """Return the log ends of the topics' partitions at the source."""
        return ends(self.stage.source.bootstrap, self.topics)

    def target_ends(self) -> dict[str, list[int]]:
        """Return the log ends of the topics' partitions at the target."""
        return ends(self.stage.target.bootstrap, self.topics)

    def copied(self) -> int:
        """Records at the target."""
        return sum(max(0, end) for ends_of in self.target_ends().values() for end in ends_of)

    def wait_copied(self, more: int = 1, within_s: float = RECOVERED_WITHIN_S) -> None:
        """Wait until so many more records are at the target."""
        least = self.copied() + more
        self._wait(f"{more} more records copied", lambda: self.copied() >= least, within_s)

    def wait_sent(self, more: int, within_s: float = RECOVERED_WITHIN_S) -> None:
        """Wait until so many more records were sent to the source, acknowledged or not."""
        least = self._generator.counts.sent + more
        self._wait(f"{more} more sent", lambda: self._generator.counts.sent >= least, within_s)

    def wait_tried(self, proxy: FaultProxy, times: int) -> None:
        """Wait until so many more connections were refused."""
        least = proxy.counts["refused"] + times
        self._wait(f"{times} connections refused", lambda: proxy.counts["refused"] >= least)

    def wait_normal(self, within_s: float = RECOVERED_WITHIN_S) -> None:
        """Wait until the lag is normal under load: records of the source arrive at once."""
        seen: list[Any] = []

        def is_normal() -> bool:
            wanted = self.source_ends()
            deadline_s = time.monotonic() + LAG_NORMAL_S
            while time.monotonic() < deadline_s:
                got = ends_or_errors(self.stage.target.bootstrap, self.topics)
                seen[:] = [wanted, got]
                if any(any(row) for row in wanted.values()) and _reaches(got, wanted):
                    return True
                time.sleep(LOOK_S)  # each check opens connections
            return False

        try:
            self._wait("the lag to be normal", is_normal, within_s)
        except AssertionError as error:
            raise AssertionError(f"{seen}\n{error}") from None

    def settle(self) -> None:
        """Wait for a normal lag; then stop the load, wait for lag 0, verify, expect no problems."""
        self.wait_normal()
        self._generator.stop()
        self._wait("both sides level", lambda: self.source_ends() == self.target_ends())
        total = sum(sum(row) for row in self.source_ends().values())
        report = self.stage.verify(list(self.topics))
        assert report.is_clean, "\n".join([*report.lines(), self.stage.text()])
        assert report.offsets_equal
        assert (report.lost, report.doubled, report.reordered, report.different) == (0, 0, 0, 0)
        assert report.records == total > 0
        self._wait("a status without lag and problems", self._is_status_calm)

    def _is_status_calm(self) -> bool:
        status = self.stage.status()
        rows = [row for row in status.topics if row.source in self.topics]
        return (
            status.state == "running"
            and {row.source for row in rows} == set(self.topics)
            and all(row.lag_records == 0 and not row.unknown for row in rows)
            and not any(item.source in self.topics for item in status.problems)
        )

    def _wait(self, what: str, condition: Any, within_s: float = RECOVERED_WITHIN_S) -> None:
        try:
            wait_for(what, condition, within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.stage.text()}") from None


def names_of(bootstrap: str, topics: Iterable[TopicName]) -> tuple[bytes, ...]:
    """Return names and ids of topics, as they are in requests."""
    with ClusterAdmin(bootstrap.split(",")) as admin:
        found = admin.describe_topics(topics)
    ids = [topic.topic_id for topic in found.values()]
    assert None not in ids
    return (
        *(topic.encode() for topic in found),
        *(topic_id.bytes for topic_id in ids if topic_id is not None),
    )


def _reaches(got: Mapping[str, list[End]], wanted: Mapping[str, list[int]]) -> bool:
    return all(
        isinstance(have, int) and have >= want
        for topic in wanted
        for have, want in zip(got[topic], wanted[topic], strict=True)
    )
