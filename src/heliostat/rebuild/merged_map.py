"""What both logs of a merged partition prove: where its own records are from; no I/O.

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
from heliostat.rebuild.proof import Kind, MirrorStanding, NotProved, Proof, Rows, prove


class MergedProof(NamedTuple):
    """Proof of a merged partition."""

    proof: Proof
    known_from: int
    """Number of the first own record whose place at the source is known."""


def merged_proof(rows: Rows, standing: MirrorStanding, start: Offset) -> MergedProof:
    """Return the only map that both logs allow, or show that the stored one holds.

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
        return MergedProof(Proof(Kind.MAPPED, start, start, 0, (Break(0, start),)), 0)
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
    if proof.kind is Kind.EXACT:
        proof = proof._replace(breaks=())
    return MergedProof(proof, numbers.start)


def _noted(noted: CopyNote) -> MergedProof:
    """Return what the ledger's note of this very end proves: nothing is left to compare."""
    at = Offset(noted.offset)
    return MergedProof(Proof(Kind.MAPPED, at, at, 0, (Break(noted.end, at),)), noted.end)
