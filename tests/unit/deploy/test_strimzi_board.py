"""Boards made for MirrorMaker 2 show our links: each question of Strimzi's has an answer.

Metrics by the names that its boards ask for (strimzi-kafka-operator 2e779c2, both the board for
Prometheus' JMX exporter and the one for Strimzi's own reporter), in questions of the same shape.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.links import wait_for
from support.prometheus import Prometheus
from unit.status.test_truth import DRIVER, LEVEL, NOW_MS

from heliostat.config import LinkConfig, MetricsConfig
from heliostat.metrics.link_samples import WatchedLink
from heliostat.metrics.mirrormaker_families import FAMILIES
from heliostat.metrics.mirrormaker_samples import MirrorMakerSamples
from heliostat.metrics.text import CONTENT_TYPE, Samples
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.ops.latency import bucket_of
from heliostat.ops.process_use import ProcessUse
from heliostat.records.copier.lane import RoundReport
from heliostat.records.transport.progress_reports import LaneProgress
from heliostat.status.board import StatusBoard
from heliostat.status.cluster_watch import Reach
from heliostat.status.follower import Observation

LABELS = {"strimzi_io_kind": "KafkaMirrorMaker2", "strimzi_io_cluster": "efd"}
WHERE = 'strimzi_io_kind=~"KafkaMirrorMaker2",strimzi_io_cluster="efd"'
MIRROR = "kafka_connect_mirror_mirrorsourceconnector"
CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector"
SPREADS = ("", "_avg", "_min", "_max")
LAGS = {
    "kafka_consumer_fetch_manager_records_lag": 'clientid=~".*replication-consumer\\""',
    "kafka_consumer_consumer_fetch_manager_metrics_records_lag": (
        'client_id=~".*replication-consumer"'
    ),
}
SUMS = (
    "kafka_connect_worker_connector_count",
    "kafka_connect_worker_task_count",
    "kafka_connect_coordinator_assigned_connectors",
    "kafka_connect_coordinator_assigned_tasks",
    "kafka_connect_worker_rebalance_rebalancing",
    "kafka_connect_connect_worker_metrics_connector_count",
    "kafka_connect_connect_worker_metrics_task_count",
    "kafka_connect_connect_coordinator_metrics_assigned_connectors",
    "kafka_connect_connect_coordinator_metrics_assigned_tasks",
    "kafka_connect_connect_worker_rebalance_metrics_rebalancing",
    f"{MIRROR}_record_rate",
    f"{MIRROR}_byte_rate",
)
RATES = (
    "kafka_consumer_incoming_byte_total",
    "kafka_producer_outgoing_byte_total",
    "kafka_consumer_consumer_metrics_incoming_byte_total",
    "kafka_producer_producer_metrics_outgoing_byte_total",
)
QUESTIONS = (
    *(f"sum({name}{{{WHERE}}})" for name in SUMS),
    *(f"sum(rate({name}{{{WHERE}}}[1m]))" for name in RATES),
    *(
        f"sum({MIRROR}_{what}_ms{spread}{{{WHERE}}}) by (partition, topic)"
        for what in ("record_age", "replication_latency")
        for spread in SPREADS
    ),
    *(
        f"sum({CHECKPOINT}_checkpoint_latency_ms{spread}{{{WHERE}}}) by (source, target)"
        for spread in SPREADS
    ),
    *(f"sum({name}{{{WHERE},{client}}}) by (topic, partition)" for name, client in LAGS.items()),
    *(f"topk(20, sum({name}{{{WHERE}}}) by (topic, partition))" for name in LAGS),
    f'sum({next(iter(LAGS))}{{{WHERE},clientid!~"consumer-mirrormaker2-.*"}}) by (topic)',
    'kafka_connect_worker_connector_count{strimzi_io_kind="KafkaMirrorMaker2"}',
    'kafka_connect_connector_status{status="running"} == 1',
    "kafka_connect_worker_connector_failed_task_count",
)
NOT_ANSWERED = {
    "container_cpu_usage_seconds_total": "the container's, by Kubernetes",
    "jvm_memory_bytes_used": "areas of a JVM that copies; here workers do, heliostat_process_*",
    "jvm_memory_used_bytes": "the same by its newer name",
    "jvm_gc_collection_seconds_sum": "no collector stands in the way of copying",
    "kafka_connect_source_task_source_record_active_count": "batches are in flight, not records",
    "kafka_producer_buffer_available_bytes": "there is no such buffer",
    "kafka_connect_connector_task_offset_commit_avg_time_ms": "no offsets are committed: the "
    "position is the target's end",
}
"""What these boards ask for beside that, and why nothing of ours answers it."""


def text(records: int) -> str:
    """Our answer for a link that has copied so many records of a topic with two partitions."""
    link = LinkConfig.model_validate({"name": "l", "source": "summit", "target": "usdf"})
    config = MetricsConfig.model_validate({"mirrormaker2": {"labels": LABELS}})
    board = StatusBoard(LinkName("l"))
    for copied in (0, records):
        places = [TopicPartition(TopicName("t"), PartitionId(number)) for number in (0, 1)]
        items = [
            replace(LEVEL, source=place, target=place, records=copied, bytes=10 * copied)
            for place in places
        ]
        report = RoundReport(
            LaneId(0), 1, 0, 0, 0, "", items, lane_partitions=2, plan=1,
            process=ProcessUse(1.0, 1, 1, 10 * copied, 9 * copied),
            topic_latency=[(TopicName("t"), ((bucket_of(3), 5), (bucket_of(90), 1)))],
        )  # fmt: skip
        board.take_lane(LaneProgress(report, NOW_MS, is_whole=True))
    driver = {"groups": {"took_ms": {"list": 3, "commit": 4}}, "interchange": {"heartbeat": {}}}
    board.consume("driver", {**DRIVER, **driver})
    samples = Samples(FAMILIES)
    watched = WatchedLink(
        Observation(board.status(NOW_MS), board.totals()),
        Reach(),
        Reach(),
        partial(board.partitions, NOW_MS),
        partial(board.topic_latencies, NOW_MS),
    )
    MirrorMakerSamples(link, config).write(samples, watched)
    return samples.text()


def test_figures_stand_under_the_names_of_mirror_maker() -> None:
    families = {each.name: each for each in text_string_to_metric_families(text(7))}
    (one, other) = families[f"{MIRROR}_record_count"].samples
    assert one.labels == {
        **LABELS, "source": "summit", "target": "usdf", "destination": "usdf",
        "topic": "t", "partition": "0",
    }  # fmt: skip
    assert (one.value, other.value, other.labels["partition"]) == (7, 7, "1")
    assert families[f"{MIRROR}_byte_count"].samples[0].value == 70
    least, most = (families[f"{MIRROR}_replication_latency_ms_{x}"] for x in ("min", "max"))
    assert 3 <= least.samples[0].value < 4
    assert 90 <= most.samples[0].value < 99
    (count,) = families["kafka_connect_worker_connector_count"].samples
    assert count.value == 3
    (status,) = families["kafka_connect_connector_status"].samples
    assert status.labels["status"] == "running"
    assert status.labels["connector"] == '"summit->usdf.MirrorSourceConnector"'


def test_each_name_that_is_asked_for_is_one_of_ours_or_has_a_reason() -> None:
    asked = {name for each in QUESTIONS for name in re.findall(r"\bkafka_[a-z0-9_]+", each)}
    ours = {family.name for family in FAMILIES}
    assert asked <= ours
    assert not ours & NOT_ANSWERED.keys()


class Page:
    """Serves our answer, in which each next one has more records."""

    def __init__(self) -> None:
        page = self
        self.records = 10

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page.records += 10
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.end_headers()
                self.wfile.write(text(page.records).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    """One that has scraped our answer twice."""
    page = Page()
    try:
        with Prometheus(tmp_path, page.address) as server:
            server.wait_ready()
            wait_for("two", lambda: server.query(f"sum(rate({RATES[0]}[1m])) > 0"), 40)
            yield server
    finally:
        page.server.shutdown()


@pytest.mark.thorough
def test_a_real_prometheus_answers_each_question_of_the_boards(prometheus: Prometheus) -> None:
    silent = [question for question in QUESTIONS if not prometheus.query(question)]
    assert not silent
    (rate,) = prometheus.query(f"sum(rate({RATES[1]}{{{WHERE}}}[1m]))")
    assert float(rate["value"][1]) > 0
    ages = prometheus.query(f"sum({MIRROR}_record_age_ms{{{WHERE}}}) by (partition, topic)")
    assert len(ages) == 2
