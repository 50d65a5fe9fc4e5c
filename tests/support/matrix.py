"""Two clusters of three brokers, two links, load on all kinds of mirrors, for tests of faults.

Exact, mapped and filled mirrors run side by side, with current records and records three days old;
some of both kinds go through a pipeline that leaves records out and changes the others.
The target expires producers once a second: those of the old records it forgets at once. All
clients connect through proxies, which can cut their connections.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from soak import ends
from soak_audit import Finding, compare, read
from soak_faults import Site
from soak_link import KEPT, Driver, write_links
from soak_load import Load, Writers, create
from support.clusters import HEAP_MB, until
from support.faults import SteppedClock
from support.links import ends as looked_at
from support.proxy import FaultProxy
from support.rounds import begin_new_rounds
from support.thinned import PIPELINE, is_piped, thinned
from support.unclean import UNCLEAN

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.names import TopicName
from heliostat.operate.status import link_statuses
from heliostat_sandbox import Cluster, ClusterSpec, start_many

BROKERS = (1, 2, 3)
MAPPED, FILLED = "mapped", "filled"
"""The links; the first leaves holes out, the second fills them."""
DAYS_MS = 3 * 86_400_000
LOADS = (
    Load("m.fresh", is_exact=True),
    Load("m.old", is_exact=True, age_ms=DAYS_MS),
    Load("m.transactions", is_transactional=True),
    Load("m.old-transactions", is_transactional=True, age_ms=DAYS_MS),
    Load("m.compacted", is_compacted=True),
    Load("f.fresh", is_transactional=True, is_exact=True),
    Load("f.old", is_transactional=True, is_exact=True, age_ms=DAYS_MS),
    Load("m.piped"),
    Load("m.piped-old", is_transactional=True, age_ms=DAYS_MS),
    Load("m.piped-compacted", is_compacted=True),
    Load("f.piped", is_transactional=True, is_exact=True),
)
LEASE_S, ROUNDS = 5, 2
TOLD_WITHIN_S, TOLD_AT_ALL_S = 5.0, 60.0
OUT_OF_TOUCH = ("has not reported for", "has not begun after", "[LEASE_ENDED]")
LEVEL_WITHIN_S = 180.0
CALM_WITHIN_S = 60.0
STARTED_WITHIN_S = 120.0
LOOK_S = 2.0
RECORDS_S, TURN_S = 12, 2.0
"""Records a second of each load, and how often they are written: two cores run six brokers, two
links, both sides' clients, and proxies that each request and each replica's fetch pass."""
FIRST_RECORDS = 20
"""Of each load, before the first test."""
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "replica.lag.time.max.ms": "5000",
    "log.cleaner.backoff.ms": "5000",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
}
FORGETFUL = {"producer.id.expiration.check.interval.ms": "1000"}


@dataclass
class Matrix:
    """All of it, running."""

    source: Cluster
    target: Cluster
    config: Path
    driver: Driver
    clock: SteppedClock
    writers: Writers
    proxies: dict[str, list[FaultProxy]]
    chance: random.Random = field(default_factory=lambda: random.Random(12))
    late: list[str] = field(default_factory=list)
    """Stops that were told later than they should be, for the test at the end."""

    def cluster(self, side: str) -> Cluster:
        """`source` or `target`."""
        return self.source if side == "source" else self.target

    def site(self, side: str) -> Site:
        """Give the site for the soak's faults, at this side only."""
        one = self.cluster(side)
        return Site(one, one, self.driver, self.chance, tuple(load.topic for load in LOADS))

    # -- what the links report -------------------------------------------------------------------

    def stops(self, *topics: str) -> dict[str, str]:
        """Return the code of each stopped mirror, of these topics or of all, by source topic."""
        found: dict[str, str] = {}
        for status in link_statuses(load_config(self.config)):
            found |= {row.source: row.code for row in status.problems if row.state != "retrying"}
        return {topic: code for topic, code in found.items() if not topics or topic in topics}

    def wait_level(self, topics: Sequence[str] = (), partitions: int = 3) -> None:
        """Wait until the target has all current records of these topics, or of the load's."""
        names = topics or [load.topic for load in LOADS]
        behind: object = "unknown"
        until_s = time.monotonic() + LEVEL_WITHIN_S
        wanted: dict[Any, int] = {}
        while time.monotonic() < until_s:
            wanted = wanted or ends(self.source.bootstrap, names, partitions)
            positions = self.driver.positions() if wanted else None
            if positions is not None:
                found = {partition: at for (_, partition), at in positions.items()}
                left = {str(p): end - found[p] for p, end in wanted.items() if p in found}
                behind = {name: count for name, count in left.items() if count > 0}
                if len(left) == len(wanted) and not behind:
                    return
            time.sleep(LOOK_S)
        raise AssertionError(
            f"not level within {LEVEL_WITHIN_S:.0f} s: behind by {behind}; "
            f"{self.driver.problems()}\n{self.driver.text()[-4000:]}"
        )

    def wait_calm(self) -> None:
        """Wait until there is no lag, and no link reports a problem of the load's topics."""
        self.wait_level()
        names = {load.topic for load in LOADS}

        def complaints() -> list[str]:
            return [text for text in self.driver.problems() if text.split()[1].rstrip(":") in names]

        until(lambda: not complaints(), lambda: f"calm; {complaints()}", CALM_WITHIN_S)

    def wait_told(self, expected: dict[str, set[str]], since_s: float) -> float:
        """Wait until log and status name these stops, with one of their codes; return the seconds.

        Where the log takes longer than `TOLD_WITHIN_S`, counted from `since_s`, and has not said
        meanwhile that a lane is out of touch, it is noted in `late`. To ask for the status takes
        seconds itself, with six brokers on two cores.
        """
        looked_s = since_s

        def has_told() -> bool:
            nonlocal looked_s
            looked_s = time.monotonic()
            return self._has_told(expected)

        until(has_told, lambda: self._missed(expected), TOLD_AT_ALL_S)
        took_s = looked_s - since_s
        until(
            lambda: self.stops(*expected).keys() == expected.keys(),
            lambda: self._missed(expected),
            TOLD_AT_ALL_S,
        )
        found = self.stops(*expected)
        assert all(found[topic] in codes for topic, codes in expected.items()), (expected, found)
        if took_s > TOLD_WITHIN_S and not self._was_unsure(took_s):
            self.late.append(f"{sorted(expected)} after {took_s:.1f} s")
        return took_s

    def _missed(self, expected: Iterable[str]) -> str:
        return f"{expected}, it is {self.stops(*expected)}\n{self.driver.text()[-4000:]}"

    def _has_told(self, expected: Iterable[str]) -> bool:
        """Return whether the log names a stop of each of these."""
        stops = [line for line in self._warnings() if " is retrying " not in line]
        return all(any(f" {topic}-" in line for line in stops) for topic in expected)

    def _warnings(self) -> list[str]:
        return [line for line in self.driver.text().splitlines() if " WARN link " in line]

    def _was_unsure(self, within_s: float) -> bool:
        """Return whether the log said within the last seconds that a lane is out of touch.

        With more to do than two cores can, brokers and lanes pause for longer than a lease.
        """
        since = datetime.now(UTC) - timedelta(seconds=within_s + LOOK_S)
        unsure = [line for line in self._warnings() if any(each in line for each in OUT_OF_TOUCH)]
        return any(datetime.fromisoformat(line.split()[0]) >= since for line in unsure)

    def wait_moving(self, kind: str) -> float:
        """Wait until both links copy their load of a kind; return when that was seen."""
        topics = {f"{link}.{kind}": 3 for link in "mf"}
        before = looked_at(self.target.bootstrap, topics)

        def move() -> bool:
            now = looked_at(self.target.bootstrap, topics)
            return all(now[topic] != before[topic] for topic in topics)

        until(move, lambda: f"links that copy\n{self.driver.text()[-4000:]}", STARTED_WITHIN_S)
        return time.monotonic()

    def wait_says(self, words: str) -> float:
        """Wait until the driver's log has these words; return when that was seen."""
        until(lambda: words in self.driver.text(), words, CALM_WITHIN_S)
        return time.monotonic()

    def begin_new_rounds(self) -> None:
        """Let each lane of each link begin anew, a few times."""
        begin_new_rounds(self.config, self.driver.workers, ROUNDS)

    def start_driver(self) -> None:
        """Start a new process, and wait until it runs both links."""
        self.driver.start()

        def run() -> bool:
            text = self.driver.text()
            return all(f"INFO link {name}: east → west runs" in text for name in (MAPPED, FILLED))

        until(run, lambda: f"links\n{self.driver.text()[-4000:]}", STARTED_WITHIN_S)

    def delete(self, *topics: str) -> None:
        """Delete topics of the target."""
        with ClusterAdmin(self.target.bootstrap.split(",")) as admin:
            answers = admin.delete_topics(map(TopicName, topics))
        assert set(answers.values()) == {None}, answers

    def audit(self, loads: Sequence[Load] = LOADS, partitions: int = 3) -> None:
        """Read both sides completely with an ordinary consumer: every record must be there once."""
        found = [
            self._compared(load, partition) for load in loads for partition in range(partitions)
        ]
        assert len(found) == len(loads) * partitions
        assert all(each.source for each in found), found
        unclean = [each for each in found if not each.is_clean]
        assert not unclean, unclean

    def _compared(self, load: Load, partition: int) -> Finding:
        here = read(self.source.bootstrap, load.topic, partition)
        there = read(self.target.bootstrap, load.topic, partition)
        return compare(load, partition, thinned(here) if is_piped(load.topic) else here, there)


