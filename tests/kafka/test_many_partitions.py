"""A link of 300 topics and 1,000 partitions: requests made, status by reports, a quick stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, fresh_name
from support.links import RunningLink, wait_for, wait_level, write_config
from support.records import Sample, encode, write_everywhere

from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.clusters.admin.caller import Caller
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import LinkConfig, load_config
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.plan import plan_link
from heliostat.operate.status import link_statuses
from heliostat.state_topics import progress_topic
from heliostat.status.values import LinkStatus
from heliostat.topics.apply import TOPICS_PER_REQUEST, apply_plan
from heliostat.topics.observe import observe
from heliostat.topics.plan import plan_topics
from heliostat_sandbox.load import wait_until_led

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
SINGLE = 272
WIDE = 28
WIDE_PARTITIONS = 26
PARTITIONS = SINGLE + WIDE * WIDE_PARTITIONS
REQUESTS_OF_A_LOOK = 12
"""Metadata, settings and ids of both sides: by the thousand topics, not by topic."""
STOP_WITHIN_S = 40.0
"""Mostly the end of Spark."""
REPORT_BYTES_MAX = 40_000
"""Of a report of 1,000 idle partitions, decoded; a whole one has 100 kB."""


@dataclass(frozen=True, slots=True)
class Many:
    """The topics of a test, at the source."""

    pair: ClusterPair
    prefix: str
    topics: dict[str, int]

    def config(self, folder: Path) -> Path:
        return write_config(
            folder,
            self.pair.source.bootstrap,
            self.pair.target.bootstrap,
            name=self.prefix,
            topics={"include": [f"{self.prefix}[.].*"]},
        )


@pytest.fixture
def many(cluster_pair: ClusterPair) -> Iterator[Many]:
    prefix = fresh_name("many")
    counts = [WIDE_PARTITIONS] * WIDE + [1] * SINGLE
    topics = {f"{prefix}.{number:03d}": count for number, count in enumerate(counts)}
    with (
        ClusterAdmin(cluster_pair.source.bootstrap.split(",")) as source,
        ClusterAdmin(cluster_pair.target.bootstrap.split(",")) as target,
    ):
        made = source.create_topics(
            NewTopic(TopicName(name), count, 1) for name, count in topics.items()
        )
        assert not [answer for answer in made.values() if isinstance(answer, Exception)]
        yield Many(cluster_pair, prefix, topics)
        source.delete_topics(map(TopicName, topics))
        target.delete_topics(name for name in target.describe_topics() if prefix in name)


def write_one_each(many: Many) -> None:
    source = many.pair.source.bootstrap
    partitions = [
        TopicPartition(TopicName(topic), PartitionId(number))
        for topic, count in many.topics.items()
        for number in range(count)
    ]
    wait_until_led(source, partitions)
    batch = encode([Sample(None, b"x" * 100, time.time_ns() // 1_000_000)])
    write_everywhere(source, many.topics, batch)


def link_of(config: Path) -> LinkConfig:
    return load_config(config).links[0]


def test_observing_takes_few_requests_and_decodes_nothing_unchanged(
    many: Many, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given 300 topics / when planned, applied and observed again / then few requests each."""
    link = link_of(many.config(tmp_path))
    sent: list[str] = []
    really = Caller.send

    def send(self: Caller, request: Any, broker: Any = None) -> Any:
        sent.append(type(request).__name__)
        return really(self, request, broker)

    monkeypatch.setattr(Caller, "send", send)
    answered: list[str] = []
    with (
        ClusterAdmin(many.pair.source.bootstrap.split(",")) as source,
        ClusterAdmin(many.pair.target.bootstrap.split(",")) as target,
    ):
        plan = plan_topics(link, *observe(source, target, link, {}), {})
        assert (len(plan.create), len(sent) <= REQUESTS_OF_A_LOOK) == (len(many.topics), True), sent
        applied = apply_plan(plan, target, tell=answered.append)
        creating = [name for name in sent if name == "CreateTopicsRequest"]
        assert len(creating) <= 1 + -(-len(many.topics) // TOPICS_PER_REQUEST)
        assert answered == [
            f"{TOPICS_PER_REQUEST} of {len(many.topics)} topics created at the target"
        ]
        mirrors = {record.source: record for record in applied.remember}
        seen = observe(source, target, link, mirrors)
        sent.clear()
        again = observe(source, target, link, mirrors)
        assert len(sent) <= REQUESTS_OF_A_LOOK, sent
        assert "ListOffsetsRequest" not in sent
        for before, after in zip(seen, again, strict=True):
            assert after.topics.keys() == before.topics.keys()
            assert all(after.topics[n].configs is before.topics[n].configs for n in after.topics)
        assert plan_topics(link, *again, mirrors).is_empty


def test_status_of_a_thousand_partitions_is_complete_and_stop_is_quick(
    many: Many, tmp_path: Path
) -> None:
    """Given a running link / then its status is complete, reports are small, the stop is quick."""
    path = many.config(tmp_path)
    config = load_config(path)
    write_one_each(many)

    def status() -> LinkStatus:
        [found] = link_statuses(config)
        return found

    with RunningLink(path) as link:
        wait_level(link, many.pair.source.bootstrap, many.pair.target.bootstrap, many.topics)
        wait_for("the status in sync", lambda: (now := status()).is_in_sync() and now.partitions)
        running = status()
        assert (running.state, running.partitions) == ("running", PARTITIONS)
        assert {row.source: row.partitions for row in running.topics} == many.topics
        assert running.states == {"copying": PARTITIONS}
        assert plan_link(config, config.links[0]).is_empty
        assert _idle_reports_are_small(many)
        assert link.stop(within_s=STOP_WITHIN_S) == 0, link.text()[-2000:]
    stopped = status()
    assert (stopped.state, stopped.partitions) == ("no_owner", PARTITIONS)
    assert stopped.lag_records in {0, None}  # so many logs may take longer than a person waits
    assert stopped.records_per_s == 0


def _idle_reports_are_small(many: Many) -> bool:
    """Whether most of the reports written now name few partitions: but a round's first and last."""
    progress = RecentRecords(many.pair.target.bootstrap, progress_topic(LinkName(many.prefix)))
    sizes: list[int] = []
    with closing(progress):
        newest = progress.newest()
        assert newest is not None
        progress.seek(newest[0] + 1)

        def ten() -> bool:
            records = progress.poll(0.2)
            sizes.extend(len(str(r.value)) for r in records if r.key.startswith("lane/"))
            return len(sizes) >= 10

        wait_for("ten reports", ten)
    return sorted(sizes)[len(sizes) // 2] < REPORT_BYTES_MAX
