"""What a step of a pipeline changes in the fields of decoded records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """Changes of fields of records that are keys or values; in this order.

    Expressions name the decoded record's fields as `fields.name`. Null stays null; what is no such
    record fails.
    """

    column: str
    where: str = ""
    """Keeps records for which it is true; empty: all."""
    columns: tuple[tuple[str, str], ...] = ()
    """(Field, expression), in order."""
    casts: tuple[tuple[str, str], ...] = ()
    """(Field, type of Spark)."""
    masks: tuple[tuple[str, str | None], ...] = ()
    """(Field, what is put into it; None: nothing, an empty string or 0)."""
    renames: tuple[tuple[str, str], ...] = ()
    """(Field, new name)."""
    drops: tuple[str, ...] = ()
    header_fields: tuple[tuple[str, str], ...] = ()
    """(Field, header that gets its content), as they were before they are masked or dropped."""
    flattens: str = ""
    """What joins the names of nested fields to one; empty: they stay nested."""
    key_fields: tuple[str, ...] = ()
    """Fields of the value that become the record's key, as a JSON object."""
    extracts: tuple[str, ...] = ()
    """Path to the field that becomes the whole content; empty: it stays an object."""
    hoists: str = ""
    """Field of a new object that the whole content becomes; empty: it becomes none."""
