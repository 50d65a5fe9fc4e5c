"""The status of links as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from heliostat.groups.values import SETTLED
from heliostat.ops.shown import size_text
from heliostat.status.lag import Lag, summed
from heliostat.status.loss import summed_losses
from heliostat.status.values import LinkStatus, TopicStatus
from heliostat.wishes.rate import rate_text

PROBLEM_ROWS = 6
GROUP_ROWS = 3
SETTLED_NAMES = frozenset(reason.name for reason in SETTLED)
STATE_COLOURS = {
    "running": "green",
    "copying": "green",
    "aligning": "cyan",
    "starting": "cyan",
    "retrying": "yellow",
    "paused": "magenta",
    "stopped": "magenta",
    "halted": "red",
    "no_owner": "red",
    "silent": "red",
    "unreachable": "red",
    "blocked": "red",
    "gap": "red",
    "diverged": "red",
}


def headline(status: LinkStatus) -> Text:
    """Return link, state, rates, lag and latency in one line."""
    text = Text.assemble(
        (f"{status.link} ", "bold"),
        (status.state, colour(status)),
        f"  {count(status.records_per_s)} rec/s  {size_text(status.bytes_per_s)}/s",
        f"  lag {lag_words(status)} rec, {age_words(status)}",
        f"  latency p50 {milliseconds(status.latency_p50_ms)}"
        f" p99 {milliseconds(status.latency_p99_ms)}",
        f"  {len(status.topics)} topics, {status.partitions} partitions, {len(status.lanes)} lanes",
    )
    text.append(f"  {words}" if (words := line_words(status)) else "")
    if status.owner:
        text.append(f"  on {status.owner['host']}")
    text.append(more_words(status))
    text.no_wrap = True
    return text


def line_words(status: LinkStatus) -> str:
    """Return round trip and bytes on the line of each side, as far as known."""
    sides = (("source", status.source_line), ("target", status.target_line))
    return "; ".join(
        f"{side} {milliseconds(line.round_trip_ms)} away, "
        f"{size_text(line.in_flight_bytes)} on the line"
        for side, line in sides
        if line is not None
    )


def more_words(status: LinkStatus) -> str:
    """Return what only some links have: maps, open transactions, heartbeats, groups, schemas."""
    words = f", {count(status.mapped)} mapped" if status.mapped else ""
    if status.paused_count:
        words += f", {count(status.paused_count)} paused by name"
    if status.drift and status.drift["count"]:
        words += f", {count(status.drift['mirrors'])} mirrors differ from what is wanted"
    words += _level_words(status)
    if status.wish and status.state == status.wish["state"]:
        why = f" ({status.wish['why']})" if status.wish["why"] else ""
        words += f"  as {status.wish['by']} wishes{why}"
    words += waiting_words(status)
    if status.state == "running" and status.restarts and status.restarts["count"]:
        words += f"  began again {status.restarts['count']} times, after {last_halt(status)}"
    if status.open_records:
        words += f"  {count(status.open_records)} rec in open transactions"
    if status.heartbeat_age_s is not None:
        words += f"  heartbeat {seconds(status.heartbeat_age_s)} old"
    if status.driver.get("groups"):
        words += f"  {_groups(status.driver['groups'])}"
    if status.driver.get("schemas"):
        words += f"  {_schemas(status.driver['schemas'])}"
    return words


def waiting_words(status: LinkStatus) -> str:
    """Return what is wished of a link that no driver runs, and why it waits."""
    if not status.wish_waits:
        return ""
    wish = status.wish
    why = f" ({wish['why']})" if wish and wish["why"] else ""
    what = f"{wish['state']}, as {wish['by']} wishes{why}," if wish else "what is wished"
    return f"  {what} waits: {status.wish_waits}"


def last_halt(status: LinkStatus) -> str:
    """Return why the link halted last, in a word."""
    return (status.restarts or {}).get("code") or "a failure"


def _level_words(status: LinkStatus) -> str:
    """Return how the link is limited, and how many topics are limited or preferred."""
    words = "".join(
        f", limited to {rate_text(limit['bytes_per_second'])}"
        for limit in status.limits
        if limit["topic"] is None
    )
    if topics := sum(limit["topic"] is not None for limit in status.limits):
        words += f", {count(topics)} {'topic' if topics == 1 else 'topics'} limited"
    if preferred := sum(preference["priority"] != "normal" for preference in status.preferences):
        words += f", {count(preferred)} {'priority' if preferred == 1 else 'priorities'}"
    return words


def colour(status: LinkStatus) -> str:
    """Return the colour of a link's state: one that runs and is in trouble is not green."""
    is_well = status.state != "running" or not (status.troubles or status.problems)
    return STATE_COLOURS.get(status.state, "white") if is_well else "yellow"


