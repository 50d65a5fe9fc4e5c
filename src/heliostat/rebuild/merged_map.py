"""The map of a merged partition by what both logs hold: source offsets of own records; no I/O.

It is proved as a mirror's, with numbers of the link's own records for offsets, and with what no
link brought to the source: each record there between the first and the last of them must have
crossed, unless the ledger has it as a gap. Behind the last one the source's next own record is
right, as holes there are others' batches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from heliostat.gaps.ledger import CopyNote
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break
from heliostat.rebuild.proof import MirrorStanding, NotProved, Rows, prove


class MergedMap(NamedTuple):
    """A rebuilt map."""

    breaks: tuple[Break, ...]
    known_from: int
    """Number of the first own record that is left: breaks before it are not known."""
    position: Offset
    """Source offset at which copying continues."""
    compared: int
    """How many records are equal at both sides."""


def merged_map(rows: Rows, standing: MirrorStanding, start: Offset) -> MergedMap:
    """Return the only map that both logs allow.

    Parameters
    ----------
    rows
        What no link brought to the source; and at the target own records, by their numbers.
    standing
        What is known before they are read; its target is the numbers of those that are left.
    start
        Source offset at which the link began.

    Raises
    ------
    NotProved
        There is none, or more than one.
    """
    numbers, noted = standing.target, standing.noted
    if not numbers.end:
        return MergedMap((Break(0, start),), 0, start, 0)
    if standing.rule.matters:
        raise NotProved("it is compacted: which of its records are gone is not known")
    is_gone = numbers.start == numbers.end
    is_noted = noted is not None and noted.end == numbers.end
    if noted is not None and is_noted and (is_gone or standing.source.start >= noted.offset):
        return _noted(noted)
    if is_gone:
        raise NotProved(
            f"none of the link's {numbers.end} records is left in the target's log, and nothing "
            "has noted up to where they were copied"
        )
    # A note that counts more than both hold would pass for one of equal offsets.
    proof = prove(rows, replace(standing, noted=None))
    return MergedMap(proof.breaks or (), numbers.start, proof.position, proof.compared)


def _noted(noted: CopyNote) -> MergedMap:
    """Return the map by the ledger's note of this very end: nothing is left to compare."""
    place = Break(noted.end, noted.offset)
    return MergedMap((place,), noted.end, Offset(noted.offset), 0)
