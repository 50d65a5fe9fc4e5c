"""One part of the benchmark: start a replicator, watch the target, stop it, check what it did.

Progress is read only from the target's log ends, processor time only from the kernel. Both are
taken at the same two instants (first records seen, last record landed) for all, so start-up is
left out of the main figures in the same way; it is reported separately.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from wire import Connection

POLL_S = 0.05
"""Twenty polls a second: an error below 2 % on the shortest parts (5 s), at negligible load."""
STALL_S = 120.0
"""No new record for this long: the part is given up. MirrorMaker's start takes up to 40 s here."""
STOP_S = 30.0
"""Time that a stopping replicator gets before it is killed; not measured any more."""
SETTLE_S = 1.0
"""How long the target is watched for extra records after the last one landed."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is measured: a command that fills a topic of the target.

    `records_total` is reached when the part is done. `partitions` are those of the target topic.
    `ends` are the source's, where the part promises equal ones. `stop` is the signal that ends it:
    its results have been read by then. `helpers` are processes that were started before and
    work for the part (Spark's workers): they and what they start are counted, but not ended.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    topic: str
    partitions: int
    records_total: int
    record_bytes: int
    deadline_s: float
    ends: Mapping[int, int] | None = None
    stop: signal.Signals = signal.SIGTERM
    helpers: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Brokers:
    """The two brokers a part runs between: addresses and process ids."""

    source: str
    target: str
    source_pid: int
    target_pid: int


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything counted at one instant; seconds of processor time since each process began."""

    at_s: float
    records: int
    cpu_s: float
    source_cpu_s: float
    target_cpu_s: float
    memory_mb: int = 0


class Tree:
    """Processor time of a process and all its descendants, also ended ones.

    Live processes count themselves plus the children they have waited for, so that a Python worker
    that ended stays counted. Spark's daemon waits for none, and the kernel then counts their time
    nowhere: what was seen of these last is kept. Members are remembered: one whose parent died is
    still ours.
    """

    def __init__(self, pid: int, helpers: Sequence[int] = ()) -> None:
        self._roots = [psutil.Process(each) for each in (pid, *helpers)]
        self._known: dict[int, psutil.Process] = {each.pid: each for each in self._roots}
        self._seen_s: dict[int, float] = {}  # of processes that nobody waits for
        self._ended_s = 0.0
        self._highest_s = 0.0

    def look(self) -> float:
        """Return user and system seconds of the whole tree so far."""
        for root in self._roots:
            with contextlib.suppress(psutil.Error):
                for child in root.children(recursive=True):
                    if child.pid not in self._known:
                        self._known[child.pid] = child
                        if _ignores_its_children(child.ppid()):
                            self._seen_s[child.pid] = 0.0
        total = 0.0
        for pid, process in list(self._known.items()):
            try:
                times = process.cpu_times()
            except psutil.Error:
                del self._known[pid]
                self._ended_s += self._seen_s.pop(pid, 0.0)
                continue
            took_s = times.user + times.system + times.children_user + times.children_system
            if pid in self._seen_s:
                self._seen_s[pid] = took_s
            total += took_s
        # A child can end between two polls before its parent has its time: never go back.
        self._highest_s = max(self._highest_s, total + self._ended_s)
        return self._highest_s

    def memory_mb(self) -> dict[str, int]:
        """Return resident memory now, in MB.

        Pages that processes share count in each of them, but once in `memory_pss_mb`: forked Python
        workers share most of theirs.
        """
        found = {"java": 0.0, "other": 0.0}
        shared_once = 0.0
        for process in self._known.values():
            with contextlib.suppress(psutil.Error):
                kind = "java" if "java" in process.name() else "other"
                memory = process.memory_full_info()
                found[kind] += memory.rss / 1e6
                shared_once += memory.pss / 1e6
        return {
            "memory_mb": round(sum(found.values())),
            "memory_pss_mb": round(shared_once),
            "memory_java_mb": round(found["java"]),
            "memory_python_mb": round(found["other"]),
        }

    def end(self) -> None:
        """Kill what is left of the tree."""
        for process in self._known.values():
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(list(self._known.values()), timeout=STOP_S)


def own_cpu_s(pid: int) -> float:
    """Return user and system seconds of one process alone (a broker)."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def running(part: Part) -> Iterator[subprocess.Popen[bytes]]:
    """Run the part's command; finally send its signal and, if needed, SIGKILL."""
    part.folder.mkdir(parents=True, exist_ok=True)
    with (part.folder / "output.log").open("wb") as output:
        process = subprocess.Popen(
            part.command,
            env={**os.environ, **part.environment},
            cwd=part.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        tree = Tree(process.pid)
        try:
            yield process
        finally:
            tree.look()
            if process.poll() is None:
                process.send_signal(part.stop)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_S)
            tree.end()
            process.wait()


