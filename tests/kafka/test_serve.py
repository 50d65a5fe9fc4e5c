"""`heliostat serve` beside real clusters: its figures stay right while each part is taken away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.clusters import create_topic, fresh_name
from support.links import LinkProcess, wait_for, write_config
from support.records import Sample, encode, write_batches
from support.served import TOLD_WITHIN_S, Served, texts

from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.metrics import families as f
from heliostat.names import GroupId
from heliostat_sandbox import Cluster, ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

RECORDS = 20


@pytest.fixture
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    source, target = start_many([ClusterSpec("summit"), ClusterSpec("usdf")])
    with source, target:
        yield source, target


def write(cluster: Cluster, topic: str) -> None:
    now_ms = int(time.time() * 1000)
    batch = encode([Sample(b"k", b"v", now_ms) for _ in range(RECORDS)])
    write_batches(cluster.bootstrap, topic, [batch])


def progress_at(cluster: Cluster, group: str) -> int:
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        rows = admin.committed_offsets([GroupId(group)])[GroupId(group)]
    if isinstance(rows, BrokerError):
        return -1  # the first group of a cluster has no coordinator for a moment
    return sum(row.offset for row in rows.values() if not isinstance(row, BrokerError))


def state(served: Served) -> str:
    (current,) = (name for name, value in served.values(f.LINK_STATE).items() if value)
    return current


def test_figures_stay_right_while_each_part_is_away(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """Given a link that is watched / when driver, source, target go / then each is told in 15 s."""
    source, target = clusters
    topic, name = create_topic(source), fresh_name("link")
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        name=name,
        topics={"include": [topic], "refresh_interval_s": 1},
        lanes={"lease_s": 5, "count": 1},
    )
    with config.open("a") as more:
        more.write("metrics: {foreign: true, progress_group: 'progress {link}'}\n")
    served = Served(config)
    try:
        assert state(served) == "unknown"
        with LinkProcess(config) as link:
            wait_for("a link in sync", lambda: served.values(f.LINK_IN_SYNC).get("") == 1)
            write(source, topic)
            served.wait("counted", lambda: served.values(f.RECORDS_COPIED).get(topic) == RECORDS)
            assert served.values(f.LAG_RECORDS)[topic] == 0
            served.wait("the processes", lambda: len(served.values(f.PART_CPU)) == 3)
            served.wait("retention", lambda: served.values(f.TOPIC_RETENTION).get(topic))
            assert any(key.endswith("p99") for key in served.values(f.TOPIC_LATENCY))
            served.wait("progress", lambda: progress_at(source, f"progress {name}") == RECORDS)
            link.kill_driver()
        served.wait("a silent driver", lambda: state(served) == "silent")
        assert served.values(f.LINK_IN_SYNC)[""] == 0
        write(source, topic)
        served.wait("the lag", lambda: served.values(f.LAG_RECORDS).get(topic) == RECORDS)
        assert 0 <= served.values(f.LAG_SECONDS)[topic] < TOLD_WITHIN_S * 2
        source.brokers[0].stop()
        served.wait("a dead broker", lambda: served.values(f.BROKER_REACHABLE).get("source/1") == 0)
        served.wait("no lag", lambda: topic not in served.values(f.LAG_RECORDS))
        assert served.values(f.SOURCE_END_AGE)[""] > 0
        source.brokers[0].start()
        served.wait("the lag again", lambda: served.values(f.LAG_RECORDS).get(topic) == RECORDS)
        target.brokers[0].stop()
        served.wait("a dead target", lambda: state(served) == "unreachable")
        status, text = served.answer("readyz")
        assert (status, list(json.loads(text)["waiting"])) == (503, [name])
        assert served.answer("livez")[0] == 200
        assert topic in served.values(f.RECORDS_COPIED), "series go on"
        target.brokers[0].start()
        with LinkProcess(config):
            wait_for("a link in sync", lambda: served.values(f.LINK_IN_SYNC).get("") == 1)
            assert served.values(f.LAG_RECORDS)[topic] == 0
            assert served.answer("readyz")[0] == 200
            assert set(served.values(f.BROKER_REACHABLE).values()) == {1}
            served.wait("word of it", lambda: "the link is running" in texts(served, name))
            assert any(text.startswith("the link is unreachable") for text in texts(served, name))
    finally:
        served.process.terminate()
        assert served.process.wait(10) in (0, -15)


def address_in(log: str) -> str:
    """Where a driver says that it is watched; empty before it does."""
    lines = [json.loads(line)["message"] for line in log.splitlines() if line.startswith("{")]
    found = [line for line in lines if line.startswith("watch it at ")]
    return found[0].removeprefix("watch it at ") if found else ""


def test_only_the_service_beside_the_owner_writes_a_links_series(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """Given an owner and a standby, each with its service / then that of the standby says so."""
    source, target = clusters
    topic, name = create_topic(source), fresh_name("link")
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        name=name,
        topics={"include": [topic], "refresh_interval_s": 1},
        lanes={"lease_s": 5, "count": 1},
    )
    with config.open("a") as more:
        more.write("service: {listen: '127.0.0.1:0'}\n")

    def of_link(link: LinkProcess) -> list[str]:
        url = address_in(link.text())
        text = httpx.get(f"{url}metrics", timeout=10).text if url else ""
        return [line for line in text.splitlines() if f'link="{name}"' in line]

    def is_there(link: LinkProcess, state: str) -> bool:
        return any(f'state="{state}"}} 1' in line for line in of_link(link))

    with LinkProcess(config, "--log", "json") as owner:
        wait_for("the owner's series", lambda: is_there(owner, "running"), 60)
        with LinkProcess(config, "--log", "json") as standby:
            wait_for("a standby", lambda: is_there(standby, "standby"), 60)
            assert len(of_link(standby)) == 1
            assert not is_there(owner, "standby")
            owner.stop()
            wait_for("the new owner's series", lambda: is_there(standby, "running"), 60)
        assert all(json.loads(line)["level"] for line in owner.text().splitlines())
