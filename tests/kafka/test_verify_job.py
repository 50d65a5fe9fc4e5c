"""Verify as a job of a real service, over a link that copies: equal, cancelled, never left over."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import LinkProcess, wait_for, write_config
from support.records import Sample, encode, write_batches
from support.served import Served, texts

from heliostat.metrics import families as f

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]
JOB_WITHIN_S = 60.0
RECORDS = 20


def begun(served: Served, link: str, options: dict[str, Any]) -> str:
    answer = httpx.post(f"{served.url}api/v1/links/{link}/verify", json=options, timeout=10)
    assert answer.status_code == 202, answer.text
    return served.url.rstrip("/") + answer.headers["Location"]


def ended(place: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def is_over() -> bool:
        found.update(httpx.get(place, timeout=10).json())
        return found["ended_ms"] is not None

    wait_for("the job's end", is_over, JOB_WITHIN_S)
    return found


def children(served: Served) -> list[psutil.Process]:
    return psutil.Process(served.process.pid).children(recursive=True)


def test_a_job_compares_a_running_link(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a link that copies / when a service is asked to verify it, cancel that, and is killed

    meanwhile / then the job tells progress and an equal result, ends, and leaves no process.
    """
    topic, name = create_topic(cluster_pair.source), fresh_name("link")
    config = write_config(
        tmp_path,
        cluster_pair.source.bootstrap,
        cluster_pair.target.bootstrap,
        name=name,
        topics={"include": [topic], "naming": {"prefix": f"{name}."}, "refresh_interval_s": 1},
        lanes={"lease_s": 5, "count": 1},
    )
    with config.open("a") as more:
        more.write("metrics: {foreign: true}\n")
    served = Served(config)
    try:
        with LinkProcess(config):
            wait_for("a link in sync", lambda: served.values(f.LINK_IN_SYNC).get("") == 1)
            batch = encode([Sample(b"k", b"v", int(time.time() * 1000)) for _ in range(RECORDS)])
            write_batches(cluster_pair.source.bootstrap, topic, [batch])
            wait_for("copied", lambda: served.values(f.RECORDS_COPIED).get(topic) == RECORDS)
            job = ended(begun(served, name, {"topics": [topic]}))
            assert (job["state"], job["verdict"], job["problem"]) == ("done", "equal", None)
            assert (job["result"]["records"], job["progress"]["records"]) == (RECORDS, RECORDS)
            assert job["progress"]["topics_done"] == job["progress"]["partitions_done"] == 1
            assert any(
                text.startswith("verify: verified: 1 topics") for text in texts(served, name)
            )
            wrong = ended(begun(served, name, {"topics": ["elsewhere"]}))
            assert wrong["state"] == "failed"
            assert "not mirrored: elsewhere" in wrong["problem"]["detail"]
            place = begun(served, name, {})
            wait_for("Spark", lambda: len(children(served)) > 1, JOB_WITHIN_S)
            httpx.delete(place, timeout=10)
            assert ended(place)["state"] == "cancelled"
            wait_for("no process", lambda: not children(served))
            begun(served, name, {})
            wait_for("Spark", lambda: len(children(served)) > 1, JOB_WITHIN_S)
            left = children(served)
            served.process.kill()
            began_s = time.monotonic()
            psutil.wait_procs(left, timeout=20)
            assert [process for process in left if process.is_running()] == []
            assert time.monotonic() - began_s < 20
    finally:
        served.process.kill()
        served.process.wait(10)
