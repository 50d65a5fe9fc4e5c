"""`bench/compare latency|efd|catchup`: part after part, each on its own brokers."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fill
import live
import live_report
import machine
import ours
import peer
import piped
import report
from clusters import (
    KAFKA_VERSION,
    Pair,
    create_topics,
    log_ends,
    one_cluster,
    pair_of_clusters,
)
from live import Unfinished
from live_report import BASE_LINE
from live_scenarios import (
    BACKLOG_BATCH_RECORDS,
    BACKLOG_PARTITIONS,
    BACKLOG_RECORD_BYTES,
    BACKLOG_TOPIC,
    LIVE,
    SMALL,
    Live,
)
from measure import Part

from heliostat_sandbox import find_java

REPLICATORS = ("mm2_default", "mm2_tuned", ours.PLAIN, ours.MERGED)
PARTS = (BASE_LINE, *REPLICATORS)
EXIT_UNFINISHED = 1
OUTPUT_TAIL = 2_000
PRIORITY_WARM_S = 10.0
"""Live load before the backlog may go: links and brokers that have just begun are slow for a few
seconds, which has nothing to do with a backlog."""
Results = dict[str, dict[str, dict[str, Any]]]
Measured = Iterator[tuple[str, dict[str, Any]]]


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure the requested parts and report; the report grows case by case."""
    scenario = dataclasses.replace(
        (SMALL if given.small else LIVE)[given.scenario],
        latency_target_ms=given.latency_target_ms,
        far=given.far,
        priority=given.priority,
    )
    if given.priority:
        scenario = dataclasses.replace(scenario, warm_s=1 if given.small else PRIORITY_WARM_S)
    shape = scenario.shape()
    results: Results = live_report.earlier(given.json, shape) if given.json else {}
    if given.rate:
        scenario = dataclasses.replace(scenario, rates=tuple(sorted(given.rate)))
    names = [name for name in parts_of(given.scenario) if name in given.part]
    about: dict[str, Any] = {}
    failed = False
    for name in names:
        for case, block, where in part(name, scenario, folder):
            about = about or where
            results.setdefault(name, {})[case] = block
            failed = failed or not block["finished"]
            note(f"{name} {case}: {words(block)}")
            if given.json:
                report.write(given.json, live_report.document(shape, about, results))
    live_report.show(live_report.document(shape, about, results))
    return EXIT_UNFINISHED if failed else 0


def parts_of(scenario: str) -> Sequence[str]:
    """Return the parts that a scenario has: there is nothing to catch up with on one broker."""
    return REPLICATORS if scenario == "catchup" else PARTS


