"""`heliostat history`: throughput, lag, latency and events of the last day."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from typing_extensions import override

from heliostat.cli.completion import link_names
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option
from heliostat.ops.shown import time_text

if TYPE_CHECKING:
    from heliostat.operate.history import Past
    from heliostat.status.history import Point

BARS = "▁▂▃▄▅▆▇█"
ROWS = 24
"""About how many lines a table has, unless `--step` says otherwise."""
STEPS_S = (5, 60, 300, 600, 900, 1_800, 3_600)
UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
DAY_S = 86_400


class Duration(click.ParamType[int]):
    """A time as `90s`, `15m`, `6h` or `1d`."""

    name = "duration"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return it in seconds."""
        if isinstance(value, int):
            return value
        given = re.fullmatch(r"(\d{1,6})([smhd])", str(value).strip())
        seconds = 0 if given is None else int(given[1]) * UNITS_S[given[2]]
        if not 0 < seconds <= DAY_S:
            self.fail(f"{value!r} is no time up to a day, as 15m or 6h", param, ctx)
        return seconds


@click.command("history")
@click.argument("link", shell_complete=link_names)
@click.option("--topic", metavar="NAME", help="Of this topic, by its name at the source.")
@click.option(
    "--since", "since_s", type=Duration(), default="6h", show_default=True, help="How far back."
)
@click.option(
    "--step",
    "step_s",
    type=Duration(),
    help="Time from one line to the next; by default as many as fit a screen.",
)
@config_option
@json_option
def history_command(
    link: str,
    topic: str | None,
    since_s: int,
    step_s: int | None,
    config_file: Path,
    *,
    as_json: bool,
) -> None:
    r"""Show throughput, lag, latency and events of a LINK over the last day.

    The link's driver writes them to the target, so they are there after a restart of anything,
    and on any machine. Rates are means, lags and latencies the worst of their time; of topics that
    are neither busy nor late there is a point each ten minutes.

    \b
    Examples:
      heliostat history summit-to-usdf
      heliostat history summit-to-usdf --since 15m --step 5s
      heliostat history summit-to-usdf --topic lsst.sal.ESS.temperature --since 1d --json
    """
    from heliostat.operate.history import past_of

    if step_s is None and not as_json:
        step_s = next((step for step in STEPS_S if since_s / step <= ROWS), STEPS_S[-1])
        step_s = max(step_s, 60 if topic is not None else 0)
    past = past_of(known_config(config_file, link), link, topic, since_s, step_s)
    if as_json:
        click.echo(json.dumps(past.to_json(), indent=2))
        return
    for line in history_lines(past):
        click.echo(line)


def history_lines(past: Past) -> Iterator[str]:
    """Yield figures over time as a table, with a line of bars for each."""
    points = past.points
    if not points:
        yield f"Nothing is kept of {past.topic or past.link} in that time."
    else:
        for name, column in (
            ("records/s", [point.records_per_s for point in points]),
            ("missing", [point.lag_records for point in points]),
            ("p99 ms", [point.latency_p99_ms for point in points]),
        ):
            most = max((value for value in column if value is not None), default=0)
            yield f"{name:>10}  {bars(column)}  up to {most:,.0f}"
        yield ""
        yield _row("time", "records/s", "KB/s", "missing", "oldest s", "p50 ms", "p99 ms", "state")
        for point in points:
            yield _point_row(point)
    for event in past.events[-ROWS:]:
        yield f"{time_text(event.at_ms)} {event.level} {event.text}"
    for note in past.notes:
        yield f"note: {note}"


def bars(column: Sequence[float | None]) -> str:
    """Return a column as bars; what is not known as a blank."""
    most = max((value for value in column if value is not None), default=0) or 1
    return "".join(
        " " if value is None else BARS[min(len(BARS) - 1, round(value / most * (len(BARS) - 1)))]
        for value in column
    )


def _point_row(point: Point) -> str:
    is_nothing = point.state == "unknown" and point.lag_records is None
    return _row(
        time_text(point.at_ms),
        "" if is_nothing else f"{point.records_per_s:,.1f}",
        "" if is_nothing else f"{point.bytes_per_s / 1000:,.1f}",
        _text(point.lag_records, ",d"),
        _text(point.lag_s, ",.1f"),
        _text(point.latency_p50_ms, ",.0f"),
        _text(point.latency_p99_ms, ",.0f"),
        "nobody drove it" if is_nothing else point.state,
    )


def _row(time: str, *columns: str) -> str:
    *figures, state = columns
    return f"{time:<20} " + " ".join(f"{text:>11}" for text in figures) + f"  {state}"


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
