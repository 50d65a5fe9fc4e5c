"""What a change of a link's definition is: a merge patch, and the fields that differ; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

RENAMED = (
    "topics.naming: mirrors keep the names that they have, and their topics are refused under "
    "others (renamed); to begin mirrors beside them, make a link of another name"
)


def merge_patch(target: Any, patch: Any) -> Any:
    """Return what a merge patch makes of a value (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    content = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            content.pop(key, None)
        else:
            content[key] = merge_patch(content.get(key), value)
    return content


def differing_fields(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Yield the fields in which two definitions differ."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            below = f"{place}.{key}" if place else str(key)
            if (key in before) != (key in after):
                yield below
            else:
                yield from differing_fields(before[key], after[key], below)
    elif before != after:
        yield place


def notes_on(differs: Iterable[str]) -> tuple[str, ...]:
    """Return what an operator must know of a change of these fields."""
    if not any(field.startswith("topics.naming") for field in differs):
        return ()
    return (RENAMED,)
