"""Make `tests/unit/state/rows_of_VERSION.jsonl`: what a version has written at its target.

    git worktree add --detach ../old COMMIT
    PYTHONPATH=src:sandbox:tests python tools/earlier_rows.py ../old VERSION
    git worktree remove ../old

A link of that version runs on two real brokers: a plain mirror, one with an offset map, one with a
recorded gap, one paused, and a group; it is killed while it copies. Kept are the rows of its own
topics, of compacted ones the last of each key, and the batches of its mirrors.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from getpass import getuser
from pathlib import Path
from socket import gethostname
from typing import Any

from support.clusters import create_topic, until
from support.links import RUN, ends, write_config
from support.records import Sample, encode, write_batches, write_marked

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.clusters.byte_topic import ByteTopic
from heliostat.clusters.led_partition import LedPartition
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.fetch import FetchPartition
from heliostat.clusters.wire.fetch_once import BY_NAME, FetchedOnce, FetchOnce
from heliostat.clusters.wire.lent import LentClusters, lent_clusters
from heliostat.names import BrokerId, GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster, ClusterSpec, start_many

ROOT = Path(__file__).resolve().parents[1]
LINK = "earlier"
PLAIN, MAPPED = TopicName("earlier.plain"), TopicName("earlier.mapped")
EXPIRED, PAUSED = TopicName("earlier.expired"), TopicName("earlier.paused")
TOPICS = {PLAIN: 3, MAPPED: 1, EXPIRED: 1, PAUSED: 1}
GROUP = GroupId("earlier-readers")
AT_MS = 1_790_000_000_000
"""Time of all records that are written here."""
OWN = [
    "access",
    "control",
    "gaps",
    "groups",
    "history",
    "offsets",
    "progress",
    "rules",
    "state",
    "wishes",
]
RECENT = {"history", "progress"}
"""Those of its own topics that aren't compacted."""
OWN_LAST = 12
"""Records that are kept of these."""
BYTES_MAX = 1 << 20


def batch(values: range) -> bytes:
    """Return one batch; each value is its record's number."""
    return encode([Sample(b"k", b"%d" % value, AT_MS) for value in values])


def create_topics(cluster: Cluster) -> None:
    """Create the topics, or their mirrors."""
    for topic, partitions in TOPICS.items():
        create_topic(cluster, topic, partitions=partitions)


def config_for(folder: Path, source: Cluster, target: Cluster) -> Path:
    """Write the link's configuration."""
    return write_config(
        folder,
        source.bootstrap,
        target.bootstrap,
        name=LINK,
        topics={"include": [*TOPICS], "refresh_interval_s": 1},
        groups={"sync": True, "interval_s": 2},
        gaps={"policy": "continue"},
    )


def write_first(source: Cluster, marked_at_ms: int | None = None) -> None:
    """Write what the link copies first; the mapped topic's records have that time, or this one."""
    for number in range(TOPICS[PLAIN]):
        write_batches(source.bootstrap, PLAIN, [batch(range(40))], partition=number)
    write_marked(source.bootstrap, MAPPED, 20, now_ms=marked_at_ms)
    for topic in (EXPIRED, PAUSED):
        write_batches(source.bootstrap, topic, [batch(range(100))])
    place = TopicPartition(PLAIN, PartitionId(0))
    with ClusterAdmin(source.bootstrap) as admin:
        admin.commit_offsets({GROUP: {place: CommittedOffset(Offset(25))}})


def write_while_stopped(source: Cluster) -> None:
    """Write more, and delete some of it before the link can copy it."""
    for topic in (EXPIRED, PAUSED):
        write_batches(source.bootstrap, topic, [batch(range(100, 200))])
    with ClusterAdmin(source.bootstrap) as admin:
        admin.delete_records({TopicPartition(EXPIRED, PartitionId(0)): Offset(120)})


def write_last(source: Cluster) -> None:
    """Write what the link copies while it is killed."""
    for number in range(TOPICS[PLAIN]):
        write_batches(source.bootstrap, PLAIN, [batch(range(40, 60))], partition=number)


