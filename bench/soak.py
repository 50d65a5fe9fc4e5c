"""Seeded random faults, for hours, on two clusters of three brokers; then every record compared.

It ends at once, with the links' status, where a link does not catch up after faults.

Four topics are written to all the time: a plain one, a compacted one and one with transactions
over a link that maps offsets, one with transactions over a link that fills holes. Two more are
written at both clusters and merged by links both ways, while groups move between these. At the end
an ordinary consumer reads both sides completely. Exit code 1: records were lost, duplicated,
reordered or changed, a group skipped some, or a link did not recover.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import soak_load
from clusters import KAFKA_VERSION
from machine import describe
from soak_audit import Finding, audit
from soak_faults import Site, draw
from soak_link import Driver, SourcePartition, write_config
from soak_merged import TOPICS, Merged

from heliostat.clusters.admin import LATEST, ClusterAdmin
from heliostat.errors import BrokerError, HeliostatError
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster, ClusterSpec, find_java, start_many

HEAP_MB = 384
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "log.cleaner.backoff.ms": "5000",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
    "producer.id.expiration.check.interval.ms": "1000",
}
CALM_EVERY = 3
"""Faults in a row before the links must have caught up, so that faults don't only accumulate."""
LEVEL_WITHIN_S = 300.0
STOPPED_S = 60.0
"""A partition that has stopped for so long will not catch up: no fault is drawn that stops one."""
LOOK_S = 1.0


MIRRORED = tuple(load.topic for load in soak_load.LOADS)


class NotLevel(Exception):
    """A link has not caught up; the text says how far it is behind."""


class Run:
    """One soak.

    Parameters
    ----------
    seed
        Seed of all random choices.
    folder
        Folder of the configuration and the logs of drivers.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.folder = folder
        self.drawn: Counter[str] = Counter()
        self.wrong: list[str] = []
        """Messages about what did not recover."""
        self.level_s: list[float] = []
        """Durations of catching up after faults, in seconds."""
        self.began_s = time.monotonic()

    def say(self, text: str) -> None:
        """Print one line, with the time since the beginning."""
        print(f"{(time.monotonic() - self.began_s) / 60:6.1f} min  {text}", flush=True)

    def run(self, hours: float) -> dict[str, Any]:
        """Run it; return the report."""
        names = ("east", "west")
        specs = [ClusterSpec(name, brokers=3, settings=SETTINGS, heap_mb=HEAP_MB) for name in names]
        source, target = start_many(specs)
        with source, target:
            soak_load.create(source.bootstrap)
            driver = Driver(write_config(self.folder, source.bootstrap, target.bootstrap))
            writers = soak_load.Writers(source.bootstrap, self.seed)
            merged = Merged({"east": source.bootstrap, "west": target.bootstrap}, self.seed)
            merged.create()
            chance = random.Random(self.seed)  # noqa: S311  # faults, no secret
            site = Site(source, target, driver, chance, (*MIRRORED, *TOPICS))
            try:
                driver.start()
                writers.start()
                merged.start()
                self._break_things(site, merged, hours)
                writers.stop()
                self._calm(site, merged)
                time.sleep(LOOK_S)
                self.wrong += driver.problems()
                driver.stop()
                self.say("reading both sides")
                findings = audit(source.bootstrap, target.bootstrap) + merged.audit()
            except NotLevel as error:
                self.wrong.append(f"{error}; its status:\n{driver.status()}")
                findings = []
                self._keep_logs(source, target)
            finally:
                writers.stop()
                merged.stop()
                driver.kill_all()
        self.wrong += driver.ended_badly
        return self._report(writers, merged, findings)

    def _keep_logs(self, *clusters: Cluster) -> None:
        """Copy the brokers' logs, as they are now, beside those of drivers."""
        for cluster in clusters:
            for broker in cluster.brokers:
                kept = self.folder / cluster.name / broker.folder.name
                shutil.copytree(broker.folder, kept, ignore_dangling_symlinks=True)

    def _break_things(self, site: Site, merged: Merged, hours: float) -> None:
        until_s = time.monotonic() + hours * 3600
        self._wait_level(site)
        while time.monotonic() < until_s:
            fault = draw(site.chance)
            self.drawn[fault.__name__] += 1
            self.say(f"{self.drawn.total()}: {fault.__name__}")
            fault(site)
            if self.drawn.total() % CALM_EVERY == 0:
                self._calm(site, merged)
                merged.start()

    def _calm(self, site: Site, merged: Merged) -> None:
        """Wait until links have caught up, and move groups of merged topics; none is written."""
        merged.stop()
        self._wait_level(site)
        for text in merged.move_groups(site.driver.config):
            self.say(text)
            self.wrong.append(text)

    def _wait_level(self, site: Site) -> None:
        """Wait until each target has all current records of its source."""
        wanted: dict[SourcePartition, int] = {}
        began_s = time.monotonic()
        stopped_s: dict[str, float] = {}
        behind: object = "unknown"
        while time.monotonic() < began_s + LEVEL_WITHIN_S:
            wanted = wanted or wanted_of(site)
            found = site.driver.positions() if wanted else None
            if found is not None:
                left = {
                    " ".join(map(str, p)): end - found[p] for p, end in wanted.items() if p in found
                }
                behind = left
                if len(left) == len(wanted) and max(left.values()) <= 0:
                    self.level_s.append(time.monotonic() - began_s)
                    return
            stops = site.driver.stops()
            now_s = time.monotonic()
            stopped_s = {name: stopped_s.get(name, now_s) for name in stops}
            if any(now_s > since_s + STOPPED_S for since_s in stopped_s.values()):
                behind = stops
                break
            time.sleep(LOOK_S)
        text = f"not level after {time.monotonic() - began_s:.0f} s: behind by {behind}"
        self.say(text)
        raise NotLevel(text)

    def _report(
        self, writers: soak_load.Writers, merged: Merged, findings: list[Finding]
    ) -> dict[str, Any]:
        return {
            "machine": describe(find_java(), KAFKA_VERSION, self.folder),
            "seed": self.seed,
            "hours": round((time.monotonic() - self.began_s) / 3600, 2),
            "faults": dict(self.drawn),
            "level_s": [round(each, 1) for each in self.level_s],
            "written": writers.sent | merged.sent(),
            "writer_errors": writers.failed,
            "groups_moved": dict(merged.moved),
            "did_not_recover": self.wrong,
            "findings": [each.to_json() for each in findings],
        }


