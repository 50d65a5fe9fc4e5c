"""What a service knows of its links: observed all the time, looked at once a second."""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any, TextIO

import psutil

from heliostat import __version__
from heliostat.clock import Clock
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.past_records import PastRecords
from heliostat.config import Config
from heliostat.errors import HeliostatError
from heliostat.metrics import families as f
from heliostat.metrics.influx.writer import InfluxWriter
from heliostat.metrics.link_samples import LinkSamples, WatchedLink
from heliostat.metrics.mirrormaker_families import FAMILIES as MIRRORMAKER_FAMILIES
from heliostat.metrics.mirrormaker_samples import MirrorMakerSamples
from heliostat.metrics.text import Samples, labels
from heliostat.metrics.voice import Place, Voice, voice_of
from heliostat.names import LinkName
from heliostat.operate.history import Past, link_past
from heliostat.ops.events import LogFormat
from heliostat.serve.bodies import FRESH_S
from heliostat.serve.route_times import RouteTimes
from heliostat.state_topics import history_topic
from heliostat.status.cluster_watch import ClusterWatch
from heliostat.status.event_log import EventLog, EventRow
from heliostat.status.follower import LinkFollower
from heliostat.status.history import FINE_COUNT, FINE_S, History, point_of
from heliostat.status.past import LinkPast, events_in, read_link
from heliostat.status.values import PartitionStatus

DAY_MS = 86_400_000
EVENTS_WAIT_S = 1.0
RECALL_AGAIN_S = 5.0
"""Between two tries to read a link's history, when the target does not answer."""


