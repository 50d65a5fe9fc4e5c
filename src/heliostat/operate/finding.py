"""What a check has come to: one line for each thing that was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum

from heliostat.errors import HeliostatError, code_of


class Standing(Enum):
    """How a thing stands."""

    FINE = "fine"
    NOTE = "note"
    """It would run; somebody should know of it."""
    PROBLEM = "problem"
    """It would not run, or not do what is configured."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Parameters
    ----------
    subject
        What it belongs to, such as `cluster summit` or `link summit-to-usdf`.
    standing
        How it stands.
    text
        What was seen.
    code
        Of a problem or a note, for scripts; those of errors are in docs/reference/errors.md.
    hint
        What to do.
    """

    subject: str
    standing: Standing
    text: str
    code: str = ""
    hint: str = ""

    def to_json(self) -> dict[str, str]:
        """Return it for `--json`."""
        return {**asdict(self), "standing": self.standing.value}


def fine(subject: str, text: str) -> Finding:
    """Return that something is as it must be."""
    return Finding(subject, Standing.FINE, text)


def note(subject: str, code: str, text: str, hint: str = "") -> Finding:
    """Return something that somebody should know."""
    return Finding(subject, Standing.NOTE, text, code, hint)


def problem(subject: str, code: str, text: str, hint: str) -> Finding:
    """Return something for which it would not run."""
    return Finding(subject, Standing.PROBLEM, text, code, hint)


def problem_of(subject: str, error: HeliostatError, what: str = "") -> Finding:
    """Return an error as a problem.

    Parameters
    ----------
    what
        What failed, where the error's text does not say it.
    """
    facts = ", ".join(f"{key}: {value}" for key, value in error.context.items())
    text = (f"{what}: " if what else "") + error.text + (f" ({facts})" if facts else "")
    return problem(subject, code_of(error), text, error.hint)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that was looked at, in order."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Those for which it would not run."""
        return tuple(finding for finding in self.findings if finding.standing is Standing.PROBLEM)

    @property
    def would_run(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.problems

    def without_fine(self) -> CheckReport:
        """Return only problems and notes."""
        return CheckReport(
            tuple(finding for finding in self.findings if finding.standing is not Standing.FINE)
        )

    def to_json(self) -> dict[str, object]:
        """Return it for `--json`."""
        return {
            "would_run": self.would_run,
            "problems": len(self.problems),
            "findings": [finding.to_json() for finding in self.findings],
        }


def report_of(parts: Iterable[Iterable[Finding]]) -> CheckReport:
    """Return one report of several parts."""
    return CheckReport(tuple(finding for part in parts for finding in part))