def write_config(folder: Path, source: str, target: str) -> Path:
    """Write two links, each named after its mirrors' kind."""
    left_alone = ["max.compaction.lag.ms", "segment.ms", *UNCLEAN]
    both = {"refresh_interval_s": 1, "replication_factor": 3, "config_exclude": left_alone}
    links = {
        MAPPED: {**both, "include": [r"m\..*"], "config_set": KEPT},
        FILLED: {**both, "include": [r"f\..*"], "offsets": "exact"},
    }
    return write_links(folder, source, target, links, lease_s=LEASE_S, pipelines=[PIPELINE])


@contextlib.contextmanager
def running_matrix(folder: Path) -> Iterator[Matrix]:
    """Start it all; stop it at the end of the block, whatever happens."""
    proxies = {name: [FaultProxy() for _ in BROKERS] for name in ("source", "target")}
    specs = [
        ClusterSpec(
            name,
            brokers=len(BROKERS),
            settings={**SETTINGS, **(FORGETFUL if name == "target" else {})},
            heap_mb=HEAP_MB,
            own_settings={n: each.settings for n, each in zip(BROKERS, proxies[name], strict=True)},
        )
        for name in proxies
    ]
    source, target = start_many(specs)
    with contextlib.ExitStack() as stack:
        for cluster in (source, target):
            stack.enter_context(cluster)
            for broker, proxy in zip(cluster.brokers, proxies[cluster.name], strict=True):
                stack.enter_context(proxy.serving(broker.endpoint))
        create(source.bootstrap, LOADS)
        config = write_config(folder, source.bootstrap, target.bootstrap)
        clock = SteppedClock(folder)
        driver = Driver(config, environment=clock.environment)
        stack.callback(driver.kill_all)
        writers = Writers(source.bootstrap, 12, LOADS, records_s=RECORDS_S, turn_s=TURN_S)
        made = Matrix(source, target, config, driver, clock, writers, proxies)
        made.start_driver()  # before there is load: two cores have enough to do with that
        writers.start()
        stack.callback(writers.stop)
        # A mirror without records has nothing to lose.
        until(lambda: min(writers.sent.values()) > FIRST_RECORDS, "load", STARTED_WITHIN_S)
        made.wait_calm()
        yield made
