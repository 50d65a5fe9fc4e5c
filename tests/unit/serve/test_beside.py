"""The service beside a driver: started again when it dies, failures told once, ended with us."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.exceptions import HTTPException

from heliostat.errors import Refused
from heliostat.ops.events import Events
from heliostat.serve import beside
from heliostat.serve.beside import ServeBeside
from heliostat.serve.listener import bound
from heliostat.serve.under_way import UnderWay

WITHIN_S = 10.0
SERVES = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever began the tests\n"
SERVES += "print('serving at http://here/', flush=True); import time; time.sleep(60)"
TELLS = (
    "import sys; print('2026-01-02T03:04:05Z WARN InfluxDB is away', file=sys.stderr, flush=True); "
    + SERVES
)
BUSY = """
import pathlib, signal, sys, time
path = pathlib.Path(sys.argv[3])
signal.signal(signal.SIGHUP, lambda *_: path.with_suffix(".asked").touch())
print('serving at http://here/', flush=True)
while not path.with_suffix(".idle").exists(): time.sleep(0.01)
"""
REFUSED = "import sys; sys.exit('it is taken')"
Made = Callable[[str], tuple[ServeBeside, Events]]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Made]:
    """Makes one that runs a script in place of the service."""
    monkeypatch.setattr(beside, "AGAIN_S", 0.05)
    monkeypatch.setattr(beside, "AGAIN_MAX_S", 0.1)
    started: list[ServeBeside] = []

    def make(script: str) -> tuple[ServeBeside, Events]:
        events = Events(lambda: 0, None)
        command = (sys.executable, "-c", script)
        started.append(ServeBeside(tmp_path / "c.yaml", None, events, command).start())
        return started[-1], events

    yield make
    for each in started:
        each.stop()


def wait_for(what: Callable[[], object]) -> None:
    until_s = time.monotonic() + WITHIN_S
    while not what():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_one_that_dies_is_started_again(made: Made) -> None:
    service, events = made(SERVES)
    wait_for(lambda: service.url)
    assert service.url == "http://here/"
    first = service.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: service.pid not in (None, first) and service.url)
    lines = "\n".join(events.recent(9))
    assert lines.count("INFO watch it at http://here/") == 2
    assert lines.count("WARN nothing is served for now") == 1


def test_what_is_tried_again_and_again_is_told_once(made: Made) -> None:
    service, events = made(REFUSED)
    pids: set[int | None] = set()

    def more() -> bool:
        pids.add(service.pid)
        return len(pids) > 4

    wait_for(more)
    (line,) = events.recent(9)
    assert line.endswith("WARN nothing is served for now: it is taken")


def test_it_ends_with_its_driver(made: Made) -> None:
    service, events = made(SERVES)
    wait_for(lambda: service.url)
    pid = service.pid
    service.stop()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert "WARN" not in "\n".join(events.recent(9))


def test_a_taken_address_is_refused_with_what_to_do() -> None:
    with bound("127.0.0.1:0") as first, pytest.raises(Refused, match=r"service\.listen"):
        bound(f"127.0.0.1:{first.getsockname()[1]}")


def test_what_the_service_tells_stands_in_the_log_of_the_driver(made: Made) -> None:
    service, events = made(TELLS)
    wait_for(lambda: service.url)
    wait_for(lambda: any("WARN service: InfluxDB is away" in line for line in events.recent(9)))


def test_one_that_is_to_begin_anew_does_so_at_once(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given long pauses / when the configuration has changed / then another one serves at once."""
    monkeypatch.setattr(beside, "AGAIN_S", 2 * WITHIN_S)
    service, events = made(SERVES)
    wait_for(lambda: service.url)
    first = service.pid
    service.begin_anew()
    wait_for(lambda: service.pid not in (None, first) and service.url)
    assert "WARN" not in "\n".join(events.recent(9))


def test_one_that_is_busy_begins_anew_once_it_is_not(made: Made, tmp_path: Path) -> None:
    """Given a service with a job / when the file has changed / then it may end the job first."""
    service, events = made(BUSY)
    wait_for(lambda: service.url)
    first = service.pid
    service.begin_anew()
    wait_for((tmp_path / "c.asked").exists)
    assert service.pid == first
    (tmp_path / "c.idle").touch()
    wait_for(lambda: service.pid not in (None, first))
    assert "WARN" not in "\n".join(events.recent(9))


def test_nothing_is_under_way_when_a_service_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a job / when the service is to begin anew / then the job ends first, and none begins

    between its end and that of the service.
    """
    under_way, told = UnderWay(), list[str]()
    work = under_way.begin(lambda: SimpleNamespace(is_over=False))
    further = under_way.begin(lambda: SimpleNamespace(is_over=True))
    assert further.is_over

    def end(_: float) -> None:
        assert under_way.begin(lambda: SimpleNamespace(is_over=True)), "it serves on meanwhile"
        work.is_over = True

    monkeypatch.setattr("heliostat.serve.under_way.time.sleep", end)
    under_way.close_once_idle(told.append)
    assert (len(told), work.is_over) == (1, True)
    with pytest.raises(HTTPException, match="begins anew"):
        under_way.begin(lambda: SimpleNamespace(is_over=True))
