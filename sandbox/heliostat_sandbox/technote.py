"""`heliostat demo --technote`: the toy of the technote SQR-050, section 4, from begin to end.

Two clusters `src` and `destn`, a `heliostat run` without a link, and the technote's three files for
Kafka Connect, put to its API as `kafkaconnect upload` does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
import httpx

from heliostat.cli.stop_signal import StopSignal
from heliostat.clusters.admin import LATEST, ClusterAdmin, NewTopic
from heliostat.errors import BrokerError, SandboxError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate.examples import example_text
from heliostat_sandbox import ClusterSpec, start_many

FILES = ("heartbeat", "checkpoint", "mirror-source")
"""In the technote's order."""
TOPIC, MIRROR = TopicName("foo"), TopicName("src.foo")
VALUE = b'{"bar": "John Doe", "baz": 1}'
RECORDS = 3
REFRESH_S = 5
"""The technote's files say 60, which nobody likes to watch."""
LOOK_S = 0.5
WITHIN_S = 180.0
"""For each step; a first start may have to compile."""
TIMEOUT_S = 20.0
LOG_LINES = 15
_ENTRY = (sys.executable, "-m", "heliostat.cli.entry")


class TechnoteTour:
    """One run of it.

    Parameters
    ----------
    folder
        Folder for configuration and log.
    listen
        Address of page and API.
    stop
        Signal that ends it.
    """

    def __init__(self, folder: Path, listen: str, stop: StopSignal) -> None:
        self._folder = folder
        self._listen = listen
        self._stop = stop
        self._sides: dict[str, str] = {}
        """Addresses of both clusters."""

    def run(self, stack: ExitStack, seconds: float | None) -> int:
        """Do all steps, then stay up for so long, or until Ctrl-C; return the exit code.

        Raises
        ------
        SandboxError
            A step did not come about.
        """
        click.echo("starting two clusters of one broker each: src and destn")
        for cluster in start_many([ClusterSpec("src"), ClusterSpec("destn")]):
            stack.enter_context(cluster)
            self._sides[cluster.name] = cluster.bootstrap
            click.echo(f"{cluster.name} is at {cluster.bootstrap}")
        process = self._start()
        stack.callback(_end, process)
        try:
            self._upload()
            self._follow_topic()
            self._show_status()
        except _Stopped:
            return 0
        click.echo(f"go on by yourself: kafkaconnect -c http://{self._listen} list; Ctrl-C ends it")
        self._stop.is_set.wait(seconds)
        return 0

    def _start(self) -> subprocess.Popen[bytes]:
        config = self._folder / "heliostat.yaml"
        config.write_text(example_text("technote/heliostat.yaml"), encoding="utf-8")
        click.echo(f"heliostat run, without any link yet; page and Connect's API: {self._url('')}")
        with self._log.open("wb") as out:
            return subprocess.Popen(
                [*_ENTRY, "run", "-c", str(config), "--plain"],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is ours, and ends it in its turn
                env=self._environment(),
            )

    def _environment(self) -> dict[str, str]:
        addresses = {f"{name.upper()}_BOOTSTRAP": at for name, at in self._sides.items()}
        return {**os.environ, **addresses, "HELIOSTAT_LISTEN": self._listen}

    @property
    def _log(self) -> Path:
        return self._folder / "heliostat.log"

    def _url(self, path: str) -> str:
        return f"http://{self._listen}/{path}"

    def _upload(self) -> None:
        self._wait("its API", lambda: self._get("connectors") == [])
        for name in FILES:
            config = json.loads(example_text(f"technote/{name}-connector.json"))
            if "refresh.topics.interval.seconds" in config:
                config["refresh.topics.interval.seconds"] = REFRESH_S
                click.echo(f"(refresh.topics.interval.seconds: {REFRESH_S} instead of 60)")
            click.echo(f"kafkaconnect upload {name}-connector.json --name {name}")
            kind = config["connector.class"]
            answer = self._put(f"connector-plugins/{kind}/config/validate", config)
            if answer["error_count"]:
                wrong = [error for row in answer["configs"] for error in row["value"]["errors"]]
                raise SandboxError(f"{name} is refused", problems="; ".join(wrong))
            self._put(f"connectors/{name}/config", config)
        self._wait("mirror-source", lambda: self._state("mirror-source") == "RUNNING")
        for side, topic in (("destn", "heartbeats"), ("src", "mm2-offset-syncs.destn.internal")):
            self._wait(topic, partial(self._ends, side, TopicName(topic)))
            click.echo(f"{side} has {topic}")

    def _follow_topic(self) -> None:
        with self._admin("src") as admin:
            made = admin.create_topics([NewTopic(TOPIC, 1, 1, {})])[TOPIC]
        if isinstance(made, Exception):
            raise made
        click.echo(f"made topic {TOPIC} with one partition at src, and wrote {RECORDS} records")
        self._write(0)
        self._wait("the mirror", lambda: self._ends("destn", MIRROR) == [RECORDS])
        click.echo(f"destn has {MIRROR}: {RECORDS} records")
        with self._admin("src") as admin:
            grown = admin.grow_partitions({TOPIC: 2})[TOPIC]
        if grown is not None:
            raise grown
        click.echo(f"gave {TOPIC} a second partition, and wrote {RECORDS} records into it")
        self._write(1)
        self._wait("partition 1", lambda: self._ends("destn", MIRROR) == [RECORDS, RECORDS])
        click.echo(f"destn has {MIRROR}: {RECORDS} records in each of its two partitions")

    def _show_status(self) -> None:
        for name in FILES:
            click.echo(f"kafkaconnect status {name}: {self._state(name)}")
        config = str(self._folder / "heliostat.yaml")
        shown = subprocess.run(
            [*_ENTRY, "status", "-c", config],
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        click.echo(f"heliostat status\n{shown.stdout}{shown.stderr}".rstrip())

    def _write(self, partition: int) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self._sides["src"].split(","))
        try:
            sent = [producer.send(TOPIC, VALUE, partition=partition) for _ in range(RECORDS)]
            for send in sent:
                send.get(TIMEOUT_S)
        finally:
            producer.close()

    def _admin(self, side: str) -> ClusterAdmin:
        return ClusterAdmin(self._sides[side].split(","))

    def _ends(self, side: str, topic: TopicName) -> list[Offset]:
        """Return the ends of a topic's partitions; none while it is not there."""
        with self._admin(side) as admin:
            described = admin.describe_topics([topic])[topic]
            asked = {
                TopicPartition(topic, PartitionId(number)): LATEST
                for number in range(len(described.partitions))
            }
            answers = admin.list_offsets(asked) if asked else {}
        rows = [answers[partition] for partition in asked]
        return [Offset(-1) if isinstance(row, BrokerError) else row.offset for row in rows]

    def _state(self, name: str) -> str:
        status = self._get(f"connectors/{name}/status")
        return str(status["connector"]["state"]) if status else ""

    def _get(self, path: str) -> Any:
        """Return an answer of Connect's API; None while there is none."""
        try:
            answer = httpx.get(self._url(path), timeout=TIMEOUT_S)
            return answer.json() if answer.is_success else None
        except httpx.TransportError:
            return None

    def _put(self, path: str, body: dict[str, Any]) -> Any:
        answer = httpx.put(self._url(path), json=body, timeout=TIMEOUT_S)
        if not answer.is_success:
            raise SandboxError("Connect's API refuses", path=path, said=answer.text)
        return answer.json()

    def _wait(self, what: str, is_so: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not is_so():
            if self._stop.is_set.wait(LOOK_S):
                raise _Stopped
            if time.monotonic() > deadline_s:
                lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
                said = "\n".join(lines[-LOG_LINES:])
                raise SandboxError(f"waited {WITHIN_S:.0f} s for {what}", log=said)


class _Stopped(Exception):
    """Somebody has pressed Ctrl-C."""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the run as a service manager does; kill what does not end."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