class Watch:
    """Follows links and watches their clusters.

    Parameters
    ----------
    config
        The configuration.
    clock
        The clock.
    driver
        The driver that the service stands beside; None: it stands alone.
    log, form
        Where events are written as well, if at all, and how.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        driver: Place | None = None,
        *,
        log: TextIO | None = None,
        form: LogFormat = LogFormat.TEXT,
    ) -> None:
        self.config = config
        self._driver = driver
        self.clock = clock
        aliases = {alias for link in config.links for alias in (link.source, link.target)}
        self._service_events = EventLog(clock.wall_ms, LinkName(""), sys.stderr, form)
        self._clusters = {
            alias: ClusterWatch(config.clusters[alias].access(), clock, self._service_events)
            for alias in aliases
        }
        self._followers = {
            LinkName(link.name): LinkFollower(
                config,
                link,
                clock,
                self._clusters[link.source],
                self._clusters[link.target],
                events=EventLog(clock.wall_ms, LinkName(link.name), log, form),
            )
            for link in config.links
        }
        self._samples = {
            name: LinkSamples(follower.link, config.metrics)
            for name, follower in self._followers.items()
        }
        self._mirrormaker = {
            name: MirrorMakerSamples(follower.link, config.metrics)
            for name, follower in self._followers.items()
        }
        self._histories = {name: History() for name in self._followers}
        influx = config.metrics.influx
        self._influx = (
            None
            if influx is None
            else InfluxWriter(influx, self.write_samples, self._service_events, clock)
        )
        self.routes = RouteTimes()
        """How long the answers of this service take."""
        self._stopping = threading.Event()
        self._process = psutil.Process()
        self._observations: dict[LinkName, tuple[float, WatchedLink]] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to follow and watch."""
        for cluster in self._clusters.values():
            cluster.start()
        for follower in self._followers.values():
            follower.start()
        threading.Thread(target=self._keep_history, name="history", daemon=True).start()
        for name, follower in self._followers.items():
            recall = partial(self._recall, name, follower)
            threading.Thread(target=recall, name=f"{name} past", daemon=True).start()
        if self._influx is not None:
            self._influx.start()

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        if self._influx is not None:
            self._influx.stop()
        for cluster in self._clusters.values():
            cluster.stop()
        for follower in self._followers.values():
            follower.stop()

    @property
    def names(self) -> tuple[LinkName, ...]:
        """Names of the links."""
        return tuple(self._followers)

    def follower(self, link: LinkName) -> LinkFollower:
        """Return who follows a link; raises `KeyError` if there is none of that name."""
        return self._followers[link]

    def observe(self, link: LinkName) -> WatchedLink:
        """Return a link as it is seen now; raises `KeyError` if there is none of that name."""
        follower = self._followers[link]
        with self._lock:
            now_s = self.clock.monotonic_s()
            at_s, watched = self._observations.get(link, (0.0, None))
            if watched is None or now_s - at_s >= FRESH_S:
                source, target = follower.link.source, follower.link.target
                watched = WatchedLink(
                    follower.observation(),
                    self._clusters[source].reach(),
                    self._clusters[target].reach(),
                    follower.partitions,
                    follower.latencies,
                    follower.retention.seconds,
                )
                self._observations[link] = now_s, watched
            return watched

    def voice(self, link: LinkName) -> Voice:
        """Return what is told of a link to those who add figures of several services up."""
        owner = self.observe(link).observation.status.owner
        return voice_of(owner, self._driver, foreign=self.config.metrics.foreign)

    def partitions(self, link: LinkName) -> list[PartitionStatus]:
        """Return all partitions of a link as they are now."""
        return self._followers[link].partitions()

    def events(self, link: LinkName | None, after: int) -> list[EventRow]:
        """Return events with larger numbers: of a link, or of all links and the service itself."""
        chosen = self._followers.values() if link is None else [self._followers[link]]
        rows = [row for follower in chosen for row in follower.events.rows(after)]
        if link is None:
            rows += self._service_events.rows(after)
        return sorted(rows, key=lambda row: row.id)

    def history(self, link: LinkName, step_s: int) -> dict[str, list[Any]]:
        """Return a link's figures over time as columns, see `History`."""
        with self._lock:
            return self._histories[link].columns(step_s)

    def topic_past(self, link: LinkName, topic: str, since_s: float) -> Past:
        """Return a topic's figures over time; its link's target is asked."""
        config = self._followers[link].link
        return link_past(config, self.config.clusters[config.target].access(), topic, since_s)

    def note(self) -> None:
        """Add what is seen now to histories and events."""
        for name, follower in self._followers.items():
            status = self.observe(name).observation.status
            follower.look_for_changes(status)
            with self._lock:
                self._histories[name].add(point_of(status))

    def _recall(self, link: LinkName, follower: LinkFollower) -> None:
        """Put what the link's history tells before what is seen from now on, and follow it."""
        foreign = ForeignRecords(follower.events.warn)
        target = self.config.clusters[follower.link.target].access()
        while not self._stopping.wait(0):
            now_ms = self.clock.wall_ms()
            with closing(PastRecords(target, history_topic(link), "heliostat-history")) as records:
                try:
                    past = read_link(
                        *(records, now_ms - DAY_MS, foreign),
                        fine_from_ms=now_ms - FINE_S * FINE_COUNT * 1000,
                    )
                except HeliostatError:  # its status tells that the target does not answer
                    self._stopping.wait(RECALL_AGAIN_S)
                    continue
                self.remember(link, past)
                self._take_events(records, follower.events, foreign)

    def _take_events(self, records: PastRecords, events: EventLog, foreign: ForeignRecords) -> None:
        """Take what the link's driver tells from now on: who wishes what, what was changed."""
        while not self._stopping.wait(0):
            try:
                rows = records.after(EVENTS_WAIT_S)
            except HeliostatError:  # as above
                self._stopping.wait(RECALL_AGAIN_S)
                continue
            for event in events_in(records.topic, rows, foreign):
                events.take(event)

    def remember(self, link: LinkName, past: LinkPast) -> None:
        """Put what was noted earlier before what is kept of a link."""
        self._followers[link].events.remember(past.events)
        with self._lock:
            self._histories[link].remember(past.fine, past.whole)

    def _keep_history(self) -> None:
        while not self._stopping.wait(FINE_S):
            self.note()

    def observe_all(self) -> Mapping[LinkName, WatchedLink]:
        """Return all links as they are seen now."""
        return {name: self.observe(name) for name in self._followers}

    def metrics(self) -> bytes:
        """Return all metrics as text."""
        samples = Samples()
        self.write_samples(samples)
        self.routes.write(samples)
        return samples.text().encode()

    def write_samples(self, samples: Samples) -> None:
        """Add all samples, for whichever reader."""
        build = {"version": __version__, "python": platform.python_version()}
        samples.add(f.BUILD_INFO, labels(build), 1)
        dropped, drivers = 0, set[tuple[object, object]]()
        for name, watched in self.observe_all().items():
            match self.voice(name):
                case Voice.ALL:
                    status = watched.observation.status
                    dropped += self._samples[name].write(samples, watched)
                    driver = status.owner.get("host"), status.owner.get("pid")
                    self._samples[name].write_processes(
                        samples, status, with_driver=driver not in drivers
                    )
                    drivers.add(driver)
                case Voice.STANDBY:
                    self._samples[name].write_standby(samples)
                case Voice.NOTHING:
                    pass
        samples.add(f.DROPPED, "", dropped)
        if self._influx is not None:
            self._influx.write(samples)
        with self._process.oneshot():
            times = self._process.cpu_times()
            samples.add(f.PROCESS_CPU, "", round(times.user + times.system, 3))
            samples.add(f.PROCESS_MEMORY, "", self._process.memory_info().rss)
            samples.add(f.PROCESS_SOCKETS, "", self._process.num_fds())
            samples.add(f.PROCESS_START, "", self._process.create_time())

    def mirrormaker2(self) -> bytes:
        """Return figures of links under the names of MirrorMaker 2's metrics, as text."""
        samples = Samples(MIRRORMAKER_FAMILIES)
        for name, watched in self.observe_all().items():
            if self.voice(name) is Voice.ALL:
                self._mirrormaker[name].write(samples, watched)
        return samples.text().encode()
