"""Links of one process are isolated: each is retried, or halts, alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.clock import SystemClock
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, HeliostatError, LinkTakenOver, ProtocolError
from heliostat.link import driven_link, kept_link, spark_start
from heliostat.link import running as running_module
from heliostat.link.held_changes import NotInForce
from heliostat.link.kept_link import KeptLink
from heliostat.link.link_context import WantedLink
from heliostat.link.restart_keeper import RestartKeeper
from heliostat.link.running import Running
from heliostat.link.spark_start import SparkStart
from heliostat.link.troubles import Troubles
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.ops.events import Events
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.status import known_ends
from heliostat.status.board import StatusBoard
from heliostat.status.lag import BothEnds
from heliostat.wishes.restarts import RestartMemory

WITHIN_S = 20.0


class Service:
    """A link whose beginnings end as they are told to."""

    def __init__(self, ends: list[Exception | None]) -> None:
        self.failure: BaseException | None = None
        self.restarts = None
        self.runs = False
        self._ends = ends
        self.stops = self.looks = 0
        self.switch = self
        self.gives_way = threading.Event()

    def start(self) -> bool:
        error = self._ends.pop(0) if self._ends else None
        if error is not None:
            raise error
        self.runs = True
        return True

    def refresh(self) -> None:
        self.looks += 1

    def stop(self) -> None:
        self.stops += 1
        self.runs = False


class NoStore:
    """A target that remembers nothing."""

    def memory(self) -> None:
        """Nothing is remembered."""

    def remember(self, memory: RestartMemory) -> None:
        """Forget it."""

    def orders(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Nothing is open."""


class Kept:
    """A kept link over such services."""

    def __init__(self, *ends: Exception | None, restarts: int = 0) -> None:
        self.made: list[Service] = []
        self.events = Events(lambda: 0, None)
        self._ends = list(ends)
        settings = {"name": "l", "source": "a", "target": "b"}
        board = StatusBoard(LinkName("l"))
        self.link = KeptLink(
            WantedLink(LinkConfig.model_validate(settings)),
            self._make,
            board,
            restarts=RestartKeeper(
                "l", restarts, NoStore(), board, clock=SystemClock(), events=self.events.of("l")
            ),
            events=self.events.of("l"),
            troubles=Troubles({}, SystemClock(), self.events.of("l")),
        )
        self.link.start()

    def _make(self) -> Any:
        self.made.append(Service(self._ends))
        return self.made[-1]

    def said(self) -> str:
        return "\n".join(self.events.recent(100))


def eventually(holds: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)  # between two looks at a condition with a deadline


def test_a_passing_failure_is_retried_and_reported() -> None:
    """Given a target away twice / when it is back / then the link runs, no client is left open."""
    kept = Kept(ConnectionLost("west is away"), ConnectionLost("west is away"))
    eventually(lambda: kept.made and kept.made[-1].runs)
    assert kept.link.failure is None
    assert [service.stops > 0 for service in kept.made] == [True, True, False]
    assert "link l: start is tried again: [CONNECTION_LOST] west is away" in kept.said()
    kept.link.stop()
    assert all(service.stops for service in kept.made)


def test_a_lasting_failure_halts_that_link() -> None:
    """Given a running link / when its service fails for good / then halted, not retried."""
    kept = Kept()
    eventually(lambda: kept.made and kept.made[-1].runs)
    kept.made[-1].failure = ProtocolError("a record that is not ours")
    eventually(lambda: kept.link.failure is not None)
    assert "link l has halted: [PROTOCOL] a record that is not ours" in kept.said()
    assert len(kept.made) == 1
    assert kept.made[0].stops
    assert kept.link.over is kept.link.failure
    kept.link.stop()


