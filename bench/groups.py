"""`bench/compare groups`: translated offsets of thousands of groups, and records read again.

Empty groups have committed offsets in a dense and in a transactional topic. The clock runs from the
replicator's start until the target has all of their offsets, or no more come. The correct offset of
a group is known from how the topics were filled, not from either replicator.
"""

from __future__ import annotations

import argparse
import random
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fill
import holes
import live_main
import live_report
import machine
import ours
import peer
import report
from clusters import KAFKA_VERSION, Pair, create_topics, log_ends, pair_of_clusters
from measure import Part, Tree, running
from rich.console import Console
from rich.table import Table

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.errors import BrokerError
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import find_java

NAME = "groups"
DENSE, TRANSACTIONAL = "moved-dense", "moved-transactional"
PARTITIONS = 3
RECORD_BYTES = 200
TRANSACTION_RECORDS = 100
"""Records per transaction and partition; a marker follows, which no mapped mirror has."""
LOOK_S = 1.0
COMMITTED_AT_ONCE = 500
OFTEN = {
    f"{what}.interval.seconds": "5"
    for what in ("emit.checkpoints", "sync.group.offsets", "refresh.groups", "refresh.topics")
}
SYNCED = {"emit.checkpoints.enabled": "true", "sync.group.offsets.enabled": "true"}
"""What a user must enable to get groups' offsets at the target; checkpoints are on by default."""
PRECISE = {**OFTEN, "offset.lag.max": "0"}
"""As often as ours polls, and a pair of offsets for each batch it copies."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Sizes; a part ends after `steady_s` without new offsets."""

    groups: int = 10_000
    records: int = 600_000
    steady_s: float = 150.0
    deadline_s: float = 600.0


SMALL = Scenario(groups=40, records=12_000)
Places = Mapping[GroupId, Mapping[TopicPartition, Offset]]


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure the requested parts, each on its own clusters, and report."""
    scenario = SMALL if given.small else Scenario()
    shape = {"groups": scenario.groups, "records": scenario.records}
    results = live_report.earlier(given.json, shape) if given.json else {}
    about: dict[str, Any] = {}
    for name in (each for each in live_main.REPLICATORS if each in given.part):
        with pair_of_clusters(small=given.small) as pair:
            about = about or machine.describe(find_java(), KAFKA_VERSION, pair.logs)
            results[name] = {NAME: measured(name, scenario, pair, folder / name)}
        live_main.note(f"{name}: {results[name][NAME]}")
        if given.json:
            report.write(given.json, document(shape, about, results))
    show(results)
    return 0 if all(results[name][NAME]["finished"] for name in results) else 1


def document(
    shape: Mapping[str, Any], about: Mapping[str, Any], results: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the report."""
    parts = {name: {"cases": dict(cases)} for name, cases in results.items()}
    return {"scenario": NAME, "shape": dict(shape), "machine": dict(about), **parts}


def measured(name: str, scenario: Scenario, pair: Pair, folder: Path) -> dict[str, Any]:
    """Fill, commit, run one replicator until the target's offsets no longer change."""
    create_topics(pair.source, {DENSE: PARTITIONS, TRANSACTIONAL: PARTITIONS})
    shape: dict[str, Any] = {
        "partitions": PARTITIONS,
        "records": scenario.records,
        "record_bytes": RECORD_BYTES,
    }
    fill.fill(pair.source, DENSE, batch_records=TRANSACTION_RECORDS, codec="none", **shape)
    holes.fill_transactions(pair.source, TRANSACTIONAL, each=TRANSACTION_RECORDS, **shape)
    with ClusterAdmin([pair.source]) as source, ClusterAdmin([pair.target]) as target:
        committed = commit_groups(source, pair, scenario.groups)
        part, prefix = replicator_of(name, pair, folder)
        wanted = {
            group: {mirror_of(p, prefix): exact_offset(p, o) for p, o in places.items()}
            for group, places in committed.items()
        }
        began_s = time.monotonic()
        with running(part) as process:
            tree = Tree(process.pid)
            found, first_s, all_s = watch(target, wanted, scenario, began_s, tree)
            cpu_s = tree.look()
    block = compared(wanted, found)
    is_whole = block["missing"] == 0
    return {
        "finished": bool(found),
        "first_s": first_s,
        "all_s": all_s if is_whole else None,
        "last_s": all_s,
        "cpu_s": round(cpu_s, 1),
        **block,
    }


def commit_groups(source: ClusterAdmin, pair: Pair, count: int) -> Places:
    """Commit an offset in each partition of one of the topics per group; half of them in each."""
    chance = random.Random(fill.SEED)  # noqa: S311 - seeded, to be the same each time
    all_ends = {topic: log_ends(pair.source, topic, PARTITIONS) for topic in (DENSE, TRANSACTIONAL)}
    places: dict[GroupId, dict[TopicPartition, Offset]] = {}
    for number in range(count):
        topic = (DENSE, TRANSACTIONAL)[number % 2]
        places[GroupId(f"moved-{number:05d}")] = {
            TopicPartition(TopicName(topic), PartitionId(p)): Offset(chance.randint(1, end))
            for p, end in all_ends[topic].items()
        }
    deadline_s = time.monotonic() + 600
    pending = list(places)
    while pending:
        some, pending = pending[:COMMITTED_AT_ONCE], pending[COMMITTED_AT_ONCE:]
        answers = source.commit_offsets(
            {g: {p: CommittedOffset(o) for p, o in places[g].items()} for g in some}
        )
        pending += [group for group in some if not _is_done(answers[group])]
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{len(pending)} groups could not commit")
    return places


