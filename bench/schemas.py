"""`bench/compare schemas`: what schemas cost a link.

Heliostat is compared with itself without schemas: throughput of framed records, latency of the
EFD's load with a subject for each topic, and the time to mirror thousands of schemas from nothing.
The registries are doubles in processes of their own (`registries`), so that their processor time is
not counted as ours.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import live
import live_main
import machine
import measure
import ours
import report
from clusters import KAFKA_VERSION, Pair, create_topic, create_topics, log_ends, pair_of_clusters
from fill import fill, framed
from live_scenarios import LIVE, SMALL, Live
from measure import Part, own_cpu_s
from registries import registries_of, registry, schema_of
from stamped import frame

from heliostat.access import RegistryAccess
from heliostat.config import load_config
from heliostat.link.schema_rules import rules_of
from heliostat.names import TopicName
from heliostat.schemas import HttpRegistry
from heliostat.schemas.mirroring import mirror_schemas
from heliostat_sandbox import find_java

NAME = "schemas"
WITHOUT = "without"
STRATEGIES = ("preserve", "rewrite")
"""Strategies that are measured."""
THROUGHPUT, EFD, MIRRORED = "throughput", "efd", "mirrored"
PARTS = (THROUGHPUT, EFD, MIRRORED)
EFD_SUBJECTS = 3_348
OWN_SUBJECTS, OWN_FROM = 7, 1_000_000
"""Schemas that the target has before, with *rewrite*, and the number of the first."""
FLOORS = {"preserve": {"none": 0.9, "lz4": 0.9}, "rewrite": {"none": 0.8, "lz4": 0.4}}
"""Least throughput, as a share of that without schemas."""
P99_MAX, MIRRORED_S_MAX = 1.2, 60.0
EXIT_UNFINISHED = 1
DIGITS = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is of each."""

    records: int = 4_000_000
    record_bytes: int = 500
    batch_records: int = 128
    partitions: int = 4
    deadline_s: float = 600.0
    schemas: int = 10_000
    other_subjects: int = 500
    """Of the source's registry besides the topic's own, so that ids are no small numbers."""


