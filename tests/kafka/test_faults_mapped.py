"""Faults where offsets differ: a transactional and a compacted topic under load."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.clusters import ClusterPair, create_topic, fresh_name
from support.faults import RECOVERED_WITHIN_S, Stage, names_of, stage_of
from support.holes import (
    COMPACTED,
    EAGER_CLEANER,
    assert_none_lost,
    assert_same,
    transactions,
    write_compacted,
)
from support.links import ends_or_errors, kill, wait_for
from support.proxy import FETCH, PRODUCE, FaultProxy, Where

from heliostat.names import TopicName

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

CUT_WITHIN_S = 90.0
ROUNDS = 6
"""Of 2,000 records each, of which the cleaner leaves a fraction."""
SMALL = {"fetch_bytes_max": 60_000, "partition_fetch_bytes_max": 20_000}
"""So that copying is under way when something is killed."""


@pytest.fixture
def stage(tmp_path: Path, spark: SparkSession) -> Iterator[Stage]:
    # The mirror is not cleaned meanwhile, so that all that was copied can be compared.
    topics = {
        "include": ["fault-.*"],
        "refresh_interval_s": 1,
        "config_set": {"min.compaction.lag.ms": "3600000"},
        "config_exclude": ["max.compaction.lag.ms", "segment.bytes"],
    }
    with stage_of(
        tmp_path,
        spark,
        proxied=True,
        has_process=True,
        source=EAGER_CLEANER,
        link={"topics": topics, "records": SMALL},
    ) as made:
        yield made


class Holes:
    """Transactions, a third of them aborted, and keys written again and again."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._source = stage.source.bootstrap
        self._rng = random.Random(23)
        self.transactional = create_topic(stage.source, fresh_name("fault-tx"))
        self.compacted = create_topic(stage.source, fresh_name("fault-kept"), configs=COMPACTED)
        self.topics = (self.transactional, self.compacted)
        self._stop = threading.Event()
        self._failed: list[BaseException] = []

    def fill(self) -> None:
        """A backlog; the compacted one is cleaned before its last records are copied."""
        transactions(self._source, self.transactional, self._rng, 150)
        write_compacted(self._source, self._rng, self.compacted, ROUNDS)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Written to by a thread during the block."""
        thread = threading.Thread(target=self._write)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
        assert not self._failed

    def _write(self) -> None:
        try:
            while not self._stop.is_set():
                transactions(self._source, self.transactional, self._rng, 10)
                write_compacted(self._source, self._rng, self.compacted, 1)
                self._stop.wait(0.2)
        except BaseException as error:
            self._failed.append(error)
            raise

    def copied(self) -> dict[TopicName, int]:
        """Where the mirrors end; -1 where that can't be read."""
        found = ends_or_errors(self._stage.target.bootstrap, dict.fromkeys(self.topics, 1))
        return {t: end if isinstance(end := found[t][0], int) else -1 for t in self.topics}

    def wait_copied(self) -> None:
        """Until both mirrors have more."""
        before = wait_for("both to be told", self._told_ends, RECOVERED_WITHIN_S)
        wait_for(
            "both to be copied on",
            lambda: all(before[t] < end for t, end in self.copied().items()),
            RECOVERED_WITHIN_S,
        )

    def _told_ends(self) -> dict[TopicName, int] | None:
        """Return the mirrors' ends; a broker that has just started may not know them yet."""
        found = self.copied()
        return found if min(found.values()) >= 0 else None

    def told(self) -> str:
        """Return the mirrors' positions and the link's status."""
        return f"{self.copied()}, {self._stage.status()}\n{self._stage.text()}"

    def is_level(self) -> bool:
        """Return whether the link reports no lag, as far as transactions have ended.

        Reports are a second old and more: so it must name no less than the source holds now.
        """
        ends = ends_or_errors(self._source, dict.fromkeys(self.topics, 1))
        status = self._stage.status()
        if any(ends[each.source.topic][0] != each.position for each in self._stage.looked_at()):
            return False
        rows = [row for row in status.topics if row.source in self.topics]
        lags = [(row.lag_records, row.open_records, row.unknown) for row in rows]
        return lags == [(0, 0, 0)] * 2 and not status.problems


def cut_everywhere(proxy: FaultProxy, api_key: int, about: tuple[bytes, ...], holes: Holes) -> None:
    for where in Where:
        cut = proxy.cut_next(api_key, where, *about)
        assert cut.done.wait(CUT_WITHIN_S), f"not cut {where.value}: {holes.told()}"
    holes.wait_copied()


def test_mapped_mirrors_have_each_record_once_after_each_fault(stage: Stage) -> None:
    """Given holes and load / when cut, killed, restarted / then each record once, by the map."""
    assert stage.at_source is not None
    assert stage.at_target is not None
    assert stage.link is not None
    holes = Holes(stage)
    holes.fill()
    with holes.going_on():
        wait_for("the mirrors", lambda: min(holes.copied().values()) > 0, RECOVERED_WITHIN_S)
        source, target = stage.source.bootstrap, stage.target.bootstrap
        cut_everywhere(stage.at_source, FETCH, names_of(source, holes.topics), holes)
        cut_everywhere(stage.at_target, PRODUCE, names_of(target, holes.topics), holes)
        for _ in range(2):
            wait_for("workers to kill", lambda: kill(stage.process.workers()))
            holes.wait_copied()
        broker = stage.target.brokers[0]
        broker.kill()
        broker.start()
        holes.wait_copied()
        stage.process.kill_driver()
        stage.has_process = False
        stage.start_link()
        holes.wait_copied()
    wait_for("all to be copied", holes.is_level, RECOVERED_WITHIN_S)
    report = stage.verify(holes.topics)
    assert report.is_clean, "\n".join([*report.lines(), stage.text()])
    assert (report.lost, report.doubled, report.reordered, report.different) == (0, 0, 0, 0)
    assert report.mapped == len(holes.topics)
    pair = ClusterPair(stage.source, stage.target)
    assert len(assert_same(pair, holes.transactional)) > 0
    assert_none_lost(pair, holes.compacted)
    assert not stage.status().problems