def part(
    name: str, scenario: Live, folder: Path
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield all cases of one part: name, block, machine. Ours runs with and without a backlog."""
    variants = [scenario]
    if scenario.backlog_records and name == "ours":
        variants.append(dataclasses.replace(scenario, backlog_records=0))
    for variant in variants:  # a limited one comes in when it is known how fast it is without
        label = name if variant is scenario else f"{name}-{expected_cases(variant)[0]}"
        brokers: dict[str, Any] = {
            "storage": variant.storage,
            "heap_mb": variant.heap_mb,
            "small": variant.small,
        }
        start = (
            one_cluster(**brokers)
            if name == BASE_LINE
            else pair_of_clusters(**brokers, far=variant.far)
        )
        with start as pair:
            about = machine.describe(find_java(), KAFKA_VERSION, pair.logs)
            for case, block in measured(name, variant, pair, folder / label):
                yield case, block, about
                if variant is scenario and has_limited_case(name, scenario) and block["finished"]:
                    variants.insert(1, half_as_fast(scenario, block))


def has_limited_case(name: str, scenario: Live) -> bool:
    """Whether ours is to catch up again, at half of its speed."""
    return name == "ours" and scenario.priority


def half_as_fast(scenario: Live, block: Mapping[str, Any]) -> Live:
    """Return the scenario with half of the speed that its backlog had."""
    full = block["backlog_records_per_s"] * BACKLOG_RECORD_BYTES
    return dataclasses.replace(scenario, limit_bytes_per_s=full // 2)


def measured(name: str, scenario: Live, pair: Pair, folder: Path) -> Measured:
    """Run one part on fresh clusters: its cases, the last one with why it stopped."""
    streams = scenario.streams()
    create_topics(pair.source, {each.topic: each.partitions for each in streams})
    seeds = live.seed_all(pair, streams)
    backlog = fill_backlog(pair, scenario)
    folder.mkdir(parents=True, exist_ok=True)
    cases = expected_cases(scenario)
    found: dict[str, dict[str, Any]] = {}
    settings: Mapping[str, Any] = {}
    if name == BASE_LINE:
        started = live.without_replicator(scenario, pair, folder, streams)
    else:
        replicator, prefix, settings = replicator_of(name, scenario, pair, folder)
        started = live.replicating(scenario, pair, replicator, streams, prefix)
    try:
        with started as running:
            steps = (
                live.catch_up(running, seeds, backlog, resume_of(scenario, folder))
                if scenario.name == "catchup"
                else live.at_each_rate(running, seeds)
            )
            for case, block in steps:
                found[case] = {**block, **settings}
                yield case, found[case]
    except Unfinished as error:
        tail = output_tail(folder)
        for case in cases[len(found) :]:
            yield case, {"finished": False, "reason": str(error), "output_tail": tail, **settings}


def output_tail(folder: Path) -> str:
    """Return the end of what the replicator printed, if there is one."""
    file = folder / "output.log"
    return file.read_text(errors="replace")[-OUTPUT_TAIL:] if file.exists() else ""


def expected_cases(scenario: Live) -> list[str]:
    """Return the names of the cases of one run."""
    if scenario.name == "catchup":
        return [live.catch_up_case(scenario)]
    return [str(rate) for rate in scenario.rates]


def fill_backlog(pair: Pair, scenario: Live) -> dict[str, dict[int, int]]:
    """Fill the backlog's topic; return its end offsets."""
    if not scenario.backlog_records:
        return {}
    create_topics(pair.source, {BACKLOG_TOPIC: BACKLOG_PARTITIONS})
    fill.fill(
        pair.source,
        BACKLOG_TOPIC,
        partitions=BACKLOG_PARTITIONS,
        records=scenario.backlog_records,
        record_bytes=BACKLOG_RECORD_BYTES,
        batch_records=BACKLOG_BATCH_RECORDS,
        codec="none",
    )
    return {BACKLOG_TOPIC: log_ends(pair.source, BACKLOG_TOPIC, BACKLOG_PARTITIONS)}


def replicator_of(
    name: str, scenario: Live, pair: Pair, folder: Path
) -> tuple[Part, str, Mapping[str, Any]]:
    """Return the command to start, its prefix at the target, and its settings for the report."""
    if name in (ours.PLAIN, ours.MERGED):
        wanted = ours.config(
            *pair.ways(),
            scenario.patterns(),
            part=name,
            steps=scenario.steps,
            latency_target_ms=scenario.latency_target_ms,
        )
        part = live_part(name, ours.command(folder, wanted), folder, signal.SIGTERM)
        if scenario.priority:
            prefer_live(scenario, folder)
        return part, ours.prefix_of(name), {}
    best = peer.TUNED[scenario.name] if name == "mm2_tuned" else None
    settings = {**peer.CANDIDATES, **peer.QUICK}[best] if best else {}
    topics = ",".join(scenario.patterns())
    wanted_mm2 = peer.properties(*pair.ways(), topics, "none", settings)
    if scenario.steps:
        wanted_mm2 |= piped.TRANSFORMS_DROP
    command = peer.command(find_java(), folder, wanted_mm2, quick=scenario.small)
    part = live_part(name, command, folder, signal.SIGKILL)
    said = {"settings": best, "properties": settings} if best else {}
    return part, f"{peer.ALIAS}.", said


def prefer_live(scenario: Live, folder: Path) -> None:
    """Let all topics but the backlog's have high priority, limit that one if it is to be.

    It is paused as well, until `resume_of` is called.
    """
    file = folder / ours.CONFIG_FILE
    ours.wish(file, "prefer", "*", "high")
    ours.wish(file, "prefer", BACKLOG_TOPIC, "normal")
    if scenario.limit_bytes_per_s:
        ours.wish(file, "limit", f"{scenario.limit_bytes_per_s}B/s", "--topic", BACKLOG_TOPIC)
    if scenario.backlog_records:
        ours.wish(file, "pause", "--topic", BACKLOG_TOPIC)


def resume_of(scenario: Live, folder: Path) -> Callable[[], None] | None:
    """Return what lets the paused backlog go, if it is."""
    if not (scenario.priority and scenario.backlog_records):
        return None
    return partial(ours.wish, folder / ours.CONFIG_FILE, "resume", "--topic", BACKLOG_TOPIC)


def live_part(name: str, command: Any, folder: Path, stop: signal.Signals) -> Part:
    """Return a part of which only the process matters; its copies are checked elsewhere."""
    return Part(
        name=name,
        command=command,
        environment={},
        folder=folder,
        topic="",
        partitions=0,
        records_total=0,
        record_bytes=0,
        deadline_s=0.0,
        stop=stop,
    )


def words(block: Mapping[str, Any]) -> str:
    """Return one line about a case."""
    if not block["finished"]:
        return f"did not finish: {block['reason']}\n{block['output_tail']}"
    said = f"p50 {block['p50_ms']} ms, p99 {block['p99_ms']} ms"
    if "cpu_cores" in block:
        said += f", {block['cpu_cores']} cores"
    if "backlog_records_per_s" in block:
        said += f", backlog {block['backlog_records_per_s']:,} records/s"
    return said


def note(said: str) -> None:
    """Print the progress, apart from the table."""
    print(said, file=sys.stderr, flush=True)
