"""What becomes of fields of JSON objects, whose other fields keep their bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JsonChanges:
    """Changes of fields of the outermost object, in this order."""

    masks: tuple[tuple[str, str | None], ...] = ()
    """(Field, what is put into it; None: an empty string, 0, false, or null)."""
    renames: tuple[tuple[str, str], ...] = ()
    """(Field, new name), all of them at once."""
    drops: tuple[str, ...] = ()
    """Fields that are left out, by their new names."""