def test_a_link_that_halted_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given restarts / when a link fails for good and as it begins / then it rests before more."""
    monkeypatch.setattr(kept_link, "AGAIN_FIRST_S", 0.01)
    kept = Kept(None, ProtocolError("again"), restarts=7)
    eventually(lambda: kept.made and kept.made[-1].runs)
    kept.made[-1].failure = ProtocolError("a record that is not ours")
    eventually(lambda: len(kept.made) == 2)
    eventually(lambda: kept.link.failure is not None)
    assert kept.link.over is None, "it begins again by itself"
    assert "it begins again in 2 min (restart 2 of 7)" in kept.said()
    kept.link.stop()
    assert kept.link.failure is not None


def test_a_link_that_was_taken_over_stands_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_link, "AGAIN_FIRST_S", 0.01)
    kept = Kept(LinkTakenOver("by another"), restarts=7)
    eventually(lambda: len(kept.made) == 2 and kept.made[-1].runs)
    assert kept.link.failure is None
    kept.link.stop()


def test_a_bug_halts_its_link_only_and_is_named() -> None:
    kept = Kept(ValueError("what"))
    eventually(lambda: kept.link.failure is not None)
    assert "link l has halted: ValueError: what" in kept.said()


def test_a_link_that_is_stopped_before_it_begins_does_not_begin() -> None:
    kept = Kept(*[ConnectionLost("away")] * 50)
    eventually(kept.said)
    kept.link.stop()
    assert not any(service.runs for service in kept.made)


def running(*failures: HeliostatError | None) -> Running:
    config = Mock()
    found = Running(config, (), Events(lambda: 0, None))
    for number, failure in enumerate(failures):
        driven = Mock()
        driven.kept.failure = driven.kept.over = failure
        driven.kept.link.name = f"l{number}"
        found.driven.append(driven)
    return found


def test_a_process_runs_while_one_of_its_links_does() -> None:
    """Given links of which some have halted / when waited / then it ends with the last one."""
    bad = ProtocolError("bad")
    assert running(None, None).wait(0.0) is None
    some = running(bad, None)
    assert some.wait(0.0) is None
    assert some.failures == {"l0": bad}
    assert running(bad, ProtocolError("worse")).wait(0.0) is bad


class BlockedService(Service):
    """A link whose source is dead: its beginning lasts until it is stopped."""

    def __init__(self) -> None:
        super().__init__([])
        self._stopped = threading.Event()

    def start(self) -> bool:
        self._stopped.wait(WITHIN_S)
        return False

    def stop(self) -> None:
        super().stop()
        self._stopped.set()


class Progress(RecentRecords):
    """A progress topic in memory; each look at it takes what was written since."""

    written: dict[str, list[tuple[bytes | None, bytes | None]]]

    def exists(self) -> bool:
        return True

    def newest(self) -> tuple[int, Offset] | None:
        return None

    def close(self) -> None:
        pass

    def _polled(self, timeout_s: float) -> list[Any]:
        del timeout_s
        time.sleep(0.01)  # a broker holds a fetch
        rows, self.written[self.topic] = self.written.get(self.topic, []), []
        return [
            SimpleNamespace(key=key, value=value, timestamp=1, offset=at)
            for at, (key, value) in enumerate(rows)
        ]


REPORT = {"at_ms": 1, "state": "running", "instance": "i", "claim": 1, "turns": 1}
DRIVER = (b"driver", json.dumps(REPORT).encode())


def config_of(*links: str | dict[str, Any], **sections: Any) -> Config:
    named = [{"name": each} if isinstance(each, str) else each for each in links]
    given: dict[str, Any] = {
        "clusters": {"a": {"bootstrap": ["a:1"]}, "b": {"bootstrap": ["b:1"]}},
        "links": [{"source": "a", "target": "b", **each} for each in named],
        "spark": {"task_cpus": 0.5},
        **sections,
    }
    return Config.model_validate(given)


class Process:
    """A process with two links, of which the source of `dead` is dead."""

    def __init__(self, patch: pytest.MonkeyPatch, names: list[str], **options: Any) -> None:
        self.events = Events(lambda: 0, None)
        config = config_of(*names)
        self.stop_asked = threading.Event()
        spark = Mock(cores=2, is_local=True)
        spark.why_ended.return_value = None
        self.written: dict[str, list[tuple[bytes | None, bytes | None]]] = {}
        patch.setattr(driven_link, "RestartBook", lambda *_: NoStore())
        patch.setattr(driven_link, "RecentRecords", self._topic)
        patch.setattr(running_module, "sent_in_clear", lambda *_: [])
        self.running = Running(
            config, config.links, self.events, None, self.stop_asked, **{"rounds": spark, **options}
        )
        patch.setattr(driven_link, "LinkService", self._service)
        self.services: dict[str, Service] = {}
        self.links: dict[str, LinkConfig] = {}
        """What their newest services began with."""

    def _topic(self, _: object, topic: str, foreign: ForeignRecords) -> Progress:
        made = Progress("127.0.0.1:1", topic, foreign)
        made.written = self.written
        return made

    def _service(self, _config: object, wanted: WantedLink, *_: object, **__: object) -> Any:
        link = wanted.link
        self.links[link.name] = link
        self.services[link.name] = BlockedService() if link.name == "dead" else Service([])
        return self.services[link.name]

    def runs(self, name: str) -> bool:
        return name in self.services and self.services[name].runs

    def report(self, name: str, *records: tuple[bytes | None, bytes | None]) -> None:
        self.written[f"heliostat.{name}.progress"] = list(records)

    def driver_of(self, name: str) -> dict[str, Any]:
        kept = next(each for each in self.running.kept if each.link.name == name)
        return kept.board.status(1).driver


@pytest.fixture
def process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    made = Process(monkeypatch, request.param)
    yield made
    made.running.stop()


EACH_ORDER = pytest.mark.parametrize(
    "process", [["dead", "well"], ["well", "dead"]], indirect=True, ids=["dead first", "dead last"]
)


@EACH_ORDER
def test_a_link_that_does_not_begin_keeps_no_other_from_its_answers(process: Process) -> None:
    """Given a dead source, first or last in the file / then both links' reports are read."""
    began_s = time.monotonic()
    process.running.start()
    assert time.monotonic() - began_s < 1.0  # the view, and `--seconds`, begin now
    for name in ("well", "dead"):
        process.report(name, DRIVER)
        eventually(lambda name=name: process.driver_of(name) == REPORT)
    assert process.services["well"].runs


