"""Steps of a pipeline about headers and tombstones alone: values, for those who never run them.

`in_place` does them on batches' bytes, `records.spark.in_place_sql` says them in Spark SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Origin(IntEnum):
    """What of a record's place at the source a header may say."""

    CLUSTER = 0
    """Id of the cluster."""
    TOPIC = 1
    PARTITION = 2
    OFFSET = 3
    TIMESTAMP = 4
    """Milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class HasHeader:
    """Keeps records that have a header of this name, or those that have not."""

    name: str
    is_kept: bool


@dataclass(frozen=True, slots=True)
class HasValue:
    """Keeps records that have a value."""


@dataclass(frozen=True, slots=True)
class DropHeaders:
    """Leaves headers of these names out."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameHeaders:
    """Gives headers other names, all of them at once."""

    names: tuple[tuple[str, str], ...]
    """(Old, new); of equal old names the first one counts."""


@dataclass(frozen=True, slots=True)
class InsertHeaders:
    """Adds headers behind the others."""

    headers: tuple[tuple[str, str], ...]
    """(Name, text)."""


@dataclass(frozen=True, slots=True)
class InsertOrigin:
    """Adds headers behind the others that say where a record comes from, as text in UTF-8."""

    headers: tuple[tuple[str, Origin], ...]
    """(Name, what it says)."""
    cluster: str = ""
    """Id of the source cluster; empty: it is not known yet."""


InPlaceStep = HasHeader | HasValue | DropHeaders | RenameHeaders | InsertHeaders | InsertOrigin