def _is_done(answer: Mapping[TopicPartition, BrokerError | None] | BrokerError) -> bool:
    """Return whether a group's offsets were accepted: a loading coordinator refuses some."""
    return not isinstance(answer, BrokerError) and not any(answer.values())


def replicator_of(name: str, pair: Pair, folder: Path) -> tuple[Part, str]:
    """Return the command to start, and its prefix at the target."""
    topics = [DENSE, TRANSACTIONAL]
    if name == "ours":
        wanted = ours.config(*pair.ways(), topics)
        wanted["links"][0]["groups"] = {"sync": True, "include": ["moved-.*"]}
        command = ours.command(folder, wanted)
        return live_main.live_part(name, command, folder, signal.SIGTERM), ours.PREFIX
    best = {**peer.CANDIDATES["2 tasks, 5 in flight"], **PRECISE} if name == "mm2_tuned" else {}
    settings = {**best, **SYNCED}
    properties = peer.properties(*pair.ways(), ",".join(topics), "none", best)
    command = peer.command(find_java(), folder, {**properties, **settings})
    return live_main.live_part(name, command, folder, signal.SIGKILL), f"{peer.ALIAS}."


def mirror_of(partition: TopicPartition, prefix: str) -> TopicPartition:
    """Return the mirror of a partition."""
    return TopicPartition(TopicName(prefix + partition.topic), partition.partition)


def exact_offset(partition: TopicPartition, offset: Offset) -> Offset:
    """Return the number of committed records before a source offset: the mirror's offset."""
    if partition.topic == DENSE:
        return offset
    whole, rest = divmod(offset, TRANSACTION_RECORDS + 1)
    return Offset(whole * TRANSACTION_RECORDS + min(rest, TRANSACTION_RECORDS))


def watch(
    target: ClusterAdmin, wanted: Places, scenario: Scenario, began_s: float, tree: Tree
) -> tuple[Places, float | None, float | None]:
    """Return the target's final offsets, and the seconds until the first and the last."""
    groups = list(wanted)
    found: dict[GroupId, dict[TopicPartition, Offset]] = {}
    first_s = last_s = None
    while True:
        fresh = committed_at(target, groups)
        now_s = time.monotonic() - began_s
        tree.look()
        if fresh != found:
            found, last_s = fresh, now_s
            first_s = first_s or now_s
        is_whole = all(found.get(g, {}).keys() >= wanted[g].keys() for g in groups)
        is_exact = is_whole and all(found[g] == wanted[g] for g in groups)
        quiet_s = now_s - (last_s or 0.0)
        if is_exact or quiet_s > scenario.steady_s or now_s > scenario.deadline_s:
            return found, rounded(first_s), rounded(last_s)
        time.sleep(LOOK_S)


def rounded(seconds: float | None) -> float | None:
    """Round to a tenth."""
    return None if seconds is None else round(seconds, 1)


def committed_at(
    target: ClusterAdmin, groups: Sequence[GroupId]
) -> dict[GroupId, dict[TopicPartition, Offset]]:
    """Return the groups' offsets at the target."""
    found: dict[GroupId, dict[TopicPartition, Offset]] = {}
    for group, answer in target.committed_offsets(groups).items():
        if not isinstance(answer, BrokerError) and answer:
            offsets = {p: c.offset for p, c in answer.items() if not isinstance(c, BrokerError)}
            found[group] = offsets
    return found


def compared(wanted: Places, found: Places) -> dict[str, Any]:
    """Count partitions of groups that are present or missing, and their distances."""
    again = skipped = synced = missing = 0
    worst = 0
    for group, places in wanted.items():
        for partition, exact in places.items():
            got = found.get(group, {}).get(partition)
            if got is None:
                missing += 1
                continue
            synced += 1
            again += max(0, exact - got)
            skipped += max(0, got - exact)
            worst = max(worst, exact - got)
    return {
        "synced": synced,
        "missing": missing,
        "reread_records": again,
        "reread_records_max": worst,
        "skipped_records": skipped,
    }


def show(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Print the table."""
    table = Table("part", "first s", "all s", "CPU s", *("partitions of groups", "missing"))
    for heading in ("records read again", "at most", "records skipped"):
        table.add_column(heading, justify="right")
    for name, blocks in results.items():
        block = blocks[NAME]
        keys = ("first_s", "all_s", "cpu_s", "synced", "missing")
        more = ("reread_records", "reread_records_max", "skipped_records")
        cells = [block[key] for key in (*keys, *more)]
        table.add_row(name, *("-" if cell is None else f"{cell:,}" for cell in cells))
    Console(width=140).print(table)
