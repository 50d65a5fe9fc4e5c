"""What a service knows of its links: observed all the time, looked at once a second."""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

import psutil

from heliostat import __version__
from heliostat.clock import Clock
from heliostat.config import Config, LinkConfig
from heliostat.metrics import families as f
from heliostat.metrics.influx.writer import InfluxWriter
from heliostat.metrics.link_samples import LinkSamples, WatchedLink
from heliostat.metrics.mirrormaker_families import FAMILIES as MIRRORMAKER_FAMILIES
from heliostat.metrics.mirrormaker_samples import MirrorMakerSamples
from heliostat.metrics.text import Samples, labels
from heliostat.metrics.voice import Place, Voice, voice_of
from heliostat.names import Alias, LinkName
from heliostat.operate.history import Past, link_past
from heliostat.ops.events import LogFormat
from heliostat.serve.bodies import FRESH_S
from heliostat.serve.followed_past import FollowedPast
from heliostat.serve.route_times import RouteTimes
from heliostat.status.cluster_watch import ClusterWatch
from heliostat.status.event_log import EventLog, EventRow
from heliostat.status.follower import LinkFollower
from heliostat.status.history import FINE_S, History, point_of
from heliostat.status.past import LinkPast
from heliostat.status.values import PartitionStatus


@dataclass(slots=True)
class LinkWatch:
    """What is kept of one link."""

    follower: LinkFollower
    samples: LinkSamples
    mirrormaker: MirrorMakerSamples
    history: History
    seen_at_s: float = 0.0
    seen_change: int = 0
    last: WatchedLink | None = None
    """As it was seen last, and when (monotonic), after how many changes."""

    @property
    def changes(self) -> int:
        """How often it was steered."""
        return self.follower.reports.board.changes


