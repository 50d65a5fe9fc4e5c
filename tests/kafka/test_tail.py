"""The tail of a source that came back: shown, exported, appended once, dropped.

A link copies three topics, gives them away and stops; the source gets more, is killed, and comes
back; others have written at the target meanwhile. All is compared with what Kafka's own consumers
read. A process that appends is killed with SIGKILL, twice.
"""

from __future__ import annotations

import base64
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer
from support.clusters import create_topic, fresh_name
from support.command import heliostat
from support.holes import read, transactions
from support.links import RunningLink, wait_for, wait_level, write_config
from support.provoked import Provoked
from support.records import Sample, encode, odd_records, open_transaction, write_batches

from heliostat.config import load_config
from heliostat.handover.promotion import PromotedBy
from heliostat.names import LinkName, Offset, PartitionId, TopicName
from heliostat.operate.promotion import promote
from heliostat.rescue import source_rest
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

KILLED = """
import os, signal, sys
from heliostat.cli.entry import main
from heliostat.rescue import source_rest, appending
from heliostat.rescue.target_log import ClusterLog
appending.BATCH_RECORDS = 40
source_rest.STANDS_STILL_S = 1.0
after, sent, kept = int(sys.argv.pop(1)), 0, ClusterLog.append
def append(self, partition, batch):
    global sent
    sent += 1
    if sent == after:
        if after % 2:
            kept(self, partition, batch)
        os.kill(os.getpid(), signal.SIGKILL)
    return kept(self, partition, batch)
ClusterLog.append = append
main()
"""
"""Is killed at its nth batch: before it is sent, or after it has landed, with nothing noted."""


class Failover:
    """A link whose source was lost: what its promotion says, and the tail."""

    def __init__(self, start_cluster: Callable[..., Cluster], folder: Path) -> None:
        self.source = start_cluster("source")
        self.target = start_cluster("target")
        self.link = LinkName("east-to-west")
        self.plain, self.mapped, self.compacted = (
            create_topic(self.source, fresh_name("plain")),
            create_topic(self.source, fresh_name("mapped")),
            create_topic(
                self.source, fresh_name("compacted"), configs={"cleanup.policy": "compact"}
            ),
        )
        self.topics = (self.plain, self.mapped, self.compacted)
        self.rng = random.Random(11)
        self.config = write_config(
            folder, self.source.bootstrap, self.target.bootstrap, topics={"include": [*self.topics]}
        )

    def copy(self) -> dict[str, Offset]:
        """Let a link copy a little of each, and give its mirrors away; return how far it came."""
        write_batches([self.source.bootstrap], self.plain, [encode(odd_records(self.rng, 300))])
        transactions(self.source.bootstrap, self.mapped, self.rng, 12)
        self.write_keys(self.source, range(50), b"old")
        with RunningLink(self.config) as link:
            level: dict[str, int] = {self.plain: 1, self.compacted: 1}
            wait_level(link, self.source.bootstrap, self.target.bootstrap, level)
            committed = len(self.at_source(self.mapped))
            wait_for("all is copied", lambda: len(self.at_target(self.mapped)) == committed)
            copied = self.promote()
            link.stop()
        return copied

    def write_keys(self, cluster: Cluster, numbers: range, value: bytes) -> None:
        now_ms = int(time.time() * 1000)
        samples = [Sample(b"key%d" % number, value, now_ms) for number in numbers]
        write_batches([cluster.bootstrap], self.compacted, [encode(samples)])

    def at_source(self, topic: str) -> list[Any]:
        return read(self.source.bootstrap, topic, "read_committed")

    def at_target(self, topic: str) -> list[Any]:
        return read(self.target.bootstrap, topic, "read_uncommitted")

    def promote(self) -> dict[str, Offset]:
        """Give the mirrors away; return where each source topic was copied to."""
        config = load_config(self.config)
        [link] = config.links
        promoted = promote(config, link, self.topics, PromotedBy.FAILOVER, by="ann")
        ends_of = {each.topic: each.ends for each in promoted.promotions}
        return {
            topic: ends.partitions[PartitionId(0)].source_end
            for topic, ends in ends_of.items()
            if ends is not None
        }

    def write_tail(self) -> None:
        """More records at the source, some of them aborted."""
        for _ in range(4):
            batch = encode(odd_records(self.rng, 60))
            write_batches([self.source.bootstrap], self.plain, [batch])
        transactions(self.source.bootstrap, self.mapped, self.rng, 20)
        self.write_keys(self.source, range(40, 60), b"tail")

    def lose_and_return(self) -> None:
        """Kill the source, write at the target as its new producers do, start the source again."""
        for broker in self.source.brokers:
            broker.kill()
        producer = KafkaProducer(bootstrap_servers=self.target.bootstrap.split(","))
        for topic in (self.plain, self.mapped):
            for number in range(30):
                producer.send(topic, key=b"k", value=b"new%d" % number, partition=0)
        producer.close()
        self.write_keys(self.target, range(50, 55), b"new")
        for broker in self.source.brokers:
            broker.start()
        self.source.wait_ready()

    def append_and_die(self, after: int) -> None:
        """Append in a process that is killed at its nth batch."""
        words = ["tail", "append", self.link, "--topic", self.plain, "--yes"]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(after), *words, "-c", str(self.config)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr

    def rescued(self, topic: TopicName) -> list[tuple[int, Any]]:
        """Return source offset and record of each that came by rescue, as a consumer reads it."""
        rows = []
        for _, key, value, timestamp_ms, headers in self.at_target(topic):
            origins = [content for name, content in headers if name == "heliostat.origin"]
            if origins:
                offset = int(origins[0].rsplit(b"/", 1)[1])
                own = tuple(pair for pair in headers if pair[0] != "heliostat.origin")
                rows.append((offset, (key, value, timestamp_ms, own)))
        return rows


