"""Rolling upgrade under load: owner and standby of two versions exchanged, and back.

An owner of the earlier version copies; a standby of this one waits and takes over when the owner is
stopped, as docs/upgrade.md says. Then a standby of the earlier version takes over from it, and so
on. Pauses are the longest time in which nothing of a partition became readable at the target. At
the end each record must be there once, at equal offsets. The earlier version is a commit of this
repository; it must run with the packages of today's lock.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import delays
import live
import numpy as np
from clusters import Pair, create_topic, log_ends, pair_of_clusters
from soak_link import Driver, write_links
from stamped import Stream, write_streams

ROOT = Path(__file__).resolve().parents[1]
EARLIER = "77cc9ef7"
"""The last commit of 0.1.0."""
LINK, TOPIC, PARTITIONS, VALUE_BYTES = "rolling", "rolling-live", 8, 300
LEASE_S = 20
"""The default of `lanes.lease_s`."""
WAITS = ": waiting for its owner on"
STARTS_WITHIN_S = 180.0
LOOK_S = 0.2
LOADED_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Version:
    """Code to run: its name, and the folder that Python finds it in."""

    name: str
    source: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which Python, and Spark's workers, import this code."""
        return {"PYTHONPATH": str(self.source)}


def version_of(tree: Path, commit: str = "") -> Version:
    """Return the version whose tree that is."""
    text = (tree / "src" / "heliostat" / "__init__.py").read_text()
    (number,) = re.findall(r'__version__ = "(.+)"', text)
    return Version(f"{number} ({commit})" if commit else number, tree / "src")


def earlier_version(commit: str, folder: Path) -> Version:
    """Write the code of a commit into a folder."""
    packed = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return version_of(folder, commit)


