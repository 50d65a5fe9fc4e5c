"""Python workers of a lane with a pipeline are killed: its records still come once, in order."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from pathlib import Path

import psutil
import pytest
from support.clusters import ClusterPair, until
from support.holes import read, transactions
from support.links import RunningLink
from support.piped import Piped

from heliostat.records.spark.worker_daemon import WORKER_DAEMON

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


def test_killed_workers_lose_and_double_nothing(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a pipeline that filters and changes transactions / when its workers are killed while

    they copy / then the target has what it makes of each committed record, once and in order.
    """
    rng = random.Random(15)
    where = "CAST(split_part(decode(value, 'UTF-8'), '-', 2) AS int) % 3 != 1"
    changed = "encode(concat('x', decode(value, 'UTF-8')), 'UTF-8')"
    piped = Piped(cluster_pair, tmp_path, {"where": where}, {"set": {"value": changed}})
    source = cluster_pair.source.bootstrap
    with RunningLink(piped.config) as link:
        for which in (0, -1):  # the reader's worker, and the copier's
            before = len(piped.values())
            transactions(source, piped.topic, rng, 8)
            wait_more(piped, before, link)
            until(lambda: len(workers_with_rows()) == 2, link.text, timeout_s=120)
            os.kill(sorted(workers_with_rows())[which], signal.SIGKILL)
            transactions(source, piped.topic, rng, 8)
        expected = [
            b"x" + row[2]
            for row in read(source, piped.topic, "read_committed")
            if int(row[2].split(b"-")[1]) % 3 != 1
        ]
        until(
            lambda: len(piped.values()) >= len(expected),
            lambda: f"{len(expected)} records, has {len(piped.values())}",
            timeout_s=120,
        )
        assert not link.has_ended
    assert piped.values() == expected


def wait_more(piped: Piped, count: int, link: RunningLink) -> None:
    until(lambda: len(piped.values()) > count, link.text, timeout_s=120)


def workers_with_rows() -> list[int]:
    """Both Python workers of tasks with a pipeline: they hold a Unix socket to one another."""
    found: list[int] = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            is_worker = WORKER_DAEMON in process.cmdline()
            if is_worker and process.net_connections("unix"):
                found.append(process.pid)
    return found
