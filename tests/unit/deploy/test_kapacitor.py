"""TICKscripts in a real Kapacitor: each alert is raised, says why, and ends."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.fetched import go_program
from support.links import wait_for
from unit.deploy.test_monitoring import FOLDER, rules

from heliostat.config.influx import InfluxConfig
from heliostat.metrics import families as f
from heliostat.metrics.influx.backlog import batch_of
from heliostat.metrics.influx.over_http import InfluxHttp
from heliostat.metrics.influx.points import Places, PointSamples
from heliostat.metrics.text import labels
from heliostat_sandbox.ports import free_ports

SCRIPTS = sorted((FOLDER / "kapacitor").glob("*.tick"))
PROMETHEUS = "github.com/prometheus/prometheus"
VERSIONS = f"""
require github.com/influxdata/kapacitor v1.5.9
replace gopkg.in/fsnotify.v1 => github.com/fsnotify/fsnotify v1.4.2
replace {PROMETHEUS} => github.com/goller/prometheus v1.6.1-0.20170502220046-58298e738211
"""
"""The last of 1.x that needs no Rust; what it forks is named in its own `Gopkg.toml`."""
CORRECTED = ("github.com/ugorji/go/codec/gen.go", '0123456789__")', '0123456789-_")')
"""Today's Go stops at that."""
CONFIG = """
hostname = "127.0.0.1"
data_dir = "{folder}"
[http]
bind-address = "127.0.0.1:{port}"
log-enabled = false
[replay]
dir = "{folder}/replay"
[storage]
boltdb = "{folder}/kapacitor.db"
[task]
dir = "{folder}/tasks"
[logging]
file = "STDERR"
level = "ERROR"
[[influxdb]]
enabled = false
[reporting]
enabled = false
[stats]
enabled = false
"""
LINK = {"link": "l", "source": "summit", "target": "usdf"}
BEGIN_S = 1_700_000_000
STEP_S = 10
IDS = {
    "HeliostatLinkNotRunning l": "CRITICAL",
    "HeliostatGapOpen l": "CRITICAL",
    "HeliostatPartitionStopped l t": "CRITICAL",
    "HeliostatOwnerStale l": "CRITICAL",
    "HeliostatHeartbeatOld l": "WARNING",
    "HeliostatLagSeconds l": "CRITICAL",
    "HeliostatLagUnknown l": "WARNING",
    "HeliostatSourceUnreachable l": "CRITICAL",
    "HeliostatBrokerUnreachable l source 1": "WARNING",
    "HeliostatExposed l": "WARNING",
    "HeliostatConfigurationRefused l": "WARNING",
}


