"""The writer and a real InfluxDB 1.6: points arrive, also those of the time when it was away."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.influxd import Influxd
from support.links import wait_for

from heliostat.clock import SystemClock
from heliostat.config.influx import InfluxConfig
from heliostat.metrics import families as f
from heliostat.metrics.influx.backlog import batch_of
from heliostat.metrics.influx.lines import field, series
from heliostat.metrics.influx.over_http import InfluxHttp
from heliostat.metrics.influx.writer import InfluxWriter
from heliostat.metrics.text import Samples, labels
from heliostat.ops.events import Events
from heliostat_sandbox.ports import free_ports

pytestmark = pytest.mark.thorough

LINK = {"link": "l", "source": "summit", "target": "usdf"}
ODD = ("a b", "a,b", "a=b", 'a"b', "a\\b", "é", "'", "a b=c,d\\e", "a\nb", "end\\", '"', '"a b')
DATABASE = "heliostat"


@pytest.fixture
def influxd(tmp_path: Path) -> Iterator[Influxd]:
    first, second = free_ports(2)
    server = Influxd(tmp_path, (first, second))
    server.start()
    yield server
    server.stop()


def config_of(influxd: Influxd, **fields: Any) -> InfluxConfig:
    return InfluxConfig.model_validate({"url": influxd.url, "database": DATABASE, **fields})


def measure(samples: Samples) -> None:
    mine = labels(LINK)
    samples.add(f.LINK_STATE, f'{mine},state="running"', 1)
    samples.add(f.LINK_IN_SYNC, mine, 1)
    samples.add(f.LAG_SECONDS, labels({**LINK, "topic": "lsst.sal.ESS"}), 0.25)


def test_nothing_is_lost_while_it_is_away_and_comes_back(influxd: Influxd) -> None:
    """Given a database made late, and an outage / then each interval has its points, and both

    troubles were told once and ended.
    """
    events = Events(lambda: 0, None)
    writer = InfluxWriter(config_of(influxd, every_s=1), measure, events, SystemClock())
    writer.start()
    try:
        wait_for("the database missed", lambda: "database not found" in str(events.recent(9)), 10)
        influxd.query(f'CREATE DATABASE "{DATABASE}"')
        wait_for("points", lambda: "takes points again" in str(events.recent(9)), 30)
        influxd.stop()
        time.sleep(5)
        influxd.start()
        wait_for("points again", lambda: str(events.recent(9)).count("points again") == 2, 60)
        wait_for("all of them", lambda: not writer._backlog.points, 10)
    finally:
        writer.stop()
    (link,) = influxd.query("SELECT * FROM heliostat_link", DATABASE)
    (topic,) = influxd.query("SELECT lag_seconds, topic FROM heliostat_topic", DATABASE)
    times = [row[0] for row in link["values"]]
    assert len(times) >= 6
    assert all(after - before < 1_900 for before, after in itertools.pairwise(times)), times
    row = dict(zip(link["columns"], link["values"][0], strict=True))
    assert {"state": "running", "in_sync": 1, **LINK}.items() <= row.items()
    assert topic["values"][0][1:] == [0.25, "lsst.sal.ESS"]
    samples = Samples()
    writer.write(samples)
    assert f'result="written"}} {len(times) * 2}\n' in samples.text()
    assert sum("WARN" in line for line in events.recent(99)) == 2


def test_it_reads_back_odd_names_and_says_what_it_refuses(influxd: Influxd) -> None:
    influxd.query(f'CREATE DATABASE "{DATABASE}"')
    influx = InfluxHttp(config_of(influxd))
    rows = [f"{series('m', {'t': text, 'n': str(n)})} {field('v', text)} {n + 1}"
            for n, text in enumerate(ODD)]  # fmt: skip
    assert influx.send(batch_of(0, rows).body, len(rows)).why == ""
    (read,) = influxd.query("SELECT t, v FROM m", DATABASE)
    shown = [text.replace("\n", " ") for text in ODD]
    assert [row[1:] for row in read["values"]] == [[text.rstrip("\\"), text] for text in shown]
    other_type = batch_of(0, ["m,t=x v=1 1", "m2 v=1 1"])
    outcome = influx.send(other_type.body, 2)
    assert (outcome.is_over, outcome.refused) == (True, 1)
    assert "field type conflict" in outcome.why
    assert influxd.query("SELECT v FROM m2", DATABASE), "the other point is written"
    outcome = influx.send(batch_of(0, ["m v=nan 1", "m2 v=2 2"]).body, 2)
    assert (outcome.is_over, outcome.refused) == (True, 1)


def test_the_service_writes_whatever_its_clusters_do(influxd: Influxd, tmp_path: Path) -> None:
    """Given clusters that nobody reaches / when the service runs / then InfluxDB has the state."""
    influxd.query(f'CREATE DATABASE "{DATABASE}"')
    file = tmp_path / "heliostat.yaml"
    content = {
        "clusters": {"a": {"bootstrap": "127.0.0.1:1"}, "b": {"bootstrap": "127.0.0.1:2"}},
        "links": [{"name": "l", "source": "a", "target": "b", "topics": {"include": ["t"]}}],
        "metrics": {"foreign": True, "influx": {"url": influxd.url, "every_s": 1}},
    }
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    words = ("serve", "-c", str(file), "--listen", "127.0.0.1:0")
    command = [sys.executable, "-m", "heliostat.cli.entry", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as service:

        def states() -> set[str]:
            found = influxd.query("SELECT state FROM heliostat_link", DATABASE)
            return {row[1] for each in found for row in each["values"]}

        try:
            wait_for("its state", lambda: "unreachable" in states(), 40)
            (read,) = influxd.query("SELECT * FROM heliostat_service", DATABASE)
            assert {"version", "process_resident_memory_bytes", "host"} <= set(read["columns"])
        finally:
            service.terminate()
            service.wait(15)