GARBAGE = (None, b"", b"\xff\x00", b"7", b"[]", b'"text"', b'{"at_ms": "x"}', b"[" * 5000, b"NaN")


@EACH_ORDER
def test_what_others_write_among_reports_is_ignored_and_told(process: Process) -> None:
    """Given foreign records among a link's reports / then the next report is read all the same."""
    process.running.start()
    keys = (None, b"\xff", b"driver", b"lane/0", b"what")
    process.report("well", *((key, value) for key in keys for value in GARBAGE), DRIVER)
    eventually(lambda: process.driver_of("well") == REPORT)
    said = "\n".join(process.events.recent(100))
    assert "link well: topic heliostat.well.progress has a record that is not ours" in said
    assert said.count("is not ours") == 6, said  # of 45 the 1st, 2nd, 4th, ... 32nd


@pytest.mark.parametrize("process", [["well"]], indirect=True)
def test_a_report_of_which_no_status_can_be_made_replaces_none(process: Process) -> None:
    """Given a foreign record that looks like the driver's report / then the one before it stays."""
    process.running.start()
    odd = json.dumps({**REPORT, "refused": 5}).encode()
    process.report("well", DRIVER, (b"driver", odd))
    eventually(lambda: "is not ours" in "\n".join(process.events.recent(10)))
    assert process.driver_of("well") == REPORT


