"""What systemd is told, through a socket of its kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sim.sim_clock import SimClock
from support.notify_socket import NotifySocket

from heliostat.ops.service_manager import ServiceManager

HALF_MINUTE_US = "30000000"


@pytest.fixture(params=["path", "abstract"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    is_path = request.param == "path"
    return {"NOTIFY_SOCKET": f"{tmp_path}/notify" if is_path else f"@heliostat-{os.getpid()}"}


def test_it_is_told_ready_alive_and_stopping(environment: dict[str, str]) -> None:
    end = NotifySocket(environment["NOTIFY_SOCKET"])
    clock = SimClock(0)
    manager = ServiceManager(
        environment | {"WATCHDOG_USEC": HALF_MINUTE_US, "WATCHDOG_PID": str(os.getpid())}, clock
    )

    manager.ready()
    manager.alive(lambda: "a-to-b running\n2 topics")
    manager.alive(lambda: pytest.fail("too early"))
    clock.sleep(5)
    manager.alive(lambda: "a-to-b in sync")
    manager.stopping()

    assert end.messages() == [
        "READY=1",
        "STATUS=a-to-b running 2 topics\nWATCHDOG=1",
        "STATUS=a-to-b in sync\nWATCHDOG=1",
        "STOPPING=1",
    ]
    end.close()


def test_a_short_watchdog_is_told_three_times_a_period(environment: dict[str, str]) -> None:
    end = NotifySocket(environment["NOTIFY_SOCKET"])
    clock = SimClock(0)
    manager = ServiceManager(environment | {"WATCHDOG_USEC": "6000000"}, clock)

    for _ in range(6):
        manager.alive(lambda: "well")
        clock.sleep(1)

    assert len(end.messages()) == 3
    end.close()


@pytest.mark.parametrize(
    "watchdog", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "1"}]
)
def test_a_watchdog_of_another_process_or_none_is_told_nothing(
    environment: dict[str, str], watchdog: dict[str, str]
) -> None:
    end = NotifySocket(environment["NOTIFY_SOCKET"])
    ServiceManager(environment | watchdog, SimClock(0)).alive(lambda: "well")

    assert end.messages() == ["STATUS=well"]
    end.close()


def test_its_variables_are_not_handed_on(environment: dict[str, str]) -> None:
    environment |= {"WATCHDOG_USEC": HALF_MINUTE_US, "WATCHDOG_PID": "1", "PATH": "/bin"}

    ServiceManager(environment, SimClock(0))

    assert environment == {"PATH": "/bin"}


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}])
def test_nobody_there_is_no_fault(environment: dict[str, str]) -> None:
    manager = ServiceManager(dict(environment), SimClock(0))

    manager.ready()
    manager.alive(lambda: "well")
    manager.stopping()
