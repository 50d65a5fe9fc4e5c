"""Which codes a test provokes on a real broker, and the check that it does.

A test declares codes in a marker and passes evidence of each to the fixture::

    @pytest.mark.provokes("TOO_LARGE", "gap:record_too_large")
    def test_...(provoked: Provoked) -> None:
        provoked("TOO_LARGE", stopped)

`tools/provoked_codes.py` makes the reference's table from the markers. Markers are checked here: a
test that passes without evidence for each of its codes fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

Seen = pytest.StashKey[set[str]]()
KINDS = ("refused:", "gap:")
"""Prefixes of codes of refused topics and causes of gaps; errors and partitions have none."""


class Provoked:
    """Collects the evidence for codes: what an operator sees, with the code in it."""

    def __init__(self) -> None:
        self.codes: set[str] = set()

    def __call__(self, code: str, evidence: object) -> None:
        """Record a code; fails if the evidence does not show it."""
        assert shows(evidence, code), f"no {code} in {evidence!r}"
        self.codes.add(code)


def shows(evidence: object, code: str) -> bool:
    """Return whether an error's text, JSON, or a row of a report has a code.

    A text must have it as errors print it, `[CODE]` or `kafka_error='NAME(`: the mere word may be
    about something else.
    """
    kind = next((kind for kind in KINDS if code.startswith(kind)), "")
    name = code.removeprefix(kind)
    if isinstance(evidence, str | BaseException):
        text = str(evidence)
        return not kind and (f"[{name}]" in text or f"kafka_error='{name}(" in text)
    field = "cause" if kind == "gap:" else "code"
    if isinstance(evidence, Mapping):
        found, is_refusal = evidence.get(field), "hint" in evidence
    else:
        found, is_refusal = getattr(evidence, field, None), hasattr(evidence, "hint")
    return found == name and (kind == "refused:") == is_refusal


def lacking(wanted: set[str], recorded: set[str]) -> list[str]:
    """Return the differences between a test's marker and its evidence, as sentences."""
    said = [f"{code} is in its marker and was not seen" for code in sorted(wanted - recorded)]
    return said + [f"{code} was seen and is not in its marker" for code in recorded - wanted]


@pytest.fixture
def provoked(request: pytest.FixtureRequest) -> Provoked:
    """Give the recorder to which a test passes evidence for the codes of its marker."""
    recorder = Provoked()
    request.node.stash[Seen] = recorder.codes
    return recorder


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Run a test; fail it if its marker has other codes than its evidence."""
    result = yield
    marks = pyfuncitem.iter_markers("provokes")
    wanted = {code for mark in marks for code in mark.args}
    said = lacking(wanted, pyfuncitem.stash.get(Seen, set()))
    assert not said, "; ".join(said)
    return result