@pytest.mark.parametrize("process", [["dead", "well"]], indirect=True)
def test_statuses_show_lags_that_no_lane_reports(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given stops in the state of a link without lanes / then both ends tell what is missing."""
    source = TopicPartition(TopicName("t"), PartitionId(0))
    figures = (70, 70, 0, 0, -1, -1, 1)
    stop = PartitionReport(source, source, PartitionState.GAP, *figures, target_end=70)
    monkeypatch.setattr(driven_link, "read_ends", lambda *_: {source: BothEnds(90, 70, 0)})
    for name in ("NEEDED_S", "LOOK_S"):
        monkeypatch.setattr(known_ends, name, 0.0)
    process.running.start()
    process.running.kept[1].board.know_stops({source: stop})

    def lags() -> list[int | None]:
        return [status.lag_records for status in process.running.statuses()]

    assert lags() == [None, None]
    eventually(lambda: lags() == [None, 20])


def test_a_stop_during_sparks_start_begins_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a Spark that starts / when stopped / then no link begins, and that Spark is stopped."""
    may_go_on, spark = threading.Event(), Mock()

    def started(starting: Any) -> None:
        may_go_on.wait(WITHIN_S)
        starting._rounds = spark

    monkeypatch.setattr(SparkStart, "_run", started)
    monkeypatch.setattr(spark_start, "LoopsAhead", Mock())
    process = Process(monkeypatch, ["well"], rounds=None, starting=SparkStart(Mock(), []))
    process.stop_asked.set()
    process.running.start()
    assert not process.running.kept
    may_go_on.set()
    process.running.stop()
    spark.stop.assert_called_once_with()


# -- another configuration while links run -----------------------------------------------------


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """Two links that run."""
    made = Process(monkeypatch, ["one", "two"])
    made.running.start()
    eventually(lambda: made.runs("one") and made.runs("two"))
    yield made
    made.running.stop()


def test_links_come_and_go_beside_one_that_is_not_touched(pair: Process) -> None:
    """Given two links / when one goes and another comes / then the first has seen nothing of it."""
    one, two = pair.services["one"], pair.services["two"]
    changes = pair.running.change_to(config_of("one", "three"))
    assert changes.lines() == ["link three begins", "link two ends; its mirrors and its state stay"]
    assert two.stops
    eventually(lambda: pair.runs("three"))
    assert [one.stops, one.looks] == [0, 0]
    assert [status.link for status in pair.running.statuses()] == ["one", "three"]
    assert not pair.running.change_to(config_of("one", "three"))
    assert pair.services["one"] is one


def test_what_lanes_do_not_know_changes_while_a_link_copies(pair: Process) -> None:
    """Given a further topic in `include` / then the link looks again, and none begins anew."""
    services = dict(pair.services)
    further = {"name": "one", "topics": {"include": ["t"]}}
    pair.running.change_to(config_of(further, "two"))
    assert pair.services == services
    assert [services[name].looks for name in ("one", "two")] == [1, 0]
    assert pair.running.kept[0].link.topics.include == ("t",)
    assert not any(service.stops for service in services.values())


def test_what_lanes_know_has_its_link_begin_anew(pair: Process) -> None:
    """Given another number of lanes of one link / then it ends and begins, and the other copies."""
    one, two = pair.services["one"], pair.services["two"]
    pair.running.change_to(config_of({"name": "one", "lanes": {"count": 3}}, "two"))
    assert one.stops
    eventually(lambda: pair.services["one"] is not one and pair.runs("one"))
    assert pair.links["one"].lanes.count == 3
    assert pair.services["two"] is two
    assert not two.stops


def test_a_link_that_has_halted_begins_anew_once_its_configuration_changes(pair: Process) -> None:
    by_hand = {"name": "one", "restarts": {"max": 0}}
    pair.running.change_to(config_of(by_hand, "two"))
    eventually(lambda: pair.runs("one"))
    one = pair.services["one"]
    one.failure = ProtocolError("bad")
    eventually(lambda: pair.running.failures)
    pair.running.change_to(config_of(by_hand, "two"))
    assert pair.running.failures
    pair.running.change_to(config_of({**by_hand, "gaps": {"policy": "continue"}}, "two"))
    eventually(lambda: pair.services["one"] is not one and pair.runs("one"))
    assert not pair.running.failures


def test_spark_runs_on_as_it_began(pair: Process) -> None:
    """Given another share of a core for a lane / then that is told, and nothing goes by it."""
    services = dict(pair.services)
    changes = pair.running.change_to(config_of("one", "two", spark={"task_cpus": 1}))
    assert changes.lines() == [
        "spark.task_cpus 0.5 → 1 (takes effect when the process is started again)"
    ]
    assert pair.services == services


def test_remarks_stand_in_the_status_of_their_link(pair: Process) -> None:
    one, two = (driven.wanted for driven in pair.running.driven)
    pair.running.remark({LinkName("two"): NotInForce(("held back",))})
    assert (one.not_in_force.lines, two.not_in_force.lines) == ((), ("held back",))
    assert (one.report()["held"], two.report()["held"]) == (0, 1)
    pair.running.remark({LinkName("two"): NotInForce(("refused",), is_refused=True)})
    assert two.report() == {"live_ms": two.live_ms, "refused": True, "held": 0}
    pair.running.remark({})
    assert two.report() == {"live_ms": two.live_ms, "refused": False, "held": 0}
    assert two.live_ms > 0


def test_a_change_before_spark_has_started_is_what_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, ["one"])
    process.running.change_to(config_of("two"))
    process.running.start()
    eventually(lambda: process.runs("two"))
    assert process.services.keys() == {"two"}
    process.running.stop()
    process.running.change_to(config_of("two", "three"))
    assert process.services.keys() == {"two"}


def test_what_another_link_would_write_is_known_from_then_on(pair: Process) -> None:
    """Given a neighbour / when its selection changes / then others look at it anew."""
    one = pair.running.driven[0]
    before = one._neighbours
    pair.running.change_to(config_of("one", "two"))
    assert one._neighbours is before, "and else keeps what it has seen"
    pair.running.change_to(config_of("one", {"name": "two", "topics": {"include": ["t"]}}))
    assert one._neighbours is not before
    assert pair.services["one"].looks == 0
