"""Boards ask only for what there is: each query returns data of a real Prometheus or InfluxDB."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.fetched import go_installed
from support.filled_samples import fill
from support.influxd import Influxd
from support.links import wait_for
from support.prometheus import Prometheus
from unit.deploy.test_monitoring import FOLDER, NAME, series_names

from heliostat.config.influx import InfluxConfig
from heliostat.metrics.influx.backlog import batch_of
from heliostat.metrics.influx.over_http import InfluxHttp
from heliostat.metrics.influx.points import Places, PointSamples
from heliostat.metrics.text import Samples
from heliostat_sandbox.ports import free_ports

GRAFANA = json.loads((FOLDER / "grafana" / "heliostat.json").read_text(encoding="utf-8"))
CHRONOGRAF = json.loads((FOLDER / "chronograf" / "heliostat.json").read_text(encoding="utf-8"))
TURNS = 60
WINDOW = {"$__rate_interval": "5s", '"$link"': '".*"', '"$job"': '"heliostat"'}


def expressions() -> Iterator[tuple[str, str]]:
    for panel in GRAFANA["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]


def influx_queries() -> Iterator[tuple[str, str]]:
    for cell in CHRONOGRAF["dashboard"]["cells"]:
        for number, query in enumerate(cell["queries"]):
            yield f"{cell['name']} {number}", query["query"]


def test_the_grafana_board_asks_for_metrics_that_there_are() -> None:
    told = [name for _, expr in expressions() for name in NAME.findall(expr)]
    assert set(told) <= series_names()
    panels = [panel["gridPos"] for panel in GRAFANA["panels"]]
    assert len({(place["x"], place["y"]) for place in panels}) == len(panels)
    assert len({panel["id"] for panel in GRAFANA["panels"]}) == len(panels)
    variables = {variable["name"] for variable in GRAFANA["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(GRAFANA))) - {"__rate_interval", "__all"}
    assert used == variables


class Scraped(BaseHTTPRequestHandler):
    """What Prometheus scrapes."""

    turn = 0

    def do_GET(self) -> None:
        type(self).turn += 1
        samples = Samples()
        fill(samples, self.turn)
        content = samples.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def scraped() -> Iterator[int]:
    """Port at which samples of all families are."""
    with HTTPServer(("127.0.0.1", 0), Scraped) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def prometheus(tmp_path: Path, scraped: int) -> Iterator[Prometheus]:
    """A real one that scrapes them each second."""
    with Prometheus(tmp_path, f"127.0.0.1:{scraped}") as server:
        wait_for("scrapes", lambda: Scraped.turn >= 6, 30)
        yield server


@pytest.mark.thorough
def test_each_expression_of_the_grafana_board_has_data(prometheus: Prometheus) -> None:
    for name, expr in expressions():
        text = expr
        for variable, value in WINDOW.items():
            text = text.replace(variable, value)
        series = prometheus.query(text)
        assert series, f"{name}: {text}"
        assert all(item["value"][1] != "NaN" for item in series), f"{name}: {text}"


@pytest.fixture
def influxd(tmp_path: Path) -> Iterator[Influxd]:
    """One that has samples of all families, of a minute."""
    first, second = free_ports(2)
    server = Influxd(tmp_path, (first, second))
    server.start()
    try:
        server.query("CREATE DATABASE heliostat")
        influx = InfluxHttp(InfluxConfig.model_validate({"url": server.url}))
        places, now_ms = Places("h"), int(time.time() * 1000)
        for turn in range(1, TURNS + 1):
            samples = PointSamples(places)
            fill(samples, turn)
            for lines in samples.batches(now_ms - (TURNS - turn) * 1000):
                outcome = influx.send(batch_of(0, lines).body, len(lines))
                assert outcome.why == "", outcome
        yield server
    finally:
        server.stop()


@pytest.mark.thorough
def test_each_query_of_the_chronograf_board_has_data(influxd: Influxd) -> None:
    """Chronograf puts times in the places of its words."""
    words = {":dashboardTime:": "now() - 5m", ":upperDashboardTime:": "now()", ":interval:": "10s"}
    for name, query in influx_queries():
        text = query
        for word, value in words.items():
            text = text.replace(word, value)
        found = influxd.query(text)
        assert found, f"{name}: {text}"
        for number, column in enumerate(found[0]["columns"]):
            values = [row[number] for series in found for row in series["values"]]
            assert any(value is not None for value in values), f"{name}: {column} is empty"


@pytest.mark.long
def test_telegraf_reads_all_metrics(scraped: int, tmp_path: Path) -> None:
    """Given the input as it is shipped / then each metric is a field, and its labels are tags."""
    tags = "custom,inputs.prometheus,outputs.file,parsers.prometheus,serializers.influx"
    program = go_installed("github.com/influxdata/telegraf/cmd/telegraf", "v1.37.2", tags)
    config = tmp_path / "telegraf.conf"
    shipped = (FOLDER / "telegraf" / "heliostat.conf").read_text(encoding="utf-8")
    config.write_text(
        shipped.replace("127.0.0.1:8083", f"127.0.0.1:{scraped}")
        + '[agent]\nomit_hostname = true\n[[outputs.file]]\nfiles = ["stdout"]\n'
    )
    done = subprocess.run(
        [program, "--config", config, "--once"], capture_output=True, text=True, check=True
    )
    told = set(re.findall(r"[ ,]([a-z_]+)=", done.stdout)) & series_names()
    assert told == series_names()
    assert "heliostat,link=l,source=summit,target=usdf heliostat_lanes=" in done.stdout
