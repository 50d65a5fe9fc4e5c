"""A day of an EFD, watched: page, API, Prometheus, InfluxDB and log tell an outage alike."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support.browser import chromium
from support.influxd import Influxd
from support.links import LinkProcess, wait_for, wait_level, write_config
from support.prometheus import Prometheus

from heliostat_sandbox import Cluster, ClusterSpec, start_many
from heliostat_sandbox.efd import efd_load, efd_topics
from heliostat_sandbox.load import LoadGenerator
from heliostat_sandbox.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

RULES = Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "heliostat-rules.yaml"
TOPICS = 36
RECORDS_PER_S = 200
EVERY_S = 5
"""Between scrapes, and between evaluations."""
TOLD_WITHIN_S = 15.0
FROZEN_WITHIN_S = 20.0
"""A lane that waits for a frozen broker is silent for 10 s until that counts; then a scrape."""
ALERT_WITHIN_S = 30.0
ALERT = "HeliostatSourceUnreachable"
DATABASE = "heliostat"
HEAD = 40
"""Characters of a link's view: its name and state."""
QUERIES = {
    "reachable": "SELECT last(reachable) FROM heliostat_broker WHERE side = 'source'",
    "in_sync": "SELECT last(in_sync) FROM heliostat_link",
}
SERVED = re.compile(r"watch it at (http\S+)")


class Watched:
    """A link, and all that tells about it: each as one text of what it knows.

    Parameters
    ----------
    link
        The link that runs.
    influxd, prometheus
        What is told.
    tab
        The link's view in a browser.
    """

    def __init__(
        self, link: LinkProcess, url: str, influxd: Influxd, prom: Prometheus, tab: Any
    ) -> None:
        self.link = link
        self._url = url
        self._tab = tab
        self._influxd = influxd
        self._prometheus = prom
        self._read = 0

    def begin(self) -> float:
        """Look only at what the log says from now on; return the time."""
        self._read = len(self.link.text())
        return time.monotonic()

    def log(self) -> str:
        return self.link.text()[self._read :]

    def api(self) -> dict[str, Any]:
        (link,) = httpx.get(f"{self._url}/api/v1/links", timeout=10).json()["items"]
        return dict(link)

    def page(self) -> str:
        """What stands on the link's page."""
        return str(self._tab.inner_text("main"))

    def scraped(self) -> dict[str, float]:
        """What Prometheus has of the source, and of the link."""
        broker = self._prometheus.query('heliostat_broker_reachable{side="source"}')
        link = self._prometheus.query("heliostat_link_in_sync")
        answers = {"reachable": broker, "in_sync": link}
        return {name: float(rows[0]["value"][1]) for name, rows in answers.items() if rows}

    def written(self) -> dict[str, float]:
        """What InfluxDB has of the same."""
        return {
            name: float(series["values"][0][1])
            for name, query in QUERIES.items()
            for series in self._influxd.query(query, DATABASE)
        }

    def firing(self) -> set[str]:
        return self._prometheus.firing()

    def describe(self) -> str:
        """All of it, for a test that fails."""
        return (
            f"API {self.api()}\npage {self.page()[:1500]}\n"
            f"Prometheus {self.scraped()}, firing {self.firing()}\n"
            f"InfluxDB {self.written()}\nlog {self.log()[-3000:]}"
        )

    def wait_all(self, since_s: float, within_s: float, **conditions: Callable[[], object]) -> None:
        """Wait until each of them is true, all by the same deadline; print when each was."""
        waiting = dict(conditions)
        while waiting:
            passed_s = time.monotonic() - since_s
            for name in [name for name, is_true in waiting.items() if is_true()]:
                print(f"{name}: told after {passed_s:.1f} s")
                del waiting[name]
            if waiting and passed_s > within_s:
                raise AssertionError(f"{set(waiting)}: not within {within_s} s\n{self.describe()}")
            time.sleep(0.2)


@pytest.fixture
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    source, target = start_many([ClusterSpec("summit"), ClusterSpec("usdf")])
    with source, target:
        yield source, target


