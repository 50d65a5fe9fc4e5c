"""The drivers of a soak: `heliostat run` as a process that can be killed, frozen and replaced."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import yaml
from soak_load import COMPACTED, FILLED, PLAIN, TRANSACTIONS
from soak_merged import links as merged_links

from heliostat.config import load_config
from heliostat.errors import HeliostatError
from heliostat.names import TopicPartition
from heliostat.offsets.look import look
from heliostat.operate.status import link_statuses
from heliostat.records.copier.lane import PartitionState
from heliostat.state.link_state import LinkState

LINKS = ("soak", "filled")
OWNED_WITHIN_S = 180.0
STOPPED_WITHIN_S = 120.0
LOOK_S = 0.5
SLOTS = 3
"""Of Spark, for the mirrors' links; each further one and each pipeline has one of its own."""
KEPT = {"min.compaction.lag.ms": str(7 * 86_400_000)}
"""Nothing is compacted at the target, so that all copied records can be audited."""


def write_config(folder: Path, source: str, target: str) -> Path:
    """Write a link with offset maps, one that fills holes, and two that merge."""
    topics: dict[str, Any] = {"refresh_interval_s": 5}
    kept = {"config_set": KEPT, "config_exclude": ["max.compaction.lag.ms", "segment.ms"]}
    links = {
        LINKS[0]: {**topics, **kept, "include": [PLAIN, COMPACTED, TRANSACTIONS]},
        LINKS[1]: {**topics, "include": [FILLED], "offsets": "exact"},
    }
    return write_links(folder, source, target, links, lease_s=10, merged=merged_links())


