"""`heliostat demo`: two real clusters under load, one link, the live view, and verification."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import DIFFERENCE, HALTED
from heliostat.cli.run import Headlines, follow, live_screen
from heliostat.cli.stop_signal import STOP, StopSignal
from heliostat.clock import SystemClock
from heliostat.config import ServiceConfig, load_config
from heliostat.errors import Refused
from heliostat.ops.service_manager import ServiceManager
from heliostat.serve.listener import bound

if TYPE_CHECKING:
    from heliostat.config import Config
    from heliostat.link.running import Running
    from heliostat.ops.events import Events
    from heliostat_sandbox import Cluster
    from heliostat_sandbox.load import LoadGenerator
    from heliostat_sandbox.shapes import TopicLoad

TOPICS = 200
RECORDS_PER_S = 1500
SURPRISE_AFTER_S = 12.0
"""When a topic and partitions are added while the link runs."""
LEVEL_WITHIN_S = 60.0
LOOK_S = 0.2
REPORT_DELAY_MS = 2500
"""Lanes report once a second: after this delay, reports are newer than the last record."""
SEED = 20_261_121
LINK = "summit-to-usdf"
CONFIG = """\
service: {{listen: "{listen}"}}
clusters:
  summit: {{bootstrap: "{source}"}}
  usdf: {{bootstrap: "{target}"}}
links:
  - name: {link}
    source: summit
    target: usdf
    topics:
      include: ['lsst\\..*']
      refresh_interval_s: 5
    lanes: {{lease_s: 20}}