def lag_words(row: LinkStatus | TopicStatus) -> str:
    """Return the lag in records: a question mark if it is not known, or so many at least."""
    if row.lag_records is None:
        return "?"
    return ("≥ " if row.unknown else "") + count(row.lag_records)


def age_words(row: LinkStatus | TopicStatus) -> str:
    """Return the age of the oldest missing record, like the lag in records."""
    if row.lag_s is None:
        return "?"
    return ("≥ " if row.unknown else "") + seconds(row.lag_s)


def sync_lines(status: LinkStatus, max_lag_s: float) -> Text:
    """Return whether the link is in sync, or why it is not."""
    why = status.why_not_in_sync(max_lag_s)
    if not why:
        return Text(f"in sync: at most {seconds(max_lag_s)} behind", style="green")
    return Text("\n".join(f"not in sync: {cause}" for cause in why), style="red")


def _groups(figures: Mapping[str, Any]) -> str:
    """Return the number of groups that are synced, and of offsets that are not in sync."""
    waiting = sum(
        number for reason, number in figures["reasons"].items() if reason not in SETTLED_NAMES
    )
    held = f" ({count(waiting)} offsets not in sync)" if waiting else ""
    return f"{count(figures['groups'])} groups{held}"


def _schemas(figures: Mapping[str, Any]) -> str:
    """Return the number of schemas that can be read at the target, and of those that can't."""
    if "ids" not in figures:
        return "schemas not compared yet"
    missing = figures["unresolved_count"]
    held = f" ({count(missing)} versions not mirrored)" if missing else ""
    return f"{count(figures['ids'])} schemas{held}"


TITLES = ("topic", "part.", "rec/s", "bytes/s", "lag rec", "lag s", "states")


def topic_table(status: LinkStatus, rows: int) -> Table:
    """Return a table of the first topics, with all others in one row."""
    table = Table(expand=True, box=None, pad_edge=False, header_style="bold dim")
    table.add_column(TITLES[0], ratio=1, no_wrap=True, overflow="ellipsis")
    for title in TITLES[1:]:
        table.add_column(title, justify="right", no_wrap=True)
    for topic in status.topics[:rows]:
        table.add_row(*cells(topic))
    if rest := status.topics[rows:]:
        table.add_row(*cells(together(rest)), style="dim")
    return table


def topic_rows(status: LinkStatus, rows: int) -> list[list[str]]:
    """Return the same table as text, its titles first."""
    topics, rest = status.topics[:rows], status.topics[rows:]
    shown = [*topics, *([together(rest)] if rest else [])]
    return [list(TITLES), *([str(cell) for cell in cells(topic)] for topic in shown)]


def cells(topic: TopicStatus) -> list[RenderableType]:
    """Return the row of a topic."""
    name = topic.source if topic.source == topic.target else f"{topic.source} → {topic.target}"
    return [
        name,
        str(topic.partitions),
        count(topic.records_per_s),
        size_text(topic.bytes_per_s),
        lag_words(topic),
        age_words(topic),
        states(topic.states),
    ]


def together(topics: Sequence[TopicStatus]) -> TopicStatus:
    """Return topics as one row: its lag is known as far as theirs are."""
    lag = summed(Lag(topic.lag_records, topic.lag_s, topic.unknown) for topic in topics)
    name = f"… {len(topics)} more"
    return TopicStatus(
        name,
        name,
        sum(topic.partitions for topic in topics),
        sum(topic.records_per_s for topic in topics),
        sum(topic.bytes_per_s for topic in topics),
        lag.records,
        lag.age_s,
        _sum_states(topics),
        unknown=lag.unknown,
        would_be_lost=summed_losses(topic.would_be_lost for topic in topics),
    )