def write_links(
    folder: Path,
    source: str,
    target: str,
    links: Mapping[str, Mapping[str, Any]],
    *,
    lease_s: int,
    pipelines: Sequence[Mapping[str, Any]] = (),
    merged: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write links from one cluster to the other; `links` has `topics` by link name.

    Each has the pipelines; `merged` has links of any way, with all that they have besides.
    """
    lanes = {"lease_s": lease_s}
    both: dict[str, Any] = {"source": "east", "target": "west", "lanes": lanes}
    if pipelines:
        both["pipelines"] = [dict(each) for each in pipelines]
    config = {
        "clusters": {
            "east": {"bootstrap": source.split(",")},
            "west": {"bootstrap": target.split(",")},
        },
        "spark": {"master": f"local[{SLOTS + len(links) * len(pipelines) + len(merged)}]"},
        "links": [
            *({"name": name, **both, "topics": dict(each)} for name, each in links.items()),
            *({**each, "lanes": lanes} for each in merged),
        ],
    }
    path = folder / "heliostat.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


SourcePartition: TypeAlias = tuple[str, TopicPartition]
"""A partition, and the alias of the cluster that it is copied from."""


class Driver:
    """One instance of `heliostat run` with all links.

    Parameters
    ----------
    config
        Configuration file; logs are written beside it.
    ended_badly
        List of messages about processes that did not end as expected.
    environment
        Environment variables of its processes, besides our own.
    """

    def __init__(
        self,
        config: Path,
        ended_badly: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self.ended_badly: list[str] = [] if ended_badly is None else ended_badly
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._log = config

    def start(self) -> None:
        """Start a new process."""
        self._log = self.config.with_name(f"run-{time.time_ns()}.log")
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "heliostat.cli.entry",
                    "run",
                    "--plain",
                    "--no-serve",
                    "-c",
                    self.config,
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self._environment},
            )

    def another(self) -> Driver:
        """Return an instance with the same configuration, not started."""
        return Driver(self.config, self.ended_badly, self._environment)

    def replace_by(self, other: Driver) -> None:
        """Use the other instance's process from now on."""
        self._process, self._log = other._process, other._log

    def text(self) -> str:
        """Output of the process."""
        return self._log.read_text(errors="replace")

    def tree(self) -> list[psutil.Process]:
        """Return the driver and all its children."""
        if self._process is None:
            return []
        try:
            driver = psutil.Process(self._process.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def workers(self) -> list[psutil.Process]:
        """Return the Python workers of Spark."""
        return [each for each in self.tree()[1:] if "pyspark.worker" in " ".join(_words(each))]

    @contextlib.contextmanager
    def frozen(self, processes: Iterable[psutil.Process]) -> Iterator[None]:
        """Pause processes with SIGSTOP during the block, then SIGCONT."""
        stopped = list(processes)
        for each in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.suspend()
        try:
            yield
        finally:
            for each in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.resume()

    def kill(self) -> None:
        """Kill the driver with SIGKILL; Spark's other processes notice it and end."""
        if self._process is not None:
            rest = self.tree()[1:]
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            _, alive = psutil.wait_procs(rest, timeout=STOPPED_WITHIN_S)
            if alive:
                self.ended_badly.append(f"processes outlive their driver: {alive}")

    def kill_all(self) -> None:
        """Kill all processes at once with SIGKILL."""
        for each in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """Stop it with SIGTERM, as an operator does."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.ended_badly.append(f"not ended {STOPPED_WITHIN_S:.0f} s after SIGTERM")
            self.kill_all()
        else:
            has_begun = bool(self.text())  # else the signal came before Python ran a line of ours
            if code != 0 and (has_begun or code != -signal.SIGTERM):
                self.ended_badly.append(f"ended with code {code} after SIGTERM: {self._log.name}")

    def wait_owner(self) -> None:
        """Wait until this instance owns all links."""
        until_s = time.monotonic() + OWNED_WITHIN_S
        while time.monotonic() < until_s:
            if all(pid == self.pid for pid in self.owners()):
                return
            time.sleep(LOOK_S)
        self.ended_badly.append(f"no take-over within {OWNED_WITHIN_S:.0f} s: {self._log.name}")

    @property
    def pid(self) -> int:
        """Process id of the driver; 0 before its start."""
        return 0 if self._process is None else self._process.pid

    def owners(self) -> list[int]:
        """Return the process id of each link's owner, by its record; -1 where it is not known."""
        config = load_config(self.config)
        pids: list[int] = []
        for link in config.links:
            with contextlib.closing(LinkState(link, config.clusters[link.target])) as state:
                try:
                    owner = state.owner.read_owner()
                except HeliostatError:
                    owner = None
            pids.append(-1 if owner is None else owner.pid)
        return pids

    # -- its output ------------------------------------------------------------------------------

    def positions(self) -> dict[SourcePartition, int] | None:
        """Return the source offsets below which all is at the target; None if unknown now.

        Others write merged topics at their target: what lanes have reported is theirs.
        """
        config = load_config(self.config)
        try:
            return {
                (link.source, each.source): each.passed if link.topics.merges else each.position
                for link in config.links
                for each in look(config, link).partitions
            }
        except HeliostatError:
            return None

    def stops(self) -> dict[str, str]:
        """Return the reasons of partitions that have stopped until a person decides."""
        try:
            statuses = link_statuses(load_config(self.config))
        except HeliostatError:
            return {}
        return {
            f"{status.link} {problem.source}-{problem.partition} [{problem.code}]": problem.reason
            for status in statuses
            for problem in status.problems
            if PartitionState(problem.state).is_stopped
        }

    def status(self) -> str:
        """Return the links' status as JSON, or why there is none."""
        try:
            statuses = link_statuses(load_config(self.config))
        except HeliostatError as error:
            return str(error)
        return json.dumps([status.to_json() for status in statuses], indent=1)

    def problems(self) -> list[str]:
        """Return the problems in the links' status."""
        try:
            found = link_statuses(load_config(self.config))
        except HeliostatError as error:
            return [str(error)]
        return [
            f"{status.link} {each.source}: {each.reason}"
            for status in found
            for each in status.problems
        ]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