class Kapacitor:
    """A server, its tasks and the events of its topic `heliostat`."""

    def __init__(self, url: str) -> None:
        self.url = url
        config = {"url": url, "database": "heliostat", "retention_policy": "autogen"}
        self._writer = InfluxHttp(InfluxConfig.model_validate(config))

    def ask(self, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{path}", content)  # noqa: S310  # ours
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  # the same
            return json.load(answer)

    def define(self, name: str, script: str) -> None:
        task = {"id": name, "type": "stream", "script": script, "status": "enabled"}
        assert self.ask("tasks", task)["error"] == ""

    def write(self, samples: PointSamples, at_s: int) -> None:
        for lines in samples.batches(at_s * 1000):
            assert self._writer.send(batch_of(0, lines).body, len(lines)).why == ""

    def events(self) -> list[Any]:
        """Events of the topic; it exists from the first one on."""
        if not self.ask("alerts/topics?pattern=heliostat")["topics"]:
            return []
        found: list[Any] = self.ask("alerts/topics/heliostat/events")["events"]
        return found

    def levels(self) -> dict[str, str]:
        return {event["id"]: event["state"]["level"] for event in self.events()}

    def texts(self) -> list[str]:
        return [event["state"]["message"] for event in self.events()]


@contextmanager
def running(folder: Path) -> Iterator[Kapacitor]:
    """Give a server whose data are in this folder."""
    package = "github.com/influxdata/kapacitor/cmd/kapacitord"
    program = go_program(package, VERSIONS, CORRECTED)
    (port,) = free_ports(1)
    config = folder / "kapacitor.conf"
    config.write_text(CONFIG.format(folder=folder, port=port), encoding="utf-8")
    server = Kapacitor(f"http://127.0.0.1:{port}/kapacitor/v1")

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{server.url}/ping", timeout=2):  # noqa: S310  # ours
                return True
        except OSError:
            return False

    with subprocess.Popen([program, "-config", config]) as process:
        try:
            wait_for("Kapacitor", answers, 30)
            yield server
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def kapacitor(tmp_path: Path) -> Iterator[Kapacitor]:
    with running(tmp_path) as server:
        yield server


@dataclass(frozen=True)
class Figures:
    """What the service writes of a link."""

    state: str = "running"
    is_bad: bool = False

    def points(self, at_s: int) -> PointSamples:
        samples, mine = PointSamples(Places("h")), labels(LINK)
        topic, bad = labels({**LINK, "topic": "t"}), self.is_bad
        samples.add(f.LINK_STATE, f'{mine},state="{self.state}"', 1)
        samples.add(f.OWNER_RENEWED, mine, at_s - (50 if bad else 1))
        samples.add(f.GAP_DECISIONS, mine, 2 if bad else 0)
        samples.add(f.HEARTBEAT_AGE, mine, 40 if bad else 1)
        samples.add(f.SOURCE_END_AGE, mine, 20 if bad else 1)
        samples.add(f.BROKER_REACHABLE, f'{mine},side="source",broker="1"', int(not bad))
        samples.add(f.LAG_SECONDS, topic, 700 if bad else 1)
        samples.add(f.LAG_UNKNOWN, topic, 3 if bad else 0)
        samples.add(f.LOSS_SECONDS, topic, 800 if bad else 1)
        for level in (f.LAG_SECONDS, f.LOSS_SECONDS):
            samples.add(level, labels({**LINK, "topic": "t2"}), 0)
        samples.add(f.CONFIGURATION_REFUSED, mine, int(bad))
        of_state = f'{topic},state="{"blocked" if bad else "copying"}"'
        samples.add(f.TOPIC_PARTITIONS, of_state, 3)
        samples.add(f.BUILD_INFO, labels({"version": "1", "python": "3"}), 1)
        return samples


def test_each_script_asks_for_conditions_that_prometheus_rules_have() -> None:
    alerts = {rule["alert"] for rule in rules()}
    assert {name.split()[0] for name in IDS} <= alerts
    assert len(SCRIPTS) == 7
    for script in SCRIPTS:
        assert 'dbrp "heliostat"."autogen"' in script.read_text(encoding="utf-8")


@pytest.mark.long
def test_alerts_are_raised_and_end(kapacitor: Kapacitor) -> None:
    """Given all scripts / when all goes wrong for 6 minutes, and well again / then they say so."""
    for script in SCRIPTS:
        kapacitor.define(script.stem, script.read_text(encoding="utf-8"))
    at_s = BEGIN_S

    def write(figures: Figures, seconds: int) -> None:
        nonlocal at_s
        for _ in range(seconds // STEP_S):
            at_s += STEP_S
            kapacitor.write(figures.points(at_s), at_s)

    def now(ids: dict[str, str]) -> bool:
        return {name: kapacitor.levels().get(name, "OK") for name in IDS} == ids

    write(Figures(), 60)
    assert now(dict.fromkeys(IDS, "OK"))
    write(Figures("silent", is_bad=True), 30)
    early = {"HeliostatLinkNotRunning l", "HeliostatGapOpen l", "HeliostatOwnerStale l",
             "HeliostatHeartbeatOld l", "HeliostatSourceUnreachable l"}  # fmt: skip
    first = {name: IDS[name] if name in early else "OK" for name in IDS}
    wait_for("the first alerts", lambda: now(first), 10)
    write(Figures("silent", is_bad=True), 330)
    wait_for("all alerts", lambda: now(IDS), 10)
    texts = "\n".join(kapacitor.texts())
    assert "Link l is silent" in texts
    assert "3 partitions of t, link l, are stopped" in texts
    assert "Link l lags by 700 s" in texts
    assert "If summit were lost now, the last 800 s of link l would be lost" in texts
    assert "The configuration file of link l is refused" in texts
    write(Figures(), 30)
    wait_for("no alert", lambda: now(dict.fromkeys(IDS, "OK")), 10)


@pytest.mark.long
def test_silence_is_an_alert(kapacitor: Kapacitor) -> None:
    """Given figures that cease / then, after the time that the script names, that is told."""
    script = (FOLDER / "kapacitor" / "heliostat-absent.tick").read_text(encoding="utf-8")
    kapacitor.define("absent", script.replace("1m", "2s"))
    kapacitor.write(Figures().points(BEGIN_S), BEGIN_S)
    wait_for("it told", lambda: kapacitor.levels().get("HeliostatAbsent") == "CRITICAL", 30)
    assert "writes no figures" in kapacitor.texts()[0]

    def is_over() -> bool:
        kapacitor.write(Figures().points(BEGIN_S + STEP_S), BEGIN_S + STEP_S)
        return kapacitor.levels()["HeliostatAbsent"] == "OK"

    wait_for("its end", is_over, 30)