@pytest.fixture
def failover(
    start_cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Failover:
    monkeypatch.setattr(source_rest, "STANDS_STILL_S", 1.0)
    return Failover(start_cluster, tmp_path)


@pytest.mark.provokes(
    "gap:tail_dropped", how="a source dies with records that never crossed; they are dropped"
)
def test_a_tail_is_rescued_once(failover: Failover, tmp_path: Path, provoked: Provoked) -> None:
    """Given a source that was lost with records that never crossed / when it is back and its tail

    is shown, exported, appended by processes that are killed, and dropped / then each committed
    record is at the target once, with its origin; what may not win is in files; all is told.
    """
    copied = failover.copy()
    failover.write_tail()
    failover.lose_and_return()
    tails = {
        topic: [row for row in failover.at_source(topic) if row[0] >= copied[topic]]
        for topic in failover.topics
    }

    _is_shown(failover, tails)
    _waits_for_open_transactions(failover)
    _is_exported(failover, tails, tmp_path / "files")
    for after in (3, 2):
        failover.append_and_die(after)
    folder = tmp_path / "refused"
    done = heliostat(
        failover.config,
        *("tail", "append", failover.link, "--yes", "--json", "--topic", failover.plain),
        *("--topic", failover.compacted, "--refused-to-parquet", str(folder)),
    )
    assert done.returncode == 0, done.said
    assert done.json["refused"] == {"its key was written at the target since": 5}
    refused = {bytes(row["key"]) for row in _rows(folder)}
    assert refused == {b"key%d" % number for number in range(50, 55)}
    assert failover.rescued(failover.plain) == [_comparable(row) for row in tails[failover.plain]]
    last = {row[1]: row[2] for row in failover.at_target(failover.compacted)}
    assert last == {
        **{b"key%d" % number: b"old" for number in range(40)},
        **{b"key%d" % number: b"tail" for number in (*range(40, 50), *range(55, 60))},
        **{b"key%d" % number: b"new" for number in range(50, 55)},
    }
    provoked("gap:tail_dropped", _dropped(failover, len(tails[failover.mapped])))
    shown = heliostat(failover.config, "tail", "show", failover.link, "--json")
    assert (shown.returncode, shown.json["records"]) == (0, 0), shown.said


def _is_shown(failover: Failover, tails: dict[TopicName, list[Any]]) -> None:
    shown = heliostat(failover.config, "tail", "show", failover.link, "--json")
    assert shown.returncode == 1, shown.said
    assert {row["topic"]: row["records"] for row in shown.json["rows"]} == {
        topic: len(rows) for topic, rows in tails.items()
    }
    (row,) = (row for row in shown.json["rows"] if row["topic"] == failover.plain)
    tail = tails[failover.plain]
    assert (row["first"], row["last"]) == (tail[0][0], tail[-1][0])
    assert row["last_ms"] == max(record[3] for record in tail)
    values = [None if r["value"] is None else base64.b64decode(r["value"]) for r in row["sample"]]
    assert values == [record[2] for record in tail[:3]]


def _waits_for_open_transactions(failover: Failover) -> None:
    # In a topic that has been given away, at the source: its commit would be a part of the tail.
    words = ("tail", "drop", failover.link, "--topic", failover.mapped, "--why", "x", "--yes")
    with open_transaction(failover.source.bootstrap, failover.mapped, "still-open"):
        refused = heliostat(failover.config, *words)
        assert refused.returncode == 1
        assert "transactions are open at the source" in refused.said
        assert "(still-open)" in refused.said


def _is_exported(failover: Failover, tails: dict[TopicName, list[Any]], folder: Path) -> None:
    words = ("tail", "export", failover.link, "--topic", failover.plain, "--yes")
    for _ in range(2):  # the second one writes the same files
        done = heliostat(failover.config, *words, "--parquet", str(folder), "--json")
        assert done.json["exported"] == len(tails[failover.plain]), done.said
    rows = [
        (
            *(row["offset"], row["key"], row["value"]),
            int(row["timestamp"].timestamp() * 1000 + 0.5),
            tuple((pair["key"], pair["value"]) for pair in row["headers"]),
        )
        for row in _rows(folder)
    ]
    assert rows == tails[failover.plain]


def _dropped(failover: Failover, records: int) -> dict[str, Any]:
    words = ("tail", "drop", failover.link, "--topic", failover.mapped, "--by", "ann", "--yes")
    done = heliostat(failover.config, *words, "--why", "a test", "--json")
    assert done.returncode == 0, done.said
    gaps = heliostat(failover.config, "gaps", "--json").json
    (row,) = (row for row in gaps[0]["rows"] if row["cause"] == "tail_dropped")
    assert (row["topic"], row["decided_by"]) == (failover.mapped, "user ann")
    assert row["count"] == records + 1  # with the transaction that has committed since
    assert "a test" in row["text"]
    return dict(row)


def _rows(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("*.parquet"))
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def _comparable(row: Any) -> tuple[int, Any]:
    offset, key, value, timestamp_ms, headers = row
    return offset, (key, value, timestamp_ms, headers)