def prepare(version: Version) -> None:
    """Compile what a first link would compile."""
    subprocess.run(
        [sys.executable, "-m", "heliostat.cli.entry", "prepare"],
        env={**os.environ, **version.environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )


@dataclass(frozen=True, slots=True)
class HandOver:
    """One exchange: from when the owner is stopped until the next exchange begins."""

    what: str
    begin_ns: int
    end_ns: int


def longest_pause_s(arrivals: delays.Rows, begin_ns: int, end_ns: int) -> float:
    """Return for how long nothing of a partition arrived, at most, between two instants."""
    longest_ns = 0
    for partition in np.unique(arrivals[:, 2]):
        arrived_ns = np.sort(arrivals[arrivals[:, 2] == partition, 0])
        before = arrived_ns[arrived_ns < begin_ns][-1:]
        inside = arrived_ns[(arrived_ns >= begin_ns) & (arrived_ns < end_ns)]
        after = arrived_ns[arrived_ns >= end_ns][:1]
        pauses_ns = np.diff(np.concatenate([before, inside, after]))
        longest_ns = max(longest_ns, int(pauses_ns.max(initial=0)))
    return longest_ns / 1e9


def judged(sent: delays.Rows, arrivals: delays.Rows) -> tuple[int, int]:
    """Return how many records are missing at the target, and how many are there twice."""
    missing = ~np.isin(sent[:, 3], arrivals[:, 3])
    return int(missing.sum()), len(arrivals) - len(np.unique(arrivals[:, 3]))


class Rolling:
    """The link and its two machines, of which one is the owner.

    Parameters
    ----------
    folder
        Of the configuration and logs.
    pair
        The clusters.
    """

    def __init__(self, folder: Path, pair: Pair) -> None:
        self.folder = folder
        self.problems: list[str] = []
        topics = {LINK: {"include": [TOPIC]}}
        self._config = write_links(folder, pair.source, pair.target, topics, lease_s=LEASE_S)
        self._drivers: list[Driver] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Kill what still runs after the block."""
        try:
            yield
        finally:
            for driver in self._drivers:
                driver.kill_all()

    def begin(self, version: Version) -> None:
        """Start the first owner."""
        self._start(version).wait_owner()

    def exchange(self, version: Version) -> int:
        """Start a standby and stop the owner; return the monotonic time of the stop."""
        owner, standby = self._drivers[-1], self._start(version)
        until_s = time.monotonic() + STARTS_WITHIN_S
        while WAITS not in standby.text():
            if time.monotonic() > until_s:
                raise SystemExit(f"no standby of {version.name}: {standby.text()[-2000:]}")
            time.sleep(LOOK_S)
        time.sleep(LOOK_S * 10)  # it has what it needs to take over
        stopped_ns = time.monotonic_ns()
        owner.stop()
        standby.wait_owner()
        return stopped_ns

    def end(self) -> None:
        """Stop the owner."""
        self._drivers[-1].stop()

    def _start(self, version: Version) -> Driver:
        driver = Driver(self._config, self.problems, version.environment)
        self._drivers.append(driver)
        driver.start()
        return driver


def exchange_all(
    rolling: Rolling, versions: tuple[Version, Version], turns: int, settle_s: float
) -> list[HandOver]:
    """Exchange the versions in turn; return each hand-over, and first a while without any."""
    rolling.begin(versions[0])
    time.sleep(settle_s)
    marks = [(time.monotonic_ns(), "without a hand-over")]
    time.sleep(settle_s)
    for turn in range(turns):
        old, new = versions if turn % 2 == 0 else versions[::-1]
        marks.append((rolling.exchange(new), f"{old.name} to {new.name}"))
        time.sleep(settle_s)
    marks.append((time.monotonic_ns(), ""))
    return [HandOver(what, begin_ns, end_ns) for (begin_ns, what), (end_ns, _) in pairwise(marks)]


def wait_all(sent: delays.Rows, rows: Path) -> delays.Rows:
    """Wait until all that was sent has been readable at the target; return what was."""
    until_s = time.monotonic() + live.DRAIN_S
    while True:
        arrivals = delays.read_rows(rows)
        if not judged(sent, arrivals)[0] or time.monotonic() > until_s:
            return arrivals
        time.sleep(LOOK_S)


def under_load(
    pair: Pair, rolling: Rolling, versions: tuple[Version, Version], given: argparse.Namespace
) -> tuple[list[HandOver], delays.Rows, delays.Rows]:
    """Exchange while records come; return the hand-overs, what was sent, and what arrived."""
    folder = rolling.folder
    streams, wanted = folder / "streams.json", folder / "wanted.json"
    write_streams(streams, [Stream(TOPIC, PARTITIONS, 1.0, VALUE_BYTES)])
    wanted.write_text(json.dumps([[TOPIC, number, number] for number in range(PARTITIONS)]))
    sent, arrived = folder / "sent.rows", folder / "arrived.rows"
    load = ["--bootstrap", pair.source, "--streams", str(streams), "--rows", str(sent)]
    load += ["--rate", str(given.rate), "--seconds", str(LOADED_S)]
    watch = ["--bootstrap", pair.target, "--wanted", str(wanted), "--rows", str(arrived)]
    with (
        live.helper(live.LOAD, load, folder) as loading,
        rolling.running(),
        live.helper(live.WATCH, watch, folder),
    ):
        live.go(loading)
        hand_overs = exchange_all(rolling, versions, given.turns, given.settle_s)
        loading.send_signal(signal.SIGTERM)
        loading.wait(live.PROCESS_S)
        rows = delays.read_rows(sent)
        arrivals = wait_all(rows, arrived)
        rolling.end()
    return hand_overs, rows, arrivals


def measure(
    pair: Pair, versions: tuple[Version, Version], given: argparse.Namespace, folder: Path
) -> int:
    """Exchange under load, print the pauses, and check all records."""
    create_topic(pair.source, TOPIC, PARTITIONS)
    rolling = Rolling(folder, pair)
    hand_overs, sent, arrivals = under_load(pair, rolling, versions, given)
    pauses_s = [longest_pause_s(arrivals, row.begin_ns, row.end_ns) for row in hand_overs]
    for hand_over, pause_s in zip(hand_overs, pauses_s, strict=True):
        print(f"{hand_over.what}: a partition stood still for {pause_s:.1f} s at most")
    print(f"longest pause of {given.turns} hand-overs: {max(pauses_s[1:]):.1f} s")
    missing, doubled = judged(sent, arrivals)
    source, target = (log_ends(side, TOPIC, PARTITIONS) for side in (pair.source, pair.target))
    says = "equal" if source == target else f"different: {source} and {target}"
    print(f"{len(sent):,} records, {missing} missing, {doubled} twice; log ends are {says}")
    for problem in rolling.problems:
        print(problem)
    return 1 if missing or doubled or rolling.problems or source != target else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--earlier", default=EARLIER, help="commit of the earlier version")
    parser.add_argument("--rate", type=float, default=1_000.0, help="records a second")
    parser.add_argument("--turns", type=int, default=4, help="hand-overs, there and back")
    parser.add_argument("--settle-s", type=float, default=15.0, help="after each")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, pair_of_clusters() as pair:
        folder = Path(name)
        earlier = earlier_version(given.earlier, folder / "earlier")
        versions = earlier, version_of(ROOT)
        for version in versions:
            prepare(version)
        return measure(pair, versions, given, folder)


if __name__ == "__main__":
    sys.exit(main())
