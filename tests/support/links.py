"""Links under test: `heliostat run` as a separate process, or as threads of the test's process.

A separate process costs a JVM and all imports: 6.5 s of processor time before it copies. It is
for tests that kill, stop or signal it, or that look at the process; all others run in the session
that the tests share.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil
import pytest
import yaml
from support.clusters import TOLD_FROM_S, pause_s
from support.spark import shared_rounds

from heliostat.cli.exit_codes import HALTED, IN_SYNC
from heliostat.cli.main import exit_code_of
from heliostat.clock import SystemClock
from heliostat.clusters.admin import LATEST, ClusterAdmin
from heliostat.config import ConfigFile, read_config_file
from heliostat.config.changed_file import ChangedFile
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.link.followed_file import FollowedFile
from heliostat.link.links_in_force import LinksInForce
from heliostat.link.running import Running
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.operate.links import known_links
from heliostat.ops.events import Events

LOOK_S = 0.25
STOP_WITHIN_S = 120.0
"""Rounds end or are cancelled, loops end, and their requests to a failing cluster time out."""
LEVEL_WITHIN_S = 180.0
RUN = "from heliostat.cli.entry import main; main()"


def write_config(
    folder: Path, source: str, target: str, *, registries: Sequence[str] = (), **link: Any
) -> Path:
    """Write a configuration with one link `east-to-west`; `link` has its keys.

    `registries` are the addresses of the source's and the target's registry, if there are any.
    Each pipeline takes one of Spark's slots, beside two for other lanes.
    """
    path = folder / "heliostat.yaml"
    settings: dict[str, Any] = {
        "name": "east-to-west",
        "source": "east",
        "target": "west",
        "lanes": {"lease_s": 5},
        **link,
    }
    clusters: dict[str, dict[str, Any]] = {
        "east": {"bootstrap": source.split(",")},
        "west": {"bootstrap": target.split(",")},
    }
    if registries:
        for cluster, url in zip(clusters.values(), registries, strict=True):
            cluster["schema_registry"] = {"urls": url}
    slots = 2 + len(settings.get("pipelines", ()))
    config = {"clusters": clusters, "spark": {"master": f"local[{slots}]"}, "links": [settings]}
    path.write_text(yaml.safe_dump(config))
    return path


def words_of(process: psutil.Process) -> list[str]:
    """Return its command line, as `ps` shows it; empty if it has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def kill(processes: Iterable[psutil.Process]) -> int:
    """Kill processes; return how many of them were still there."""
    count = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            count += 1
    return count


class RunningLink:
    """What `heliostat run` runs, in this process; stops with the block, whatever happens in it."""

    def __init__(
        self, config: Path, only: str | None = None, *, follows_file: bool = False
    ) -> None:
        self.config = config
        self._only = only
        self.running: Running | None = None
        self._file = ChangedFile(config, SystemClock()) if follows_file else None
        self.confirm = threading.Event()
        """Set in place of SIGHUP, which a test's process can't get."""
        self.log = config.with_name(f"run-{time.monotonic_ns()}.log")
        self.code: int | None = None
        """Exit code that the process would have; None while it runs."""
        self._stop_asked = threading.Event()
        self._rounds = shared_rounds()
        self._thread = threading.Thread(target=self._run, name=f"link of {config.parent.name}")
        self._thread.start()

    def _run(self) -> None:
        code = HALTED
        clock = SystemClock()
        with self.log.open("a", encoding="utf-8") as out:
            try:
                file = read_config_file(self.config)
                loaded = file.config
                links = known_links(loaded, self._only)
                events = Events(clock.wall_ms, out)
                running = Running(
                    loaded, links, events, clock, self._stop_asked, rounds=self._rounds
                )
                self.running = running
                in_force = LinksInForce(file, loaded, running, self._only, events=events)
                followed = self._followed(file, in_force, events)
                failure = self._drive(running, in_force)
                if followed is not None:
                    followed.stop()
                code = HALTED if failure is not None or running.failures else IN_SYNC
                out.write("" if failure is None else f"halted: {failure}\n")
            except HeliostatError as error:
                code = exit_code_of(error)
                out.write(f"{error}\n")
            except BaseException:
                traceback.print_exc(file=out)
                raise
            finally:
                out.flush()
                self.code = code

    def _followed(
        self, file: ConfigFile, in_force: LinksInForce, events: Events
    ) -> FollowedFile | None:
        if self._file is None:
            return None
        followed = FollowedFile(
            self._file, file.config, self._only, in_force, events=events, confirm=self.confirm
        )
        followed.start()
        return followed

    def _drive(self, running: Running, in_force: LinksInForce) -> BaseException | None:
        failure: BaseException | None = None
        try:
            running.start()
            in_force.start()
            while failure is None and not self._stop_asked.is_set():
                failure = running.wait(LOOK_S)
        finally:
            in_force.stop()
            running.stop()
        return failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, by itself or stopped."""
        return self.code is not None

    def stop(self, within_s: float = 60.0) -> int:
        """Stop it as SIGTERM does; return the exit code."""
        self._stop_asked.set()
        self._thread.join(within_s)
        assert self.code is not None, f"not ended within {within_s} s: {self.text()[-2000:]}"
        return self.code

    def workers(self) -> list[psutil.Process]:
        """Return Python workers of the session."""
        return _workers_below(os.getpid())

    def worker_daemons(self) -> list[psutil.Process]:
        """Return what forks the workers of the session, also while there are none."""
        return [each for each in _pyspark_below(os.getpid()) if not _is_worker(each)]

    def kill_all(self) -> None:
        """Stop it; there is no harder way within one process."""
        self.stop(STOP_WITHIN_S)

    def text(self) -> str:
        """What it has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""