FULL = Sizes()
FEW = Sizes(records=8_000, deadline_s=90.0, schemas=200, other_subjects=20)
Found = dict[str, Any]


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure the parts, and report after each."""
    sizes = FEW if given.small else FULL
    names = [each for each in PARTS if each in given.part]
    found = earlier(given.json, dataclasses.asdict(sizes))
    for name in names:
        if name == MIRRORED:
            found[name] = mirrored(sizes, folder / name)
        elif name == THROUGHPUT:
            found[name] = throughput(given, sizes, folder / name)
        else:
            found[name] = efd(given, folder / name)
        print(f"{name}: {json.dumps(verdicts(found))}", file=sys.stderr, flush=True)
        if given.json:
            report.write(given.json, {**found, "ratios": verdicts(found)})
    said = verdicts(found)
    for name, (figure, limit) in said.items():
        print(f"{name}: {figure} (limit {limit})")
    return 0 if all(figure is not None for figure, _ in said.values()) else EXIT_UNFINISHED


def earlier(file: Path | None, shape: dict[str, Any]) -> Found:
    """Return the report that the file holds, so that parts can run one by one, or a new one."""
    if file is not None and file.exists():
        known: Found = json.loads(file.read_text())
        if known.get("shape") != shape:
            raise SystemExit(f"{file} holds another scenario or size: give another file")
        return known
    about = machine.describe(find_java(), KAFKA_VERSION, Path.cwd())
    return {"scenario": NAME, "shape": shape, "machine": about}


def verdicts(found: Found) -> dict[str, tuple[float | None, float]]:
    """Return each figure that has a limit, and that limit; None: a part did not finish."""
    said: dict[str, tuple[float | None, float]] = {}
    for codec, blocks in found.get(THROUGHPUT, {}).items():
        for strategy in STRATEGIES:
            ratio = quotient(blocks, strategy, "records_per_s")
            said[f"{strategy}_vs_without_{codec}"] = ratio, FLOORS[strategy][codec]
    for rate, blocks in found.get(EFD, {}).items():
        for strategy in STRATEGIES:
            said[f"{strategy}_p99_{rate}"] = quotient(blocks, strategy, "p99_ms"), P99_MAX
    if MIRRORED in found:
        said["mirrored_s"] = found[MIRRORED].get("seconds"), MIRRORED_S_MAX
    return said


def quotient(blocks: Mapping[str, Any], strategy: str, figure: str) -> float | None:
    """Return a figure divided by the one without schemas."""
    mine, other = blocks.get(strategy, {}), blocks.get(WITHOUT, {})
    if not mine.get("finished") or not other.get("finished") or not other.get(figure):
        return None
    return round(float(mine[figure]) / float(other[figure]), DIGITS)


@contextlib.contextmanager
def configured(
    wanted: dict[str, Any], strategy: str, folder: Path, subjects: Sequence[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """Add registries and a strategy to a configuration; nothing for the part without schemas."""
    if strategy == WITHOUT:
        yield wanted
        return
    # So that each id has to be replaced: the target counts on from its own.
    own = [(f"Own{n}", schema_of(OWN_FROM + n)) for n in range(OWN_SUBJECTS)]
    own = own if strategy == "rewrite" else []
    with registries_of(wanted, folder, strategy, subjects, own):
        yield wanted


# -- throughput ----------------------------------------------------------------------------------


def throughput(given: argparse.Namespace, sizes: Sizes, folder: Path) -> Found:
    """Copy one topic with each strategy and without, uncompressed and compressed."""
    found: Found = {}
    with pair_of_clusters(small=given.small) as pair:
        for codec in (given.codec,) if given.codec else ("none", "lz4"):
            topic = f"framed-{codec}"
            subjects = [(f"Other{n}", schema_of(n)) for n in range(sizes.other_subjects)]
            subjects.append((f"{topic}-value", schema_of(sizes.other_subjects)))
            pair.clear(topic)
            create_topic(pair.source, topic, sizes.partitions)
            fill(
                pair.source,
                topic,
                partitions=sizes.partitions,
                records=sizes.records,
                record_bytes=sizes.record_bytes,
                batch_records=sizes.batch_records,
                codec=codec,
                values=framed(frame(len(subjects))),  # the registry counts from 1
            )
            found[codec] = {
                strategy: copied(sizes, pair, topic, strategy, folder / codec / strategy, subjects)
                for strategy in (WITHOUT, *STRATEGIES)
            }
    return found


def copied(  # noqa: PLR0917 - one part's
    sizes: Sizes,
    pair: Pair,
    topic: str,
    strategy: str,
    folder: Path,
    subjects: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Copy it from nothing; the target must have the source's end offsets."""
    pair.clear(topic)
    ends = log_ends(pair.source, topic, sizes.partitions)
    with configured(ours.config(*pair.ways(), [topic]), strategy, folder, subjects) as wanted:
        part = Part(
            name=strategy,
            command=ours.command(folder, wanted),
            environment={},
            folder=folder,
            topic=ours.PREFIX + topic,
            partitions=sizes.partitions,
            records_total=sum(ends.values()),
            record_bytes=sizes.record_bytes,
            deadline_s=sizes.deadline_s,
            ends=ends,
        )
        return measure.run(part, pair.brokers())


# -- latency -------------------------------------------------------------------------------------


def efd(given: argparse.Namespace, folder: Path) -> Found:
    """Measure the EFD's load with a subject for each topic, and without schemas."""
    scenario = (SMALL if given.small else LIVE)[EFD]
    if given.small:
        scenario = dataclasses.replace(scenario, rates=scenario.rates[:1])
    if given.rate:
        scenario = dataclasses.replace(scenario, rates=tuple(sorted(given.rate)))
    found: Found = {}
    for strategy in (WITHOUT, *STRATEGIES):
        with pair_of_clusters(
            storage=scenario.storage, heap_mb=scenario.heap_mb, small=scenario.small
        ) as pair:
            for rate, block in under_load(scenario, pair, strategy, folder / strategy):
                found.setdefault(rate, {})[strategy] = block
    return found