def _sum_states(topics: Sequence[TopicStatus]) -> dict[str, int]:
    total: dict[str, int] = {}
    for topic in topics:
        for state, number in topic.states.items():
            total[state] = total.get(state, 0) + number
    return total


def problem_lines(status: LinkStatus) -> list[RenderableType]:
    """Return what is not copied and why, gaps, notes and groups left alone."""
    lines = [*status.troubles, *(item.text() for item in status.held_back)]
    lines += [
        f"{item.source}-{item.partition} {item.state} [{item.code}] {item.reason}"
        for item in status.problems
    ]
    lines += [f"{name} refused: {reason}" for name, reason in sorted(status.refused.items())]
    if status.unfenced is not None:
        lines.insert(0, status.unfenced.text())
    shown: list[RenderableType] = [
        Text(line, style="red", no_wrap=True, overflow="ellipsis") for line in lines[:PROBLEM_ROWS]
    ]
    if lines[PROBLEM_ROWS:]:
        shown.append(Text(f"… {len(lines) - PROBLEM_ROWS} more problems", style="red"))
    gaps = status.driver.get("gaps", {})
    if gaps.get("rows"):
        shown.append(Text(gaps_words(gaps), style="yellow"))
    shown += [Text(f"note: {note}", style="dim") for note in status.notes[:PROBLEM_ROWS]]
    shown += [Text(text, style="dim") for text in order_texts(status)]
    missing = status.driver.get("schemas", {}).get("unresolved", {})
    shown += [
        Text(f"schema {name} not mirrored: {why}", style="yellow", overflow="ellipsis")
        for name, why in list(missing.items())[:PROBLEM_ROWS]
    ]
    left = status.driver.get("groups", {}).get("left_alone", {})
    shown += [
        Text(f"group {group}: {why}", style="dim") for group, why in list(left.items())[:GROUP_ROWS]
    ]
    return shown


def order_texts(status: LinkStatus) -> list[str]:
    """Return the last orders that are not done, and why."""
    orders = status.driver.get("wishes", {}).get("orders", ())
    return [
        f"{order.get('verb', 'restart')} of {order['place']}, ordered by {order['by']}: "
        + (order["text"] or ("is under way" if order["stage"] == "begun" else "waits"))
        for order in orders
        if order["stage"] != "done"
    ]


def gaps_words(gaps: Mapping[str, int]) -> str:
    """Return the totals of the gap ledger as text."""
    unknown = gaps.get("unknown", 0)
    words = f"gaps: {count(gaps['rows'])} recorded, {count(gaps.get('records_lost', 0))} records"
    words += " lost" + (f", and {count(unknown)} of unknown size" if unknown else "")
    kept = gaps.get("dead_letters", 0)
    words += f", {count(kept)} of them kept as dead letters" if kept else ""
    return f"{words} (heliostat gaps{', heliostat dlq' if kept else ''})"


def plain_line(status: LinkStatus) -> str:
    """Return the headline as plain text for a log."""
    return headline(status).plain


def states(counts: dict[str, int]) -> Text:
    """Return the number of partitions in each state."""
    parts = [
        (f"{number} {state}", STATE_COLOURS.get(state, "white"))
        for state, number in sorted(counts.items())
    ]
    text = Text()
    for index, (words, style) in enumerate(parts):
        text.append(", " if index else "")
        text.append(words, style=style)
    return text


def count(number: float) -> str:
    """Format a number with thousands separators; below 10 with one decimal if it has any."""
    is_small = 0 < number < 10 and number != int(number)
    return f"{number:,.1f}" if is_small else f"{number:,.0f}"


def seconds(number: float | None) -> str:
    """Format seconds; a dash if not known."""
    if number is None:
        return "-"
    return f"{number:.1f} s" if number < 120 else f"{number / 60:.0f} min"


def milliseconds(number: float | None) -> str:
    """Format milliseconds; a dash if nothing was copied recently."""
    if number is None:
        return "-"
    return f"{number:.0f} ms" if number < 10_000 else seconds(number / 1000)
