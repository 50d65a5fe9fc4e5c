"""Links under test: `heliostat run` as a process of its own, as a user starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import psutil
import yaml

from heliostat.clusters.admin import LATEST, ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.names import PartitionId, TopicName, TopicPartition

LEVEL_WITHIN_S = 180.0


def write_config(folder: Path, source: str, target: str, **link: Any) -> Path:
    """A configuration with one link `east-to-west`; `link` holds its keys."""
    path = folder / "heliostat.yaml"
    settings: dict[str, Any] = {
        "name": "east-to-west",
        "source": "east",
        "target": "west",
        "lanes": {"round_s": 5},
        **link,
    }
    config = {
        "clusters": {
            "east": {"bootstrap": source.split(",")},
            "west": {"bootstrap": target.split(",")},
        },
        "spark": {"master": "local[2]"},
        "links": [settings],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def words_of(process: psutil.Process) -> list[str]:
    """Its command line, as `ps` shows it; none of one that has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class RunningLink:
    """A `heliostat run` process; stops with the block, whatever happens in it."""

    def __init__(self, config: Path, *extra: str) -> None:
        self.config = config
        self.log = config.with_name(f"run-{time.monotonic_ns()}.log")
        self._extra = extra
        self.process = self._start()
        self._guard = _guard(self.process.pid)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "heliostat.cli.main", "run", "-c", str(self.config)]
        with self.log.open("ab") as out:
            return subprocess.Popen(  # the test's own program
                [*command, "--plain", *self._extra],
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
        """The driver and all its children."""
        try:
            driver = psutil.Process(self.process.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def workers(self) -> list[psutil.Process]:
        """Python workers of Spark that copy: forked by the daemon."""
        found = [p for p in self.tree() if "pyspark.worker" in _command(p)]
        return [p for p in found if "pyspark.worker" in _command(p.parent())]

    def kill_driver(self) -> None:
        """kill -9 of the driver alone; Spark's other processes must see it for themselves."""
        rest = self.tree()[1:]
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self._let_go()
        gone, alive = psutil.wait_procs(rest, timeout=40)
        assert not alive, f"processes outlive their driver: {alive} (gone: {len(gone)})"

    def stop(self, by: signal.Signals = signal.SIGTERM, within_s: float = 60.0) -> int:
        """SIGTERM, or as Ctrl-C does SIGINT to the whole group; the exit code."""
        if by is signal.SIGINT:
            os.killpg(self.process.pid, by)
        else:
            self.process.send_signal(by)
        code = self.process.wait(within_s)
        self._let_go()
        return code

    def kill_all(self) -> None:
        """Whatever still runs of it."""
        for process in self.tree():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait(10)
        self._let_go()

    def _let_go(self) -> None:
        """The guard's end, once there is nothing to guard; it may be told twice."""
        if self._guard.poll() is None:
            self._guard.communicate(b"let go\n", timeout=10)

    def text(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace")


def _guard(pid: int) -> subprocess.Popen[bytes]:
    """A shell that kills the driver when these tests are gone: workers of xdist may be killed."""
    script = 'read -r word || kill -KILL "$1"'
    return subprocess.Popen(
        ["sh", "-c", script, "guard", str(pid)],
        stdin=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C is not meant for it
    )


def _command(process: psutil.Process | None) -> str:
    try:
        return " ".join(process.cmdline()) if process is not None else ""
    except psutil.Error:
        return ""


End = int | BrokerError
"""A log end (high watermark), or why there is none."""


def ends_or_errors(bootstrap: str, topics: Mapping[str, int]) -> dict[str, list[End]]:
    """Log ends by topic and partition; an error stands where the broker gave none."""
    asked = {
        TopicPartition(TopicName(topic), PartitionId(number)): LATEST
        for topic, partitions in topics.items()
        for number in range(partitions)
    }
    with ClusterAdmin(bootstrap.split(",")) as admin:
        answers = admin.list_offsets(asked)
    found: dict[str, list[End]] = {topic: [] for topic in topics}
    for partition in asked:
        answer = answers[partition]
        found[partition.topic].append(
            answer if isinstance(answer, BrokerError) else int(answer.offset)
        )
    return found


def ends(bootstrap: str, topics: Mapping[str, int]) -> dict[str, list[int]]:
    """Log ends by topic; -1 where there is none: waits that fail must show `ends_or_errors`."""
    found = ends_or_errors(bootstrap, topics)
    return {
        topic: [end if isinstance(end, int) else -1 for end in row] for topic, row in found.items()
    }


def wait_for(what: str, condition: Callable[[], Any], within_s: float = LEVEL_WITHIN_S) -> Any:
    """Wait until `condition()` is true; fails with what was seen last, prints what took long."""
    began_s = time.monotonic()
    seen: Any = None
    while (passed_s := time.monotonic() - began_s) < within_s:
        seen = condition()
        if seen:
            if passed_s > 1.0:
                print(f"{what}: {passed_s:.1f} s", file=sys.stderr)
            return seen
        time.sleep(0.1)  # between two looks at a condition with a deadline
    raise AssertionError(f"{what}: not within {within_s} s; last seen {seen!r}")


def wait_level(
    link: RunningLink,
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
