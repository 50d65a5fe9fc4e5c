"""Whether a record is to blame for a round that failed: by the classes of errors, never their text.

A text may hold the record, so a record could name any cause.
"""

from __future__ import annotations

from enum import Enum

from heliostat.errors import BatchError, TransformFailed


class Blame(Enum):
    """What a round's error says about the records that were in its pipeline."""

    RECORD = "record"
    """The pipeline fails at one of them."""
    UNSURE = "unsure"
    """A worker is gone, and nobody says why: the pipeline ended it, or somebody killed it. Or
    nothing came back in time, which may be for want of a processor."""
    NONE = "none"
    """Something else has failed: a connection, a lease, the job was cancelled."""


class RowsFailed(Exception):
    """Spark has ended a round whose records are rows.

    Parameters
    ----------
    text
        What Spark says.
    blame
        What its classes say.
    """

    def __init__(self, text: str, blame: Blame) -> None:
        super().__init__(text)
        self.blame = blame


def blame_of(error: Exception) -> Blame:
    """Return what the error of a round says about its records."""
    match error:
        case RowsFailed():
            return error.blame
        case TransformFailed():  # without a record it hangs, or any may be the one
            return Blame.RECORD if "offset" in error.context else Blame.UNSURE
        case BatchError():
            return Blame.RECORD
        case _:
            return Blame.NONE
