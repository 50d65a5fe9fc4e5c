"""What the live view shows on a screen of some width and height, and what its keys change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.table import Table
from rich.text import Text

from heliostat.cli import view
from heliostat.ops.shown import size_text
from heliostat.status.order import ORDERS, matching, ordered
from heliostat.status.values import LinkStatus, TopicStatus

EVENT_SHARE = 3
"""Events fill at most this part of the screen: a third."""
EVENTS_AT_LEAST = 3
WIDE = 100
"""From so many columns on there is room for the partitions of a topic."""
NAME_COLUMNS_MIN = 12
CATCHING_UP_S = 5.0
"""A link whose lag is younger has caught up."""
KEYS = "q stop  s sort  / filter  ↑↓ scroll  ? keys"
HELP = """\
q        stop the links, gracefully, as Ctrl-C does
s        sort by lag (what is in trouble first), rate, name
/        show only topics that match: text, or a regular expression; Enter keeps it, Esc clears it
↑ ↓ j k  scroll by a row; PgUp, PgDn by ten; g to the first
?        these keys"""


@dataclass
class ViewState:
    """What the person at the screen has chosen."""

    order: str = "rate"
    """One of `ORDERS`."""
    pattern: str = ""
    is_typing: bool = False
    first_row: int = 0
    shows_help: bool = False
    wants_stop: bool = False

    def press(self, key: str) -> None:
        """Do what a key says."""
        if self.is_typing:
            self._type(key)
            return
        match key:
            case "q":
                self.wants_stop = True
            case "s":
                orders = list(ORDERS)
                self.order = orders[(orders.index(self.order) + 1) % len(orders)]
                self.first_row = 0
            case "/":
                self.is_typing, self.pattern, self.first_row = True, "", 0
            case "?":
                self.shows_help = not self.shows_help
            case "esc":
                self.pattern, self.shows_help = "", False
            case "g":
                self.first_row = 0
            case "down" | "j" | "up" | "k" | "page down" | "page up":
                rows = 10 if key.startswith("page") else 1
                down = key in ("down", "j", "page down")
                self.first_row = max(0, self.first_row + (rows if down else -rows))
            case _:
                pass

    def _type(self, key: str) -> None:
        if key == "enter":
            self.is_typing = False
        elif key == "esc":
            self.is_typing, self.pattern = False, ""
        elif key == "backspace":
            self.pattern = self.pattern[:-1]
        elif len(key) == 1 and key.isprintable():
            self.pattern += key

    def chosen(self, topics: Sequence[TopicStatus]) -> list[TopicStatus]:
        """Return the topics that match, sorted."""
        return ordered(matching(topics, self.pattern), self.order)

    def footer(self, now_ms: int, columns: int) -> Text:
        """Return the last line: keys on the left, the clock on the right."""
        if self.is_typing:
            left = f"/{self.pattern}▏ Enter keeps it, Esc clears it"
        else:
            left = f"{KEYS}  by {self.order}" + (f"  /{self.pattern}" if self.pattern else "")
        clock = f"{datetime.fromtimestamp(now_ms / 1000, tz=UTC):%H:%M:%S} UTC"
        gap = max(1, columns - cell_len(left) - cell_len(clock))
        text = Text(left + " " * gap + clock, style="reverse", no_wrap=True, overflow="crop")
        text.truncate(columns)
        return text


@dataclass(frozen=True)
class Scene:
    """What is to be shown at one moment."""

    statuses: Sequence[LinkStatus]
    directions: Mapping[str, str]
    """`summit → usdf`, by the link's name."""
    level_in_s: Mapping[str, float | None]
    """Seconds until a link is level, by its name, while it catches up."""
    events: Sequence[str]
    now_ms: int
    beginning: str = ""
    """What is waited for before the first link begins; empty afterwards."""