def run(part: Part, brokers: Brokers) -> dict[str, Any]:
    """Run one part and return its block of the report; `finished` is false if it has no result."""
    started_s = time.monotonic()
    with Connection(brokers.target) as target, running(part) as process:
        samples, reason = _watch(part, brokers, target, process, started_s)
        if not reason:
            time.sleep(SETTLE_S)  # extra records would land now
            ends = target.ends({part.topic: part.partitions}).get(part.topic, {})
            reason = _objection(part, ends)
    result = (
        {"finished": False, "reason": reason, "records_landed": samples[-1].records}
        if reason
        else _figures(part, samples[0], samples[-1], started_s)
    )
    tail = (part.folder / "output.log").read_text(errors="replace")[-2000:]
    if reason and tail.strip():
        result["output_tail"] = tail
    return {**result, "exit_code": process.returncode}


def _watch(
    part: Part,
    brokers: Brokers,
    target: Connection,
    process: subprocess.Popen[bytes],
    started_s: float,
) -> tuple[list[Sample], str]:
    """Return first and last sample (the same if no records came) and why it stopped early."""
    tree = Tree(process.pid, part.helpers)
    first: Sample | None = None
    previous = Sample(at_s=started_s, records=0, cpu_s=0.0, source_cpu_s=0.0, target_cpu_s=0.0)
    moved_s = started_s
    seen = 0
    while True:
        ends = target.ends({part.topic: part.partitions})
        now_s = time.monotonic()
        records = sum(ends.get(part.topic, {}).values())
        sample = Sample(
            at_s=now_s,
            records=records,
            cpu_s=tree.look(),
            source_cpu_s=own_cpu_s(brokers.source_pid),
            target_cpu_s=own_cpu_s(brokers.target_pid),
        )
        if records and first is None:
            # All records at once (tiny sizes): count from the poll before, the slower figure.
            first = previous if records >= part.records_total else sample
        previous = sample
        if records > seen:
            seen, moved_s = records, now_s
        samples = [first or sample, sample]
        if records >= part.records_total:
            samples[1] = dataclasses.replace(sample, memory_mb=tree.memory_mb()["memory_mb"])
            return samples, ""
        if process.poll() is not None and records == seen and now_s - moved_s > SETTLE_S:
            return samples, f"the process ended with {process.returncode} before all had landed"
        if now_s - moved_s > STALL_S:
            return samples, f"no new record for {STALL_S:.0f} s"
        if now_s - started_s > part.deadline_s:
            return samples, f"not done after {part.deadline_s:.0f} s"
        time.sleep(POLL_S)


def _objection(part: Part, ends: Mapping[int, int]) -> str:
    """Return what is wrong with the outcome, or an empty string."""
    landed = sum(ends.values())
    if landed != part.records_total:
        return f"{landed} records at the target, {part.records_total} were due"
    if part.ends is not None and dict(ends) != dict(part.ends):
        return f"end offsets differ: {dict(ends)} at the target, {dict(part.ends)} at the source"
    return ""


def _figures(part: Part, first: Sample, last: Sample, started_s: float) -> dict[str, Any]:
    records = last.records - first.records
    seconds = last.at_s - first.at_s
    millions = records / 1e6
    cpu_s = last.cpu_s - first.cpu_s
    return {
        "finished": True,
        "records_per_s": round(records / seconds),
        "mb_per_s": round(records * part.record_bytes / seconds / 1e6, 1),
        "cpu_s_per_million_records": round(cpu_s / millions, 3),
        "cpu_cores": round(cpu_s / seconds, 2),
        "seconds": round(seconds, 2),
        "start_to_first_s": round(first.at_s - started_s, 2),
        "start_to_last_s": round(last.at_s - started_s, 2),
        "records_total": last.records,
        "records_at_first_look": first.records,
        "cpu_s": round(cpu_s, 2),
        "cpu_s_with_start": round(last.cpu_s, 2),
        "memory_mb": last.memory_mb,
        "broker_cpu_s": {
            "source": round(last.source_cpu_s - first.source_cpu_s, 2),
            "target": round(last.target_cpu_s - first.target_cpu_s, 2),
        },
        "check": {
            "records_equal": True,
            "ends_equal": True if part.ends is not None else None,
        },
    }


def _ignores_its_children(pid: int) -> bool:
    """Whether a process ignores SIGCHLD, so that its children's time is not added to its own."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # no Linux, or it has just ended
        return False
    mask = next(line for line in lines if line.startswith("SigIgn"))
    return bool(int(mask.split()[1], 16) >> (signal.SIGCHLD - 1) & 1)
