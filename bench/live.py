"""Runs one replicator under live load: start, warm up, measure at each rate, check, stop.

Every replicator takes the same steps on its own, freshly started brokers, so that the order of
parts plays no role: topics are created with one record a partition, the replicator starts, all
those records must arrive, then load begins. Measurements come from the two processes `load.py`
and `watch.py` and from the kernel, nothing from the replicator. The base line is the same on one
broker, without a replicator.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import delays
import load
import piped
from clusters import Pair
from delays import Window
from live_scenarios import Live, sample
from measure import Part, Tree, own_cpu_s, running
from stamped import Stream, places, write_streams
from wire import Connection

HERE = Path(__file__).parent
LOAD, WATCH = "load.py", "watch.py"
LOOK_S = 0.2
SLOW_LOOK_S = 1.0
"""Pause between polls of thousands of partitions, each of which costs the target some 30 ms."""
MANY_PARTITIONS = 1_000
DRAIN_S = 90.0
"""Time limit for all records to arrive after the load's end."""
NUMBERS_APART = 100_000_000
"""Difference between first numbers of two rates: more than any of them sends."""
PROCESS_S = 30.0
"""Time limit for a process of ours to start or end."""


CATCH_UP_LOAD_S = 3_600.0
"""More than any backlog takes; the load is stopped when the backlog has been copied."""


class Unfinished(Exception):
    """Why a part has no result."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Seconds of processor time at one instant: the replicator's, if there is one, and brokers'."""

    at_ns: int
    cpu_s: float | None
    broker_cpu_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Watch:
    """The watcher's process and the file it writes to."""

    process: subprocess.Popen[bytes]
    rows: Path


@dataclass(slots=True)
class LiveRun:
    """One replicator between two clusters; `prefix` is what it puts before topic names.

    The base line has no `process`, and its target is the source.
    """

    live: Live
    pair: Pair
    streams: Sequence[Stream]
    prefix: str
    folder: Path
    process: subprocess.Popen[bytes] | None
    target: Connection
    started_ns: int
    tree: Tree | None = field(init=False)

    def __post_init__(self) -> None:
        self.tree = Tree(self.process.pid) if self.process else None

    def topics(self) -> dict[str, int]:
        """Partition counts of the live topics at the target."""
        return {self.prefix + each.topic: each.partitions for each in self.streams}

    def landed(self) -> int:
        """Records in the target's live topics."""
        ends = self.target.ends(self.topics())
        return sum(sum(each.values()) for each in ends.values())

    def count(self) -> Counted:
        """Count the processor time of all so far."""
        brokers = self.pair.brokers()
        pids = {"source": brokers.source_pid}
        if self.process:
            pids["target"] = brokers.target_pid
        return Counted(
            time.monotonic_ns(),
            self.tree.look() if self.tree else None,
            {side: own_cpu_s(pid) for side, pid in pids.items()},
        )

    def alive(self) -> None:
        """Raise if the replicator ended; count processes that come and go."""
        if self.process and self.process.poll() is not None:
            raise Unfinished(f"the process ended with {self.process.returncode}")
        if self.tree:
            self.tree.look()

    def memory_mb(self) -> dict[str, int]:
        """Return the replicator's memory now."""
        return self.tree.memory_mb() if self.tree else {}

    def wait_started(self, seeds: int) -> dict[str, float]:
        """Wait for the first record of every partition; return seconds since the start."""
        look_s = SLOW_LOOK_S if seeds > MANY_PARTITIONS else LOOK_S
        first_s = 0.0
        while True:
            landed = self.landed()
            now_s = (time.monotonic_ns() - self.started_ns) / 1e9
            if landed and not first_s:
                first_s = now_s
            if landed >= seeds:
                return {"start_to_first_s": round(first_s, 2), "start_to_all_s": round(now_s, 2)}
            self.alive()
            if now_s > self.live.start_deadline_s:
                raise Unfinished(f"{landed} of {seeds} partitions had begun after {now_s:.0f} s")
            time.sleep(look_s)

    def wait_landed(self, sent: int) -> None:
        """Wait until the target has as many records as the source; more are a failure."""
        deadline_s = time.monotonic() + DRAIN_S
        while (landed := self.landed()) < sent:
            self.alive()
            if time.monotonic() > deadline_s:
                raise Unfinished(f"{landed} of {sent} records had arrived {DRAIN_S:.0f} s later")
            time.sleep(LOOK_S)
        if landed > sent:
            raise Unfinished(f"{landed} records at the target, {sent} were due")

    def watched(self) -> list[int]:
        """Indices of the partitions that are watched."""
        return sample(self.streams, self.live.sampled)

    def wait_seen(self, window: Window, watch: Watch) -> delays.Rows:
        """Wait until the watcher has all of the window."""
        deadline_s = time.monotonic() + DRAIN_S
        while window.missing(seen := delays.read_rows(watch.rows)):
            if watch.process.poll() is not None:
                raise Unfinished(f"the watcher ended: {log_of(WATCH, self.folder)}")
            if time.monotonic() > deadline_s:
                raise Unfinished(f"{window.missing(seen)} records were never readable")
            time.sleep(LOOK_S)
        return seen