def screen(scene: Scene, state: ViewState, columns: int, lines: int) -> RenderableType:
    """Return what fills a screen of this size."""
    footer = state.footer(scene.now_ms, columns)
    if state.shows_help:
        return _with_footer([Text(HELP)], footer)
    heads: list[list[Text]] = [
        _fitted([*head(status, scene, columns), *_problems(status)], columns)
        for status in scene.statuses
    ]
    if scene.beginning:
        heads.insert(0, [Text(scene.beginning, style="cyan")])
    used = sum(len(part) for part in heads) + 1
    room = max(0, lines - used)
    events = _events(scene.events, columns, max(EVENTS_AT_LEAST, lines // EVENT_SHARE))
    tables = len(scene.statuses)
    least = tables * 3  # a heading, one topic, and how many more there are
    events = events[max(0, len(events) - max(0, room - least)) :] if room > least else []
    rows = (room - len(events)) // tables - 1 if tables else 0
    parts: list[RenderableType] = []
    for part, status in zip(heads[-tables:] if tables else [], scene.statuses, strict=True):
        parts += part
        if rows > 0:
            parts.append(topic_rows(status, state, rows, columns))
    if scene.beginning:
        parts.insert(0, heads[0][0])
    return _with_footer([*parts, *events], footer)


def head(status: LinkStatus, scene: Scene, columns: int) -> list[Text]:
    """Return how a link is in two lines; what is least needed goes where there is no room."""
    level_in_s = scene.level_in_s.get(status.link)
    is_late = level_in_s is not None and (status.lag_s or 0.0) > CATCHING_UP_S
    host = status.owner.get("host")
    phrases = [
        Text(f"{view.count(status.records_per_s)} rec/s  {size_text(status.bytes_per_s)}/s"),
        Text(f"lag {view.lag_words(status)} rec, {view.age_words(status)}"),
        Text(f"level in ≈ {view.seconds(level_in_s)}" if is_late else "", style="cyan"),
        Text(scene.directions.get(status.link, ""), style="dim"),
        Text(
            f"p50 {view.milliseconds(status.latency_p50_ms)}"
            f" p99 {view.milliseconds(status.latency_p99_ms)}"
        ),
        Text(f"{len(status.topics)} topics, {status.partitions} partitions"),
        Text(f"owner {host}" if host else ""),
        Text(view.line_words(status), style="dim"),
        Text(view.more_words(status).strip(" ,")),
    ]
    rows = [
        Text.assemble((f"{status.link} ", "bold"), (status.state, view.colour(status))),
        Text(" "),
    ]
    row = 0
    for phrase in filter(None, phrases):
        if row == 0 and rows[0].cell_len + 2 + phrase.cell_len > columns:
            row = 1
        if rows[row].cell_len + 2 + phrase.cell_len <= columns:
            rows[row].append("  " if row == 0 or rows[1].cell_len > 1 else " ").append(phrase)
    return rows if rows[1].plain.strip() else rows[:1]


def topic_rows(status: LinkStatus, state: ViewState, rows: int, columns: int) -> Table:
    """Return a table of `rows` lines below its heading; numbers stand beside the names."""
    topics = state.chosen(status.topics)
    table = Table(box=None, pad_edge=False, header_style="bold dim", padding=(0, 2, 0, 0))
    is_wide = columns >= WIDE
    titles = ["part."] if is_wide else []
    titles += ["rec/s", "bytes/s", "lag rec", "lag s"]
    table.add_column("topic", no_wrap=True, overflow="ellipsis", min_width=NAME_COLUMNS_MIN)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    table.add_column("states", no_wrap=True, overflow="ellipsis")
    first = min(state.first_row, max(0, len(topics) - rows))
    rest = len(topics) - first - rows
    shown = topics[first : first + rows - (1 if rest > 0 else 0)]
    for topic in shown:
        table.add_row(*_of_width(view.cells(topic), is_wide=is_wide))
    if rest > 0:
        others = view.together(topics[first + len(shown) :])
        table.add_row(*_of_width(view.cells(others), is_wide=is_wide), style="dim")
    if not topics:
        empty = "no topic matches" if state.pattern else "no topics yet"
        table.add_row(Text(empty, style="dim"))
    return table


def _of_width(cells: Sequence[RenderableType], *, is_wide: bool) -> Sequence[RenderableType]:
    """Leave out the number of partitions where there is no room."""
    return cells if is_wide else [cells[0], *cells[2:]]


def _problems(status: LinkStatus) -> list[Text]:
    return [line for line in view.problem_lines(status) if isinstance(line, Text)]


def _fitted(lines: Sequence[Text], columns: int) -> list[Text]:
    for line in lines:
        line.no_wrap = True
        line.truncate(columns, overflow="ellipsis")
    return list(lines)


def _events(lines: Sequence[str], columns: int, most: int) -> list[Text]:
    """Return the last events, wrapped with a hanging indent, of at most `most` lines."""
    wrapped: list[Text] = []
    width = Console(width=columns, file=None)
    for line in reversed(lines):
        text = Text(line, style="yellow" if " WARN " in line else "dim")
        parts = text.wrap(width, max(20, columns - 2))
        block = [part if not index else Text("  ").append(part) for index, part in enumerate(parts)]
        if len(wrapped) + len(block) > most:
            break
        wrapped[:0] = block
    return wrapped


def _with_footer(parts: Sequence[RenderableType], footer: Text) -> RenderableType:
    """Return the parts from the top, and the footer in the last line."""
    layout = Layout()
    layout.split_column(Layout(Group(*parts)), Layout(footer, size=1))
    return layout
