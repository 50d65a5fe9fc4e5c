"""What the driver announces of schema ids, as a JSON object of the control topic.

    {"registries": "...", "readable": [gap, count, gap, count, ...], "foreign": [...],
     "shifts": [shift, ...], "guids": ["...", ...]}

Runs of ids, as registries number them one after the other: each as its distance from the end of the
run before, and its length. 10,000 ids are one run, or 40 kB if none follows another. Where the
target has other ids, a run ends where the difference to these changes; `shifts` has it for each.
`guids` has what GUIDs that are others at the target are there (`SchemaIds`), in hexadecimal digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from heliostat.framed_ids import guid_number
from heliostat.records.copier.lane import NO_IDS, Ranges, SchemaIds

SCHEMAS_KEY = "schemas"


def encode_schema_ids(registries: str, ids: SchemaIds) -> dict[str, Any]:
    """Return the announcement of what is known of a link's schema ids."""
    return {
        "registries": registries,
        "readable": list(_runs(ids.readable)),
        "foreign": list(_runs(ids.foreign)),
        "shifts": list(ids.shifts),
        "guids": [each.hex() for each in ids.guids],
    }


def schema_ids_in(control: Mapping[str, Any], registries: str) -> SchemaIds:
    """Return what an announcement says; nothing if it concerns other registries."""
    if control["registries"] != registries:
        return NO_IDS
    readable, shifts = _ranges(control["readable"]), tuple(control.get("shifts", ()))
    guids = tuple(map(bytes.fromhex, control.get("guids", ())))
    return SchemaIds(readable, _ranges(control["foreign"]), shifts, guids)


def schema_ids_of(
    ids: Iterable[tuple[int, int]],
    foreign: Iterable[int],
    guids: Iterable[tuple[bytes, bytes]] = (),
) -> SchemaIds:
    """Return what is to be announced.

    Parameters
    ----------
    ids
        Ids, and what they are at the target, each once.
    foreign
        Foreign ids, and what foreign GUIDs are known by.
    guids
        GUIDs, and what they are at the target, each once.
    """
    others: list[bytes] = []
    numbers: list[tuple[int, int]] = []
    for guid, there_guid in guids:
        number = guid_number(guid)
        numbers.append((number, number if there_guid == guid else len(others)))
        others += [] if there_guid == guid else [there_guid]
    found: list[tuple[int, int]] = []
    shifts: list[int] = []
    for own, there in sorted((*ids, *numbers)):
        if found and found[-1][1] == own - 1 and shifts[-1] == there - own:
            found[-1] = (found[-1][0], own)
        else:
            found.append((own, own))
            shifts.append(there - own)
    moved = tuple(shifts) if any(shifts) else ()
    return SchemaIds(tuple(found), ranges_of(foreign), moved, tuple(others))


def ranges_of(ids: Iterable[int]) -> Ranges:
    """Return ids as `(first, last)`, ascending."""
    found: list[tuple[int, int]] = []
    for each in sorted(set(ids)):
        if found and found[-1][1] == each - 1:
            found[-1] = (found[-1][0], each)
        else:
            found.append((each, each))
    return tuple(found)


def _runs(ranges: Ranges) -> Iterator[int]:
    end = 0
    for first, last in ranges:
        yield from (first - end, last + 1 - first)
        end = last + 1


def _ranges(runs: Sequence[int]) -> Ranges:
    found: list[tuple[int, int]] = []
    end = 0
    each = iter(runs)
    for gap, count in zip(each, each, strict=True):
        first = end + gap
        end = first + count
        found.append((first, end - 1))
    return tuple(found)
