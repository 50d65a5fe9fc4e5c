"""The floor of metrics: thousands of topics cost a tenth of a second of processor time a scrape."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from unit.serve.test_app import CLUSTERS, StillClock
from unit.status.test_truth import DRIVER, LEVEL, NOW_MS

from heliostat.config import Config
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import RoundReport
from heliostat.records.transport.progress_reports import LaneProgress
from heliostat.serve.bodies import Body
from heliostat.serve.watch import Watch

TOPICS, PARTITIONS = 3_348, 5_000
FLOOR_S = 0.1


@pytest.mark.thorough
def test_a_scrape_of_thousands_of_topics_is_cheap() -> None:
    """With latencies of all topics, and gzip."""
    links = [{"name": "l", "source": "summit", "target": "usdf"}]
    given = {"clusters": CLUSTERS, "links": links, "metrics": {"foreign": True}}
    clock = StillClock()
    watch = Watch(Config.model_validate(given), clock)
    board = watch.follower(LinkName("l")).reports.board
    names = [TopicName(f"lsst.sal.ESS.topic_{number}") for number in range(TOPICS)]
    for copied in (0, 10):
        places = [
            TopicPartition(names[number % TOPICS], PartitionId(number // TOPICS))
            for number in range(PARTITIONS)
        ]
        items = [replace(LEVEL, source=place, target=place, records=copied) for place in places]
        report = RoundReport(LaneId(0), 1, 0, 0, 0, "", items, lane_partitions=PARTITIONS, plan=1)
        report.topic_latency = [(name, ((3, 4), (5, 10), (9, 1))) for name in names]
        board.take_lane(LaneProgress(report, NOW_MS, is_whole=True))
    board.consume("driver", DRIVER)
    took_s: list[float] = []
    for _ in range(5):
        clock.now_s += 2
        began_s = time.process_time()
        body = Body(watch.metrics())
        assert len(body.compressed) < 200_000
        took_s.append(time.process_time() - began_s)
    assert body.plain.count(b"topic_copy_latency_seconds{") == 2 * TOPICS
    assert min(took_s) <= FLOOR_S