def wanted_of(site: Site) -> dict[SourcePartition, int]:
    """Return the log ends of all that is copied, by source; empty if one is unknown now."""
    east, west = ends(site.source.bootstrap, site.topics), ends(site.target.bootstrap, TOPICS)
    of_east = {("east", partition): end for partition, end in east.items()}
    of_west = {("west", partition): end for partition, end in west.items()}
    return of_east | of_west if east and west else {}


def ends(
    bootstrap: str, topics: Iterable[str], partitions: int = soak_load.PARTITIONS
) -> dict[TopicPartition, int]:
    """Return the log ends of these topics; empty if one is unknown now."""
    asked = [
        TopicPartition(TopicName(topic), PartitionId(number))
        for topic in topics
        for number in range(partitions)
    ]
    try:
        with ClusterAdmin(bootstrap.split(",")) as admin:
            answers = admin.list_offsets(dict.fromkeys(asked, LATEST))
    except HeliostatError:
        return {}
    found = {p: int(a.offset) for p, a in answers.items() if not isinstance(a, BrokerError)}
    return found if len(found) == len(asked) else {}


def table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    lines = [
        f"{'partition':24} {'source':>9} {'target':>9}  lost doubled reordered foreign different"
    ]
    for one in report["findings"]:
        name = f"{one['topic']}-{one['partition']}"
        counts = "  ".join(
            f"{one[what]:>6}" for what in ("lost", "doubled", "reordered", "foreign", "different")
        )
        lines.append(f"{name:24} {one['source']:>9,} {one['target']:>9,} {counts}")
        lines += [f"    {text}" for text in one["examples"]]
    slowest = max(report["level_s"], default=0.0)
    lines += [f"did not recover: {text}" for text in report["did_not_recover"]]
    lines.append(f"groups moved: {report['groups_moved']}")
    lines.append(
        f"{report['hours']} h, {sum(report['faults'].values())} faults, seed {report['seed']}; "
        f"caught up within {slowest:.0f} s at most"
    )
    return "\n".join(lines)


def is_clean(report: dict[str, Any]) -> bool:
    """Return whether nothing is wrong, and records were compared."""
    rows = report["findings"]
    wrong = ("lost", "doubled", "reordered", "foreign", "different")
    has_records = bool(rows) and all(row["source"] for row in rows)
    return (
        has_records
        and not any(row[what] for row in rows for what in wrong)
        and not report["did_not_recover"]
    )


def main() -> int:
    """Run one soak; return 0 if it is clean."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(prog="bench/soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="how long faults are drawn")
    parser.add_argument("--seed", type=int, help="draw the same again; else a new one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the drivers' logs there, and the brokers' if a link does not catch up",
    )
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # the load meets all faults, too
    with tempfile.TemporaryDirectory(prefix="heliostat-soak-") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report = Run(seed, folder).run(given.hours)
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    return 0 if is_clean(report) else 1


if __name__ == "__main__":
    sys.exit(main())