class Watch:
    """Follows links and watches their clusters; which links, may change meanwhile.

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
        self._log, self._form = log, form
        self.service_events = EventLog(clock.wall_ms, LinkName(""), sys.stderr, form)
        """What happens to the service itself, and what is changed through it."""
        self._clusters: dict[Alias, ClusterWatch] = {}
        self._links: dict[LinkName, LinkWatch] = {}
        """Replaced as a whole when links come or go."""
        for link in config.links:
            self._add(link)
        influx = config.metrics.influx
        self._influx = (
            None
            if influx is None
            else InfluxWriter(influx, self.write_samples, self.service_events, clock)
        )
        self.routes = RouteTimes()
        """How long the answers of this service take."""
        self._is_started, self._stopping = False, threading.Event()
        self._process = psutil.Process()
        self._lock = threading.Lock()

    def _add(self, link: LinkConfig) -> LinkWatch:
        source, target = (self._cluster(alias) for alias in (link.source, link.target))
        events = EventLog(self.clock.wall_ms, LinkName(link.name), self._log, self._form)
        watched = LinkWatch(
            LinkFollower(self.config, link, self.clock, source, target, events=events),
            LinkSamples(link, self.config.metrics),
            MirrorMakerSamples(link, self.config.metrics),
            History(),
        )
        self._links = {**self._links, LinkName(link.name): watched}
        return watched

    def _cluster(self, alias: Alias) -> ClusterWatch:
        if alias not in self._clusters:
            access = self.config.clusters[alias].access()
            self._clusters[alias] = ClusterWatch(access, self.clock, self.service_events)
        return self._clusters[alias]

    def change_to(self, config: Config) -> None:
        """Follow the links of another configuration from now on; its clusters are the same.

        From one thread only.
        """
        self.config = config
        wanted = {LinkName(link.name): link for link in config.links}
        for name, link in wanted.items():
            before = self._links.get(name)
            if before is not None and _has_ends_of(before.follower.link, link):
                before.follower.link = link
                continue
            if before is not None and self._is_started:
                before.follower.stop()
            aliases = set(self._clusters)
            added = self._add(link)
            if self._is_started:
                for alias in self._clusters.keys() - aliases:
                    self._clusters[alias].start()
                self._start(name, added.follower)
        gone = [self._links[name] for name in self._links.keys() - wanted.keys()]
        self._links = {name: self._links[name] for name in wanted}
        for link_watch in gone if self._is_started else ():
            link_watch.follower.stop()

    def start(self) -> None:
        """Begin to follow and watch."""
        self._is_started = True
        for cluster in self._clusters.values():
            cluster.start()
        for name, link in self._links.items():
            self._start(name, link.follower)
        threading.Thread(target=self._keep_history, name="history", daemon=True).start()
        if self._influx is not None:
            self._influx.start()

    def _start(self, name: LinkName, follower: LinkFollower) -> None:
        follower.start()
        past = FollowedPast(
            follower,
            self.config.clusters[follower.link.target].access(),
            self.clock,
            partial(self.remember, name),
            lambda: self._stopping.is_set() or not self._follows(follower),
        )
        threading.Thread(target=past.run, name=f"{name} past", daemon=True).start()

    def _follows(self, follower: LinkFollower) -> bool:
        return any(link.follower is follower for link in self._links.values())

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        if self._influx is not None:
            self._influx.stop()
        for cluster in self._clusters.values():
            cluster.stop()
        for link in self._links.values():
            link.follower.stop()

    @property
    def changes(self) -> tuple[object, ...]:
        """Another one once links come, go or are steered: what is told is to be told anew."""
        return (id(self.config), *((name, link.changes) for name, link in self._links.items()))

    @property
    def names(self) -> tuple[LinkName, ...]:
        """Names of the links."""
        return tuple(self._links)

    def follower(self, link: LinkName) -> LinkFollower:
        """Return who follows a link; raises `KeyError` if there is none of that name."""
        return self._links[link].follower

    def observe(self, link: LinkName) -> WatchedLink:
        """Return a link as it is seen now; raises `KeyError` if there is none of that name."""
        return self._observe(self._links[link])

    def _observe(self, link: LinkWatch) -> WatchedLink:
        with self._lock:
            now_s, change = self.clock.monotonic_s(), link.changes
            is_fresh = now_s - link.seen_at_s < FRESH_S and change == link.seen_change
            if link.last is None or not is_fresh:
                follower = link.follower
                source, target = follower.link.source, follower.link.target
                link.last = WatchedLink(
                    follower.observation(),
                    self._clusters[source].reach(),
                    self._clusters[target].reach(),
                    follower.partitions,
                    follower.latencies,
                    follower.retention.seconds,
                )
                link.seen_at_s, link.seen_change = now_s, change
            return link.last

    def voice(self, link: LinkName) -> Voice:
        """Return what is told of a link to those who add figures of several services up."""
        return self._voice(self.observe(link))

    def _voice(self, watched: WatchedLink) -> Voice:
        owner = watched.observation.status.owner
        return voice_of(owner, self._driver, foreign=self.config.metrics.foreign)

    def partitions(self, link: LinkName) -> list[PartitionStatus]:
        """Return all partitions of a link as they are now."""
        return self._links[link].follower.partitions()

    def events(self, link: LinkName | None, after: int) -> list[EventRow]:
        """Return events with larger numbers: of a link, or of all links and the service itself."""
        chosen = self._links.values() if link is None else [self._links[link]]
        rows = [row for link_watch in chosen for row in link_watch.follower.events.rows(after)]
        if link is None:
            rows += self.service_events.rows(after)
        return sorted(rows, key=lambda row: row.id)

    def history(self, link: LinkName, step_s: int) -> dict[str, list[Any]]:
        """Return a link's figures over time as columns, see `History`."""
        with self._lock:
            return self._links[link].history.columns(step_s)

    def topic_past(self, link: LinkName, topic: str, since_s: float) -> Past:
        """Return a topic's figures over time; its link's target is asked."""
        config = self._links[link].follower.link
        return link_past(config, self.config.clusters[config.target].access(), topic, since_s)

    def note(self) -> None:
        """Add what is seen now to histories and events."""
        for link in self._links.values():
            status = self._observe(link).observation.status
            link.follower.look_for_changes(status)
            with self._lock:
                link.history.add(point_of(status))

    def remember(self, link: LinkName, past: LinkPast) -> None:
        """Put what was noted earlier before what is kept of a link."""
        kept = self._links.get(link)
        if kept is None:
            return  # it has gone meanwhile
        kept.follower.events.remember(past.events)
        with self._lock:
            kept.history.remember(past.fine, past.whole)

    def _keep_history(self) -> None:
        while not self._stopping.wait(FINE_S):
            self.note()

    def observe_all(self) -> Mapping[LinkName, WatchedLink]:
        """Return all links as they are seen now."""
        return {name: self._observe(link) for name, link in self._links.items()}

    def metrics(self) -> bytes:
        """Return all metrics as text."""
        samples = Samples()
        self.write_samples(samples)
        self.routes.write(samples)
        return samples.text().encode()

    def write_samples(self, samples: Samples) -> None:
        """Add all samples, for whichever reader."""
        dropped, drivers = 0, set[tuple[object, object]]()
        for link in self._links.values():
            match self._voice(watched := self._observe(link)):
                case Voice.ALL:
                    status = watched.observation.status
                    dropped += link.samples.write(samples, watched)
                    driver = status.owner.get("host"), status.owner.get("pid")
                    link.samples.write_processes(samples, status, with_driver=driver not in drivers)
                    drivers.add(driver)
                case Voice.STANDBY:
                    link.samples.write_standby(samples)
                case Voice.NOTHING:
                    pass
        samples.add(f.DROPPED, "", dropped)
        if self._influx is not None:
            self._influx.write(samples)
        _write_process(samples, self._process)

    def mirrormaker2(self) -> bytes:
        """Return figures of links under the names of MirrorMaker 2's metrics, as text."""
        samples = Samples(MIRRORMAKER_FAMILIES)
        for link in self._links.values():
            if self._voice(watched := self._observe(link)) is Voice.ALL:
                link.mirrormaker.write(samples, watched)
        return samples.text().encode()


def _has_ends_of(link: LinkConfig, other: LinkConfig) -> bool:
    """Whether two links join the same clusters."""
    return (link.source, link.target) == (other.source, other.target)


def _write_process(samples: Samples, process: psutil.Process) -> None:
    """Add what this process is and uses."""
    build = {"version": __version__, "python": platform.python_version()}
    samples.add(f.BUILD_INFO, labels(build), 1)
    with process.oneshot():
        times = process.cpu_times()
        samples.add(f.PROCESS_CPU, "", round(times.user + times.system, 3))
        samples.add(f.PROCESS_MEMORY, "", process.memory_info().rss)
        samples.add(f.PROCESS_SOCKETS, "", process.num_fds())
        samples.add(f.PROCESS_START, "", process.create_time())