def write_wanted(run: LiveRun) -> Path:
    """Write the sampled partitions by their names at the target, for the watcher."""
    every = places(run.streams)
    rows = [(run.prefix + every[i][0], every[i][1], i) for i in run.watched()]
    file = run.folder / "wanted.json"
    file.write_text(json.dumps(rows))
    return file


@contextlib.contextmanager
def watching(run: LiveRun) -> Iterator[Watch]:
    """Run the watcher during the block."""
    rows = run.folder / "seen.rows"
    words = ["--bootstrap", run.pair.target, "--wanted", str(write_wanted(run))]
    if run.live.steps and run.process:
        words += ["--without", piped.DROPPED[0][0]]
    with helper(WATCH, [*words, "--rows", str(rows)], run.folder) as process:
        yield Watch(process, rows)


@contextlib.contextmanager
def loading(
    run: LiveRun, rate: int, seconds: float, number: int
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start the load, ready to `go`; give its process and the file it will have written."""
    streams, rows = run.folder / "streams.json", run.folder / f"sent-{number}.rows"
    write_streams(streams, run.streams)
    words = ["--bootstrap", run.pair.source, "--streams", str(streams), "--rows", str(rows)]
    words += ["--rate", str(rate), "--seconds", str(seconds), "--first-number", str(number)]
    if run.live.steps:
        words.append("--headers")
    if run.live.single:
        words.append("--single")
    with helper(LOAD, words, run.folder) as process:
        yield process, rows


def go(process: subprocess.Popen[bytes]) -> None:
    """Let the load begin."""
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()


@contextlib.contextmanager
def helper(script: str, words: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of our own processes during the block, from when it reports that it is ready."""
    with (folder / f"{script}.log").open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, str(HERE / script), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                process.wait(PROCESS_S)
                raise Unfinished(f"{script} ended: {log_of(script, folder)}")
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            try:
                process.wait(PROCESS_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def log_of(script: str, folder: Path) -> str:
    """Return the end of the output of one of our own processes."""
    return (folder / f"{script}.log").read_text()[-500:]


@contextlib.contextmanager
def replicating(
    live: Live, pair: Pair, part: Part, streams: Sequence[Stream], prefix: str
) -> Iterator[LiveRun]:
    """Start the replicator, stop it at the end."""
    started_ns = time.monotonic_ns()
    with Connection(pair.target) as target, running(part) as process:
        yield LiveRun(live, pair, streams, prefix, part.folder, process, target, started_ns)


@contextlib.contextmanager
def without_replicator(
    live: Live, pair: Pair, folder: Path, streams: Sequence[Stream]
) -> Iterator[LiveRun]:
    """Give the base line's run: the watcher reads what the load wrote, from the same broker."""
    with Connection(pair.source) as source:
        yield LiveRun(live, pair, streams, "", folder, None, source, time.monotonic_ns())


def used(begin: Counted, end: Counted) -> dict[str, Any]:
    """Return the number of cores that were busy between two instants."""
    seconds = (end.at_ns - begin.at_ns) / 1e9
    found: dict[str, Any] = {}
    if begin.cpu_s is not None and end.cpu_s is not None:
        found["cpu_cores"] = round((end.cpu_s - begin.cpu_s) / seconds, 3)
    found["broker_cpu_cores"] = {
        side: round((cpu_s - begin.broker_cpu_s[side]) / seconds, 3)
        for side, cpu_s in end.broker_cpu_s.items()
    }
    return found


def at_each_rate(run: LiveRun, seeds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure at each rate, one after another; yield rate and block."""
    started = run.wait_started(seeds) if run.process else {}
    sent = seeds
    with watching(run) as watch:
        for number, rate in enumerate(run.live.rates):
            window, counted = at_rate(run, rate, number * NUMBERS_APART)
            sent += len(window.sent)
            seen = run.wait_seen(window, watch)
            run.wait_landed(sent)
            yield (
                str(rate),
                {
                    "finished": True,
                    **window.figures(seen),
                    "records_per_s": delays.rate_per_s(window.sent, window.begin_ns, window.end_ns),
                    **used(*counted),
                    **run.memory_mb(),
                    **started,
                },
            )


def at_rate(
    run: LiveRun, rate: int, number: int, meanwhile: Callable[[], None] | None = None
) -> tuple[Window, tuple[Counted, Counted]]:
    """Run load at one rate; return what was sent in the window, and the counts at its two ends.

    `meanwhile` is called about once a second within the window.
    """
    live = run.live
    with loading(run, rate, live.warm_s + live.window_s, number) as (process, file):
        go(process)
        begin_ns = time.monotonic_ns() + round(live.warm_s * 1e9)
        _sleep_until(run, begin_ns)
        begin = run.count()
        _sleep_until(run, begin_ns + round(live.window_s * 1e9), meanwhile)
        end = run.count()
        if process.wait(PROCESS_S):
            raise Unfinished(f"the load failed: {log_of(LOAD, run.folder)}")
    return Window(delays.read_rows(file), begin.at_ns, end.at_ns, run.watched()), (begin, end)


def _sleep_until(run: LiveRun, at_ns: int, meanwhile: Callable[[], None] | None = None) -> None:
    while (left_s := (at_ns - time.monotonic_ns()) / 1e9) > 0:
        run.alive()
        if meanwhile:
            meanwhile()
        time.sleep(min(left_s, 1.0))


def catch_up_case(live: Live) -> str:
    """Return the name of the only case of a run of `catchup`."""
    if not live.backlog_records:
        return "without_backlog"
    return "limited" if live.limit_bytes_per_s else "with_backlog"


def catch_up(
    run: LiveRun,
    seeds: int,
    backlog: Mapping[str, Mapping[int, int]],
    resume: Callable[[], None] | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure live load from the first backlog record at the target to the last, and its latency.

    Without a backlog the load begins with the first live record and lasts `window_s`.

    Parameters
    ----------
    resume
        Lets a backlog go that has been paused until link and brokers are warm.
    """
    live, rate = run.live, run.live.rates[0]
    due = sum(sum(each.values()) for each in backlog.values())
    prefixed = {run.prefix + topic: len(ends) for topic, ends in backlog.items()}
    with watching(run) as watch:
        with loading(run, rate, CATCH_UP_LOAD_S, 0) as (process, file):
            if live.warm_s:
                run.wait_started(seeds)
                go(process)
                _sleep_until(run, time.monotonic_ns() + round(live.warm_s * 1e9))
            if resume:
                resume()
            first, start_s = _first(run, prefixed)
            if not live.warm_s:
                go(process)
            begin = run.count()
            if due:
                last = _until_all(run, prefixed, due)
            else:
                _sleep_until(run, begin.at_ns + round(live.window_s * 1e9))
                last = first
            end = run.count()
            process.send_signal(signal.SIGTERM)
            if process.wait(PROCESS_S):
                raise Unfinished(f"the load failed: {log_of(LOAD, run.folder)}")
        window = Window(delays.read_rows(file), begin.at_ns, end.at_ns, run.watched())
        seen = run.wait_seen(window, watch)
    run.wait_landed(seeds + len(window.sent))
    block = {"finished": True, **window.figures(seen), **used(begin, end), **run.memory_mb()}
    block["records_per_s"] = delays.rate_per_s(window.sent, window.begin_ns, window.end_ns)
    block["start_to_first_s"] = start_s
    if due:
        seconds = (last[0] - first[0]) / 1e9
        block["backlog_seconds"] = round(seconds, 2)
        block["backlog_records_per_s"] = round((last[1] - first[1]) / seconds)
    if live.limit_bytes_per_s:
        block["limit_bytes_per_s"] = live.limit_bytes_per_s
    yield catch_up_case(live), block


def _landed(run: LiveRun, topics: Mapping[str, int]) -> tuple[int, int]:
    """Return the time and the records in these topics of the target."""
    ends = run.target.ends(topics)
    return time.monotonic_ns(), sum(sum(each.values()) for each in ends.values())


def _first(run: LiveRun, backlog: Mapping[str, int]) -> tuple[tuple[int, int], float]:
    """Return the first poll with records of the backlog, or of the live topics if there is none."""
    topics = backlog or run.topics()
    while not (look := _landed(run, topics))[1]:
        run.alive()
        if look[0] - run.started_ns > run.live.start_deadline_s * 1e9:
            raise Unfinished("no record arrived")
        time.sleep(LOOK_S / 4)
    return look, round((look[0] - run.started_ns) / 1e9, 2)


def _until_all(run: LiveRun, topics: Mapping[str, int], due: int) -> tuple[int, int]:
    """Return the first poll with all of the backlog."""
    moved = _landed(run, topics)
    while (look := _landed(run, topics))[1] < due:
        run.alive()
        if look[1] > moved[1]:
            moved = look
        if look[0] - moved[0] > DRAIN_S * 1e9:
            raise Unfinished(
                f"no new record of the backlog for {DRAIN_S:.0f} s, {look[1]} of {due}"
            )
        time.sleep(LOOK_S / 4)
    if look[1] > due:
        raise Unfinished(f"{look[1]} records of the backlog at the target, {due} were due")
    return look


def seed_all(pair: Pair, streams: Sequence[Stream]) -> int:
    """Append one record to each partition of the source."""
    return load.seed(pair.source, streams)