class LinkProcess:
    """A `heliostat run` process; stops with the block, whatever happens in it."""

    def __init__(self, config: Path, *words: str, host: str = "") -> None:
        self.config = config
        self._words = words or ("--no-serve",)
        self._host = host
        self.log = config.with_name(f"run-{time.monotonic_ns()}.log")
        self.process = self._start()
        self._guard = _guard(self.process.pid)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-c",
            f"import socket; socket.gethostname = lambda: {self._host!r}; {RUN}"
            if self._host
            else RUN,
            "run",
            "-c",
            str(self.config),
            "--plain",
            *self._words,
        ]
        with self.log.open("ab") as out:
            return subprocess.Popen(  # the test's own program
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def tree(self) -> list[psutil.Process]:
        """Return the driver and all its children."""
        try:
            driver = psutil.Process(self.process.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    def workers(self) -> list[psutil.Process]:
        """Return the Python workers of Spark that copy."""
        return _workers_below(self.process.pid)

    def kill_driver(self) -> None:
        """Kill -9 the driver alone; Spark's other processes must notice it themselves."""
        rest = self.tree()[1:]
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self._let_go()
        gone, alive = psutil.wait_procs(rest, timeout=40)
        assert not alive, f"processes outlive their driver: {alive} (gone: {len(gone)})"

    def stop(self, by: signal.Signals = signal.SIGTERM, within_s: float = 60.0) -> int:
        """Send SIGTERM to all, as systemd does, or SIGINT to the group; return the exit code."""
        if by is signal.SIGINT:
            os.killpg(self.process.pid, by)
        else:
            for process in self.tree():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(by)
        code = self.process.wait(within_s)
        self._let_go()
        return code

    def kill_all(self) -> None:
        """Kill every process of it that still runs."""
        kill(self.tree())
        self.process.wait(10)
        self._let_go()

    def _let_go(self) -> None:
        """End the guard, once there is nothing to guard; may be called twice."""
        if self._guard.poll() is None:
            self._guard.communicate(b"let go\n", timeout=10)

    def text(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace")


Link = RunningLink | LinkProcess


def _guard(pid: int) -> subprocess.Popen[bytes]:
    """Start a shell that kills the driver when these tests end: xdist workers may be killed."""
    script = 'read -r word || kill -KILL "$1"'
    return subprocess.Popen(
        ["sh", "-c", script, "guard", str(pid)],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must not reach it
    )


def _workers_below(pid: int) -> list[psutil.Process]:
    """Return Python workers of a process's Spark: forked by the daemon."""
    return [process for process in _pyspark_below(pid) if _is_worker(process)]


def _pyspark_below(pid: int) -> list[psutil.Process]:
    """Return Python workers of a process's Spark, and their daemons."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in below if "pyspark.worker" in _command(process)]


def _is_worker(process: psutil.Process) -> bool:
    return "pyspark.worker" in _command(_parent(process))


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def _command(process: psutil.Process | None) -> str:
    try:
        return " ".join(process.cmdline()) if process is not None else ""
    except psutil.Error:
        return ""


_ADMINS: dict[tuple[str, int], ClusterAdmin] = {}
"""By cluster and thread: waits check ten times a second, and half of a check was a new client."""


def looking_at(bootstrap: str, look: Callable[[ClusterAdmin], Any]) -> Any:
    """Query a cluster through a kept client; through a new one if that lost its connection."""
    key = bootstrap, threading.get_ident()
    known = _ADMINS.pop(key, None)
    if known is not None:
        try:
            answer = look(known)
        except ConnectionLost:
            known.close()
        else:
            _ADMINS[key] = known
            return answer
    fresh = ClusterAdmin(bootstrap.split(","))
    answer = look(fresh)
    _ADMINS[key] = fresh
    return answer


@pytest.fixture(autouse=True)
def no_client_kept() -> Iterator[None]:
    """Close the kept clients: a client of a stopped cluster retries for ever.

    Its thread draws random pauses, which Hypothesis attributes to a strategy.
    """
    yield
    while _ADMINS:
        _ADMINS.popitem()[1].close()


End = int | BrokerError
"""A log end (high watermark), or why there is none."""


def ends_or_errors(
    bootstrap: str, topics: Mapping[TopicName, int] | Mapping[str, int]
) -> dict[str, list[End]]:
    """Return log ends by topic and partition, or the broker's error instead."""
    asked = {
        TopicPartition(TopicName(topic), PartitionId(number)): LATEST
        for topic, partitions in topics.items()
        for number in range(partitions)
    }
    answers = looking_at(bootstrap, lambda admin: admin.list_offsets(asked))
    found: dict[str, list[End]] = {topic: [] for topic in topics}
    for partition in asked:
        answer = answers[partition]
        found[partition.topic].append(
            answer if isinstance(answer, BrokerError) else int(answer.offset)
        )
    return found


def ends(
    bootstrap: str, topics: Mapping[TopicName, int] | Mapping[str, int]
) -> dict[str, list[int]]:
    """Return log ends by topic; -1 if unknown: waits that fail must show `ends_or_errors`."""
    found = ends_or_errors(bootstrap, topics)
    return {
        topic: [end if isinstance(end, int) else -1 for end in row] for topic, row in found.items()
    }


def stands(bootstrap: str, topic: str) -> Callable[[], bool]:
    """Return a check that is true if partition 0 has records, no more than at the check before.

    For waits that read whole topics: that takes a hundred times the processor time of a check.
    """
    before: list[int] = []

    def is_as_before() -> bool:
        now = ends(bootstrap, {topic: 1})[topic]
        is_same, before[:] = now == before, now
        return is_same and now[0] > 0

    return is_as_before


def wait_for(what: str, condition: Callable[[], Any], within_s: float = LEVEL_WITHIN_S) -> Any:
    """Wait until `condition()` is true; fail with the last value seen, print long waits."""
    began_s = time.monotonic()
    seen: Any = None
    while (passed_s := time.monotonic() - began_s) < within_s:
        seen = condition()
        look_s = time.monotonic() - began_s - passed_s
        if seen:
            if passed_s > TOLD_FROM_S:
                print(f"{what}: {passed_s:.1f} s", file=sys.stderr)
            return seen
        time.sleep(pause_s(passed_s, 0.1, look_s))  # a condition with a deadline
    raise AssertionError(f"{what}: not within {within_s} s; last seen {seen!r}")


def wait_level(
    link: Link,
    source: str,
    target: str,
    topics: Mapping[str, int],
    *,
    prefix: str = "",
    within_s: float = LEVEL_WITHIN_S,
) -> None:
    """Wait until all partitions end at the same offsets on both sides."""
    renamed = {f"{prefix}{topic}": count for topic, count in topics.items()}
    last: list[Any] = []

    def is_level() -> bool:
        left, right = ends_or_errors(source, topics), ends_or_errors(target, renamed)
        last[:] = [left, right]
        return all(
            left[topic] == right[f"{prefix}{topic}"]
            and all(isinstance(end, int) for end in left[topic])
            for topic in topics
        )

    try:
        wait_for("both sides level", is_level, within_s)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{last}\n{link.text()[-4000:]}") from None
