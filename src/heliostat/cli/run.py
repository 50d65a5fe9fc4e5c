"""`heliostat run`."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import HALTED
from heliostat.cli.options import config_option, link_option, log_option
from heliostat.cli.stop_signal import STOP, ConfirmSignal, StopSignal
from heliostat.clock import SystemClock
from heliostat.config import read_config_file
from heliostat.config.changed_file import ChangedFile
from heliostat.errors import SparkUnavailable
from heliostat.ops.events import Subject
from heliostat.ops.service_manager import ServiceManager

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from heliostat.cli.live_screen import LiveScreen
    from heliostat.clock import Clock
    from heliostat.link.running import Running
    from heliostat.ops.events import Events
    from heliostat.serve.beside import ServeBeside
    from heliostat.status.values import LinkStatus

VIEW_EVERY_S = 1.0
LOG_EVERY_S = 10.0
WELL_EVERY_S = 600.0
"""Between two lines of a link that stays in sync."""


_parent_option = click.option(
    "--parent",
    type=int,
    hidden=True,
    metavar="PID",
    expose_value=False,
    callback=lambda _context, _option, parent: STOP.set_with(parent),
    help="Stop when the process that has started this one ends.",
)


@click.command("run")
@config_option
@link_option
@click.option("--plain", is_flag=True, help="Print lines instead of the live view.")
@click.option("--seconds", type=float, default=None, help="Stop after this many seconds.")
@log_option
@click.option("--no-serve", is_flag=True, help="Serve no page, API and metrics beside it.")
@_parent_option
def run_command(
    *,
    config_file: Path,
    link_name: str | None,
    plain: bool,
    seconds: float | None,
    log_form: str,
    no_serve: bool,
) -> None:
    r"""Run links until Ctrl-C: keep topics in sync and copy records.

    Shows a live view on a terminal and prints lines otherwise. Stops gracefully on Ctrl-C and
    SIGTERM. If it is killed, the next start continues where the target's logs end. `heliostat
    serve` runs beside it, at the address that the log's first line names (service.listen).

    A changed file takes effect once it has rested for two seconds, without a new start; what could
    end links or delete records waits for SIGHUP. An invalid file changes nothing.

    \b
    Examples:
      heliostat run -c heliostat.yaml
      heliostat run -c heliostat.yaml --link summit-to-usdf --plain
    """
    from heliostat.link.spark_start import SparkStart
    from heliostat.operate.links import known_links
    from heliostat.ops.events import Events, LogFormat

    clock = SystemClock()
    manager = ServiceManager(os.environ, clock)
    change = ChangedFile(config_file, clock)
    file = read_config_file(config_file)
    config = file.config  # links of the home come by themselves: a dead one delays nothing (I7)
    links = known_links(config, link_name)
    stop, confirm = STOP, ConfirmSignal(STOP)
    confirm.install()
    is_live = sys.stdout.isatty() and not plain
    events = Events(clock.wall_ms, None if is_live else sys.stderr, LogFormat(log_form))
    if stop.is_set.is_set():
        return
    starting = SparkStart(config, links, lambda text: events.warn(f"Spark: {text}"), events.info)
    from heliostat.link.followed_file import FollowedFile
    from heliostat.link.links_in_force import LinksInForce
    from heliostat.link.running import Running
    from heliostat.serve.beside import ServeBeside

    beside = None if no_serve else ServeBeside(config_file, link_name, events).start()
    tell = Halts(events, is_shown=is_live or log_form == LogFormat.TEXT.value).tell
    running = Running(config, links, events, clock, stop.is_set, starting=starting)
    users = LinksInForce(
        file, config, running, link_name, events=events, on_file=_begins_anew(beside)
    )
    followed = FollowedFile(change, config, link_name, users, events=events, confirm=confirm.is_set)
    followed.start()
    ends_at_s = clock.monotonic_s() + seconds if seconds is not None else float("inf")
    failure, headlines = None, None if is_live else Headlines(events, clock)
    try:
        with live_screen(running, stop, events, clock) if is_live else nullcontext():
            running.start()
            users.start()
            failure = follow(running, stop, headlines, ends_at_s, manager)
        if failure is not None:
            tell(f"halted: {failure}", failure)  # first: stopping may take a while
    finally:
        followed.stop()
        users.stop()
        running.stop()
        if beside is not None:
            beside.stop()
    exit_by(running, failure, tell)


def _begins_anew(beside: ServeBeside | None) -> Callable[[], None]:
    """Return what has the service read the file again, if there is one."""
    return (lambda: None) if beside is None else beside.begin_anew


def exit_by(
    running: Running, failure: BaseException | None, tell: Callable[[str, BaseException], None]
) -> None:
    """Tell which links had halted before the last one, and exit with 3 if any has."""
    for name, error in running.failures.items():
        if error is not failure:
            tell(f"link {name} had halted: {error}", error)
    if failure is not None or running.failures:
        sys.exit(HALTED)


class Halts:
    """Tells why links have halted, on the terminal or in a log for programs.

    Parameters
    ----------
    events
        That log.
    is_shown
        Whether people read what is written on errors.
    """

    def __init__(self, events: Events, *, is_shown: bool) -> None:
        self._events = events
        self._is_shown = is_shown

    def tell(self, text: str, error: BaseException) -> None:
        """Tell it."""
        if self._is_shown:
            click.echo(text, err=True)
        else:
            self._events.warn(text, Subject(code=getattr(error, "code", "")))


def live_screen(running: Running, stop: StopSignal, events: Events, clock: Clock) -> LiveScreen:
    """Return the screen that shows links as they start and run; its key `q` stops them."""
    from heliostat.cli.live_screen import LiveScreen

    def directions() -> dict[str, str]:
        links = [kept.link for kept in running.kept]
        return {str(link.name): f"{link.source} → {link.target}" for link in links}

    return LiveScreen(directions, running.statuses, events, clock, stop.is_set.set)


class Headlines:
    """Writes a line of each link now and then; rarely while all is well.

    Parameters
    ----------
    events, clock
        Where they are written, and the time.
    """

    def __init__(self, events: Events, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._again_s: dict[str, float] = {}
        """When a link that stays in sync is told again (monotonic)."""

    def write(self, statuses: Sequence[LinkStatus]) -> None:
        """Write a line of each link that is not in sync, has just become so, or was long untold."""
        from heliostat.cli import view

        now_s = self._clock.monotonic_s()
        for status in statuses:
            if not status.is_in_sync():
                self._again_s.pop(status.link, None)
            elif now_s < self._again_s.get(status.link, 0.0):
                continue
            else:
                self._again_s[status.link] = now_s + WELL_EVERY_S
            self._events.info(view.plain_line(status), Subject(link=status.link))


def follow(
    running: Running,
    stop: StopSignal,
    headlines: Headlines | None,
    ends_at_s: float,
    manager: ServiceManager,
) -> BaseException | None:
    """Wait until the links are to stop, or have halted; return why they halted, if they did.

    Parameters
    ----------
    running
        The links.
    stop
        Signal to stop.
    headlines
        Writes lines of the links; None: a screen shows them.
    ends_at_s
        When to stop, in seconds of the monotonic clock.
    manager
        Is told that the links have begun, how they are, and that they end.
    """
    clock = SystemClock()
    failure: BaseException | None = None
    next_line_s = clock.monotonic_s() + VIEW_EVERY_S * 3
    manager.ready()
    while not stop.is_set.is_set() and clock.monotonic_s() < ends_at_s and failure is None:
        failure = running.wait(VIEW_EVERY_S / 4)
        if headlines is not None and clock.monotonic_s() >= next_line_s:
            next_line_s += LOG_EVERY_S
            headlines.write(running.statuses())
        manager.alive(lambda: status_line(running.statuses()))
    manager.stopping()
    if stop.is_set.is_set() and isinstance(failure, SparkUnavailable):
        return None  # who ends us may end Spark's JVM as well
    return failure


def status_line(statuses: Sequence[LinkStatus]) -> str:
    """Return one line about all links, for `systemctl status`."""
    from heliostat.cli import view

    return "; ".join(view.plain_line(status) for status in statuses) or "no link has begun"