class EarlierLink:
    """The link, run by the code of another tree."""

    def __init__(self, config: Path, tree: Path) -> None:
        self._config = config
        self._code = {**os.environ, "PYTHONPATH": str(tree / "src")}
        self._process: subprocess.Popen[bytes] | None = None

    def verb(self, *words: str) -> None:
        """Run a verb to its end."""
        command = [sys.executable, "-c", RUN, *words, "-c", str(self._config)]
        subprocess.run(command, env=self._code, check=False)  # 1: it waits

    def start(self) -> None:
        """Start the driver."""
        command = [sys.executable, "-c", RUN, "run", "--plain", "--no-serve"]
        self._process = subprocess.Popen([*command, "-c", str(self._config)], env=self._code)

    def end(self, *, kill: bool = False) -> None:
        """Stop the driver, or kill it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill() if kill else process.terminate()
            process.wait(120)


def copied(target: Cluster, wanted: dict[TopicName, list[int]]) -> None:
    """Wait until mirrors end there."""

    def has_all() -> bool:
        with contextlib.suppress(Exception):  # mirrors that are not made yet
            found = ends(target.bootstrap, {name: TOPICS[name] for name in wanted})
            return all(list(found[name]) == at for name, at in wanted.items())
        return False

    until(has_all, f"{wanted}", timeout_s=240)


def run(source: Cluster, target: Cluster, link: EarlierLink) -> None:
    """Have the link copy, record a gap, be paused, and die while it copies."""
    write_first(source)
    link.start()
    copied(target, {PLAIN: [40] * 3, MAPPED: [20], EXPIRED: [100], PAUSED: [100]})
    link.verb("pause", LINK, "--topic", PAUSED, "--why", "kept as a row")
    time.sleep(8)  # groups are published, and progress is noted
    link.end()
    write_while_stopped(source)
    link.start()
    copied(target, {EXPIRED: [180]})
    time.sleep(8)
    write_last(source)
    time.sleep(2)
    link.end(kill=True)


def shown(content: bytes | None) -> Any:
    """Return a key or value for JSON."""
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
    user, host = getuser(), gethostname()
    return text.replace(f'"{user}@{host}"', '"ops@host"').replace(f'"{host}"', '"host"')


def own_rows(target: Cluster) -> Iterator[dict[str, Any]]:
    """Return the rows of the link's own topics."""
    for kind in OWN:
        name = TopicName(f"heliostat.{LINK}.{kind}")
        with closing(ByteTopic(target.bootstrap, name, "rows")) as topic:
            records = list(topic.read_all())
        if kind not in RECENT:
            last = {record.key: record for record in records}
            records = sorted(last.values(), key=lambda record: record.offset)
        else:
            records = records[-OWN_LAST:]
        for record in records:
            yield {
                "topic": name,
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": shown(record.key),
                "value": shown(record.value),
            }


def mirror_batches(target: Cluster) -> Iterator[dict[str, Any]]:
    """Return the batches of the mirrors, as they lie there."""
    clusters, _ = lent_clusters(target.bootstrap, "rows")
    with closing(clusters):
        for topic, partitions in TOPICS.items():
            for number in range(partitions):
                place = TopicPartition(topic, PartitionId(number))
                text = base64.b64encode(batches_of(clusters, place)).decode()
                yield {"mirror": topic, "partition": number, "batches": text}


def batches_of(clusters: LentClusters, place: TopicPartition) -> bytes:
    """Return all batches of a small partition."""
    partition = FetchPartition(place.topic, None, place.partition, 0, BYTES_MAX)

    def fetched(cluster: WireCluster, leader: BrokerId) -> FetchedOnce:
        known = cluster.brokers.known(leader)
        answer: FetchedOnce = known.exchange(
            [FetchOnce(partition, 100, committed=False)], FetchedOnce, BY_NAME
        )[0]
        return answer

    return LedPartition(clusters, place).settled(fetched, lambda _: 0.0).batches


def main() -> None:
    """Make the rows of a version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="checkout of the version")
    parser.add_argument("version")
    parser.add_argument("--folder", type=Path, default=ROOT / "tests" / "unit" / "state")
    given = parser.parse_args()
    settings = {"log.retention.ms": "-1"}  # the records are old
    specs = [ClusterSpec(name, settings=settings, heap_mb=320) for name in ("source", "target")]
    source, target = start_many(specs)
    with source, target, tempfile.TemporaryDirectory() as folder:
        create_topics(source)
        config = config_for(Path(folder), source, target)
        link = EarlierLink(config, given.tree.resolve())
        try:
            run(source, target, link)
        finally:
            link.end(kill=True)
        rows = [
            {"version": given.version, "link": LINK},
            *own_rows(target),
            *mirror_batches(target),
        ]
    path = given.folder / f"rows_of_{given.version}.jsonl"
    path.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))


if __name__ == "__main__":
    main()