def under_load(
    scenario: Live, pair: Pair, strategy: str, folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield rate and block; those that were not reached with the reason."""
    streams = scenario.streams()
    named = [(f"{each.topic}-value", schema_of(n)) for n, each in enumerate(streams)]
    more = max(0, EFD_SUBJECTS - len(named)) if not scenario.small else 0
    subjects = [*named, *((f"Other{n}", schema_of(len(named) + n)) for n in range(more))]
    streams = [dataclasses.replace(each, schema_id=n + 1) for n, each in enumerate(streams)]
    create_topics(pair.source, {each.topic: each.partitions for each in streams})
    seeds = live.seed_all(pair, streams)
    folder.mkdir(parents=True, exist_ok=True)
    config = ours.config(*pair.ways(), scenario.patterns())
    left = list(map(str, scenario.rates))
    with configured(config, strategy, folder, subjects) as wanted:
        part = live_main.live_part(strategy, ours.command(folder, wanted), folder, signal.SIGTERM)
        try:
            with live.replicating(scenario, pair, part, streams, ours.PREFIX) as running:
                for rate, block in live.at_each_rate(running, seeds):
                    left.remove(rate)
                    yield rate, block
        except live.Unfinished as error:
            tail = live_main.output_tail(folder)
            for rate in left:
                yield rate, {"finished": False, "reason": str(error), "output_tail": tail}


# -- many schemas --------------------------------------------------------------------------------


def mirrored(sizes: Sizes, folder: Path) -> Found:
    """Mirror all schemas of topics into an empty registry, as a turn of a running link does."""
    topics = [f"lsst.t{number}" for number in range(sizes.schemas)]
    subjects = [(f"{topic}-value", schema_of(number)) for number, topic in enumerate(topics)]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "heliostat.yaml"
    with registry(folder, "source", subjects) as here, registry(folder, "target") as there:
        file.write_text(json.dumps(_bare(here.url, there.url)))
        (link,) = load_config(file).links
        names = {TopicName(topic): TopicName(topic) for topic in topics}
        with (
            HttpRegistry(RegistryAccess((here.url,))) as source,
            HttpRegistry(RegistryAccess((there.url,))) as target,
        ):
            registries_s = own_cpu_s(here.pid) + own_cpu_s(there.pid)
            began_s, began_cpu_s = time.monotonic(), time.process_time()
            done = mirror_schemas(source, target, rules_of(link, names, names))
            seconds, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
            registries_s = own_cpu_s(here.pid) + own_cpu_s(there.pid) - registries_s
            again_s = time.monotonic()
            mirror_schemas(source, target, rules_of(link, names, names))
            again_s = time.monotonic() - again_s
    if len(done.ids) != sizes.schemas or done.unresolved:
        return {"finished": False, "reason": f"{len(done.ids)} ids, {len(done.unresolved)} not"}
    return {
        "finished": True,
        "seconds": round(seconds, 2),
        "cpu_s": round(cpu_s, 2),
        "registries_cpu_s": round(registries_s, 2),
        "again_s": round(again_s, 2),
        "schemas": len(done.ids),
    }


def _bare(source: str, target: str) -> dict[str, Any]:
    """Return a configuration of which only the schemas' rules are used."""
    link = {"name": "bench", "source": "A", "target": "B", "topics": {"include": ["lsst.*"]}}
    sides = {"A": ("127.0.0.1:1", source), "B": ("127.0.0.1:2", target)}
    return {
        "clusters": {
            name: {"bootstrap": [address], "schema_registry": {"urls": url}}
            for name, (address, url) in sides.items()
        },
        "links": [{**link, "schemas": {"strategy": STRATEGIES[0]}}],
    }
