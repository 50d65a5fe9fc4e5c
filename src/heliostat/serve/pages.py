"""Lists in pages: filter, order, a cursor that names the last row, chosen fields; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields as fields_of
from typing import Annotated, Any, TypeAlias, TypeVar

from fastapi import Query

from heliostat.clock import Clock
from heliostat.status.order import chosen, ordered
from heliostat.status.values import PartitionStatus, TopicStatus

LIMIT = 200
LIMIT_MAX = 5_000
T = TypeVar("T")
After: TypeAlias = Annotated[
    str, Query(description="The `next` of the page before.", max_length=1000)
]
Limit: TypeAlias = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
PARTITION_MAX = (1 << 31) - 1
OFFSET_MAX = (1 << 63) - 1
TOPIC_FIELDS = tuple(field.name for field in fields_of(TopicStatus))


def rows_page(
    rows: Sequence[T], key: Callable[[T], str], after: str, limit: int
) -> tuple[Sequence[T], str | None]:
    """Return the rows after the one with that key, and the key of the last; None: no more follow.

    A row that is gone begins anew, as no key at all does.
    """
    begin = next((i + 1 for i, row in enumerate(rows) if key(row) == after), 0) if after else 0
    page = rows[begin : begin + limit]
    is_last = begin + limit >= len(rows)
    return page, None if is_last or not page else key(page[-1])


def topics_page(
    topics: Iterable[TopicStatus],
    *,
    patterns: Sequence[str] = (),
    states: Sequence[str] = (),
    order: str = "lag",
    after: str = "",
    limit: int = LIMIT,
    fields: Sequence[str] = (),
) -> tuple[list[dict[str, Any]], str | None]:
    """Return rows of topics, and the cursor of the next page; None: there is none.

    Parameters
    ----------
    patterns
        Wildcards of names at either side; none: all.
    states
        Only topics with a partition in one of these; none: all.
    order
        One of `heliostat.status.order.ORDERS`.
    after
        Cursor: the source name of the last row of the page before. A topic that is gone begins
        anew.
    fields
        Only these; none: all.
    """
    rows = ordered(chosen(list(topics), patterns), order)
    if states:
        rows = [row for row in rows if any(state in row.states for state in states)]
    page, following = rows_page(rows, lambda row: row.source, after, limit)
    wanted = [name for name in fields if name in TOPIC_FIELDS] if fields else TOPIC_FIELDS
    return [_topic_row(row, wanted) for row in page], following


def _topic_row(topic: TopicStatus, names: Iterable[str]) -> dict[str, Any]:
    """Return these fields; `asdict` copies what is in them, which thousands of topics feel."""
    row = {name: getattr(topic, name) for name in names}
    if "would_be_lost" in row:
        row["would_be_lost"] = topic.would_be_lost.to_json()
    return row


def field_of(partitions: Sequence[PartitionStatus], clock: Clock) -> dict[str, Any]:
    """Return partitions as rows of numbers, which name topics and states by their places."""
    topics = {name: place for place, name in enumerate(dict.fromkeys(p.source for p in partitions))}
    states = {name: place for place, name in enumerate(dict.fromkeys(p.state for p in partitions))}
    rows = [
        [
            topics[partition.source],
            partition.partition,
            states[partition.state],
            partition.records_per_s,
            partition.lag_records,
            partition.lag_s,
            partition.position,
        ]
        for partition in partitions
    ]
    return {
        "topics": list(topics),
        "states": list(states),
        "rows": rows,
        "as_of_ms": clock.wall_ms(),
    }
