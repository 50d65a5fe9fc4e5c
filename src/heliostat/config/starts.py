"""Where a link's new mirrors begin."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag

from heliostat.config.frozen import Frozen
from heliostat.config.security import FilePath


def _as_milliseconds(value: object) -> object:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("neither a time such as 2026-11-01T00:00:00Z nor ms") from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs its zone, such as a final Z")
        return round(value.timestamp() * 1000)
    return value


class StartAt(Frozen):
    """Start at a time."""

    timestamp: Annotated[
        int,
        BeforeValidator(_as_milliseconds, json_schema_input_type=int | datetime),
        Field(title="Time", ge=0),
    ]
    """A time such as `2026-11-01T00:00:00Z`, or milliseconds since the epoch."""


class StartAtGroup(Frozen):
    """Start where a consumer group stands."""

    group: Annotated[str, Field(title="Consumer group", min_length=1)]
    """A consumer group of the source cluster; a partition without a committed offset of it begins
    at its beginning."""


class StartAtOffsets(Frozen):
    """Start at listed offsets."""

    offsets: Annotated[FilePath, Field(title="File of offsets")]
    """A file with an offset for each partition: CSV as of `kafka-consumer-groups --export`, JSON as
    of Connect's `/connectors/NAME/offsets`, or a map of topics in JSON or YAML. It is read when a
    new mirror is planned; a partition that it does not list begins at its beginning."""


def _start_kind(value: Any) -> str | None:
    if isinstance(value, StartAt) or (isinstance(value, dict) and "timestamp" in value):
        return ":timestamp"
    for kind, key in ((StartAtGroup, "group"), (StartAtOffsets, "offsets")):
        if isinstance(value, kind) or (isinstance(value, dict) and key in value):
            return f":{key}"
    return ":word" if value in ("earliest", "latest") else None


Start: TypeAlias = Annotated[
    Annotated[Literal["earliest", "latest"], Tag(":word")]
    | Annotated[StartAt, Tag(":timestamp")]
    | Annotated[StartAtGroup, Tag(":group")]
    | Annotated[StartAtOffsets, Tag(":offsets")],
    Discriminator(
        _start_kind,
        custom_error_type="start",
        custom_error_message="must be earliest, latest, {timestamp: ...}, {group: ...} or "
        "{offsets: /path}",
    ),
]