@pytest.fixture
def influxd(tmp_path: Path) -> Iterator[Influxd]:
    first, second = free_ports(2)
    server = Influxd(tmp_path, (first, second))
    server.start()
    try:
        server.query(f"CREATE DATABASE {DATABASE}")
        yield server
    finally:
        server.stop()


@pytest.fixture
def watched(
    clusters: tuple[Cluster, Cluster], influxd: Influxd, tmp_path: Path
) -> Iterator[Watched]:
    source, target = clusters
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        topics={"include": [r"lsst\.sal\..*"]},
        lanes={"lease_s": 5, "count": 1},
    )
    settings = yaml.safe_load(config.read_text())
    settings["metrics"] = {"influx": {"url": influxd.url, "database": DATABASE, "every_s": 1}}
    settings["service"] = {"listen": "127.0.0.1:0"}
    config.write_text(yaml.safe_dump(settings))
    with LinkProcess(config, "--plain") as link:
        wait_for("an address", lambda: SERVED.search(link.text()), 60)
        address = SERVED.search(link.text())
        assert address is not None
        url = address[1].rstrip("/")
        served = url.removeprefix("http://")
        with Prometheus(tmp_path, served, EVERY_S, RULES) as prometheus, chromium() as browser:
            prometheus.wait_ready()
            tab = browser.new_page()
            tab.goto(f"{url}/#/links/east-to-west")
            yield Watched(link, url, influxd, prometheus, tab)


WELL = {"reachable": 1.0, "in_sync": 1.0}
ILL = {"reachable": 0.0, "in_sync": 0.0}


def wait_well(watched: Watched, since_s: float, **more: Callable[[], object]) -> None:
    watched.wait_all(
        since_s,
        ALERT_WITHIN_S,
        api=lambda: watched.api()["in_sync"],
        page=lambda: "in sync" in watched.page()[:HEAD],
        prometheus=lambda: watched.scraped() == WELL,
        influxdb=lambda: watched.written() == WELL,
        alerts=lambda: not watched.firing(),
        **more,
    )


@pytest.mark.parametrize(("how", "within_s"), [("stop", TOLD_WITHIN_S), ("pause", FROZEN_WITHIN_S)])
def test_an_outage_of_the_source_is_told_alike_everywhere_and_ends(
    how: str, within_s: float, clusters: tuple[Cluster, Cluster], watched: Watched
) -> None:
    """Given an EFD that is watched / when the source's broker stops and returns / then page,

    metrics and log tell it in 15 s, the alert fires in 30 s, clears in 30 s, and nothing is lost.
    """
    source, target = clusters
    broker = source.brokers[0]
    load = LoadGenerator(
        source.bootstrap,
        efd_load(efd_topics(TOPICS, hot_partitions=1), RECORDS_PER_S),
        idempotent=True,
    )
    with load:
        wait_for("a link that copies", lambda: watched.api()["topics"] >= TOPICS, 90)
        wait_well(watched, time.monotonic())
        began_s = watched.begin()
        broker.stop() if how == "stop" else broker.pause()
        print(f"stopped in {time.monotonic() - began_s:.1f} s")
        began_s = time.monotonic()
        watched.wait_all(
            began_s,
            within_s,
            api=lambda: "no broker of east" in str(watched.api()["why_not_in_sync"]),
            page=lambda: (
                "in sync" not in watched.page()[:HEAD] and "no broker of east" in watched.page()
            ),
            prometheus=lambda: watched.scraped() == ILL,
            influxdb=lambda: watched.written() == ILL,
            log=lambda: re.search(r" WARN .*\bof east\b", watched.log()),
        )
        watched.wait_all(began_s, ALERT_WITHIN_S, alert=lambda: ALERT in watched.firing())
        watched.begin()
        broker.start() if how == "stop" else broker.resume()
        began_s = time.monotonic()
        wait_well(
            watched, began_s, log=lambda: re.search(r"INFO .*\beast answers again", watched.log())
        )
    wait_level(watched.link, source.bootstrap, target.bootstrap,
               {topic.name: 1 for topic in efd_topics(TOPICS, hot_partitions=1)})  # fmt: skip
