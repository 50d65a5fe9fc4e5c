"""What becomes of JSON objects of which no schema is known: what is not named keeps its bytes."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.records.rows.header_steps import Origin


@dataclass(frozen=True, slots=True)
class JsonChanges:
    """Changes of fields of the outermost object, in this order."""

    masks: tuple[tuple[str, str | None], ...] = ()
    """(Field, what is put into it; None: an empty string, 0, false, or null)."""
    renames: tuple[tuple[str, str], ...] = ()
    """(Field, new name), all of them at once."""
    drops: tuple[str, ...] = ()
    """Fields that are left out, by their new names."""


@dataclass(frozen=True, slots=True)
class TimeChange:
    """How a time is written anew."""

    field: str
    """Empty: the whole value."""
    pattern: str
    """Of times that are text, see `heliostat.date_patterns`; empty: there are none."""
    unit_ns: int
    """Nanoseconds of what times that are numbers count."""
    is_text: bool
    """Whether it becomes text, or a number."""


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """Changes of a JSON object, in this order; `cut` between `headers` and `only`."""

    column: str = "value"
    """Where it is: `value` or `key`."""
    inserts: tuple[tuple[str, str], ...] = ()
    """(Field, text)."""
    places: tuple[tuple[str, Origin], ...] = ()
    """(Field, what of the record's place it gets)."""
    casts: tuple[tuple[str, str], ...] = ()
    """(Field or empty for the whole value, type)."""
    times: tuple[TimeChange, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """(Field, header that gets its content)."""
    cut: JsonChanges = JsonChanges()
    only: tuple[str, ...] = ()
    """The fields that are kept; empty: all."""
    flattens: str = ""
    key_fields: tuple[str, ...] = ()
    """Fields that become the key."""
    extracts: tuple[str, ...] = ()
    """Path to the field that becomes the whole value."""
    hoists: str = ""
    """Field of a new object that the whole value becomes."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that a record needs to have."""
        columns = [self.column]
        columns += ["timestamp"] if any(p is Origin.TIMESTAMP for _, p in self.places) else []
        columns += ["topic"] if any(p is Origin.TOPIC for _, p in self.places) else []
        columns += ["headers"] if self.headers else []
        return tuple(columns + (["key"] if self.key_fields else []))

    @property
    def writes(self) -> tuple[str, ...]:
        """Columns that it changes."""
        columns = ["headers"] if self.headers else []
        columns += ["key"] if self.key_fields else []
        is_read_only = self == ObjectChanges(
            self.column, headers=self.headers, key_fields=self.key_fields
        )
        return tuple(columns + ([] if is_read_only else [self.column]))