"""


@click.command("demo")
@click.option("--seconds", type=float, default=None, help="Duration; until Ctrl-C by default.")
@click.option("--topics", default=TOPICS, show_default=True, help="Topics at the start.")
@click.option("--rate", default=RECORDS_PER_S, show_default=True, help="Records per second.")
@click.option("--plain", is_flag=True, help="Print lines instead of the live view.")
@click.option(
    "--technote",
    is_flag=True,
    help="Instead: two clusters src and destn, and the three uploads of the technote SQR-050.",
)
def demo_command(
    *, seconds: float | None, topics: int, rate: int, plain: bool, technote: bool
) -> None:
    r"""Mirror live topics between two clusters on this machine, then verify the copy.

    Starts the clusters summit and usdf, a load shaped like an observatory's telemetry, and a link;
    adds a topic and partitions while it runs. At the end all records are compared by content; exit
    code 0 only if none was lost, duplicated or changed.

    \b
    Examples:
      heliostat demo --seconds 60
      heliostat demo --topics 50 --rate 500
      heliostat demo --technote
    """
    stop = STOP
    stop.install()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="heliostat-demo-")))
        if technote:
            from heliostat_sandbox.technote import TechnoteTour

            sys.exit(TechnoteTour(folder, _page_address(), stop).run(stack, seconds))
        demo = Demo(folder, stop, topics, rate, is_live=sys.stdout.isatty() and not plain)
        sys.exit(demo.run(stack, seconds))


class Demo:
    """One run of the demonstration.

    Parameters
    ----------
    folder
        Folder for the configuration.
    stop
        Signal that ends the load.
    topics, rate
        Number of topics, and records per second over all of them.
    is_live
        Whether to show the live view.
    """

    def __init__(
        self, folder: Path, stop: StopSignal, topics: int, rate: int, *, is_live: bool
    ) -> None:
        self._folder = folder
        self._stop = stop
        self._topics = topics
        self._rate = rate
        self._is_live = is_live
        self._clock = SystemClock()

    def run(self, stack: ExitStack, seconds: float | None) -> int:
        """Run all steps in order, and return the exit code."""
        from heliostat.link.running import Running
        from heliostat.operate.links import links_of
        from heliostat.ops.events import Events
        from heliostat.serve.beside import ServeBeside
        from heliostat_sandbox import ClusterSpec, start_many
        from heliostat_sandbox.efd import efd_load, efd_topics
        from heliostat_sandbox.load import LoadGenerator

        listen = _page_address()
        click.echo(f"page: http://{listen}/ (in a few seconds)")
        click.echo("starting two clusters of one broker each: summit and usdf")
        source, target = start_many([ClusterSpec("summit"), ClusterSpec("usdf")])
        stack.enter_context(source)
        stack.enter_context(target)
        config = self._configure(source, target, listen)
        click.echo(f"summit is at {source.bootstrap}, usdf at {target.bootstrap}")
        click.echo(f"making {self._topics} topics and a load of {self._rate:,} records per second")
        # The last topic of the catalogue is kept back: it appears while the link runs.
        *loads, late = efd_load(efd_topics(self._topics + 1, SEED), self._rate)
        load = stack.enter_context(LoadGenerator(source.bootstrap, loads, seed=SEED))
        events = Events(self._clock.wall_ms, None if self._is_live else sys.stderr)
        links = links_of(config, None)
        running = Running(config, links, events, self._clock)
        surprise = Surprise(load, late, loads, events)
        beside = ServeBeside(self._config_file, None, events).start()
        stack.callback(beside.stop)
        try:
            with self._screen(running, events):
                running.start()
                failure = self._watch(running, surprise, events, seconds)
            if failure is not None:
                click.echo(f"halted: {failure}", err=True)
                return HALTED
            counts = load.stop()
            click.echo(f"load stopped after {counts.acknowledged:,} records; the rest is copied")
            if not self._wait_level(running):
                click.echo(f"still lagging after {LEVEL_WITHIN_S:.0f} s", err=True)
            return self._verify(config, running)
        finally:
            running.stop()

    def _configure(self, source: Cluster, target: Cluster, listen: str) -> Config:
        path = self._config_file
        addresses = {"source": source.bootstrap, "target": target.bootstrap, "listen": listen}
        path.write_text(CONFIG.format(link=LINK, **addresses))
        return load_config(path)

    @property
    def _config_file(self) -> Path:
        return self._folder / "heliostat.yaml"

    def _screen(self, running: Running, events: Events) -> AbstractContextManager[object]:
        if not self._is_live:
            return nullcontext()
        return live_screen(running, self._stop, events, self._clock)

    def _watch(
        self, running: Running, surprise: Surprise, events: Events, seconds: float | None
    ) -> BaseException | None:
        """Show the view until Ctrl-C or the end of the time, with the surprise in between."""
        now_s = self._clock.monotonic_s()
        ends_at_s = float("inf") if seconds is None else now_s + seconds
        surprise_after_s = min(SURPRISE_AFTER_S, (seconds or SURPRISE_AFTER_S) / 3)
        first = now_s + surprise_after_s
        headlines = None if self._is_live else Headlines(events, self._clock)
        nobody = ServiceManager({}, self._clock)
        failure = follow(running, self._stop, headlines, first, nobody)
        if failure is None and not self._stop.is_set.is_set():
            surprise.spring()
            failure = follow(running, self._stop, headlines, ends_at_s, nobody)
        return failure

    def _wait_level(self, running: Running) -> bool:
        """Wait until nothing lags, by the link's own new reports; return whether that came."""
        from_ms = self._clock.wall_ms() + REPORT_DELAY_MS
        deadline_s = self._clock.monotonic_s() + LEVEL_WITHIN_S
        board = running.kept[0].board
        while self._clock.monotonic_s() < deadline_s:
            now_ms = self._clock.wall_ms()
            status = board.status(now_ms)
            if now_ms > from_ms and status.state == "running" and status.lag_records == 0:
                return True
            running.wait(LOOK_S)
        return False

    def _verify(self, config: Config, running: Running) -> int:
        """Compare by content on the link's own Spark while it runs."""
        from heliostat.operate.topics import preview_topics
        from heliostat.verify.pipeline import verify_pair
        from heliostat.verify.ranges import RangeSpec, TopicPair

        assert running.spark is not None
        pairs = [
            TopicPair(row.topic, row.target)
            for row in preview_topics(config, LINK)
            if row.target is not None
        ]
        report = verify_pair(
            running.spark.session,
            config.clusters[config.links[0].source].access(),
            config.clusters[config.links[0].target].access(),
            pairs,
            ranges=RangeSpec(is_complete=True),
        )
        for line in report.lines():
            click.echo(line)
        return 0 if report.is_clean and report.records > 0 else DIFFERENCE


def _page_address() -> str:
    """Return where the page is served: at the usual port, or at another if that is taken."""
    usual = ServiceConfig().listen
    try:
        bound(usual).close()
    except Refused:
        from heliostat_sandbox.ports import LOOPBACK, free_ports

        return f"{LOOPBACK}:{free_ports(1)[0]}"
    return usual


class Surprise:
    """Changes at the source while the link runs: a new topic, and more partitions of another.

    Parameters
    ----------
    load
        Generator of the load.
    late
        The topic that was kept back.
    loads
        The other topics; the busiest one per partition grows.
    events
        Takes a line about the change.
    """

    def __init__(
        self, load: LoadGenerator, late: TopicLoad, loads: Sequence[TopicLoad], events: Events
    ) -> None:
        self._load = load
        self._late = late
        self._loads = loads
        self._events = events

    def spring(self) -> None:
        """Make the changes."""
        busiest = max(self._loads, key=lambda item: item.rate_hz / item.partitions)
        grown = replace(busiest, partitions=busiest.partitions + 2)
        self._load.add([self._late, grown])
        self._events.info(
            f"at the source: new topic {self._late.topic}, "
            f"{busiest.topic} grown to {grown.partitions} partitions"
        )
