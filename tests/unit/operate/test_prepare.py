"""`heliostat prepare`: what is made ahead of a first start."""

from __future__ import annotations

import importlib.util

import pytest
from click.testing import CliRunner

from heliostat.cli import prepare as verb
from heliostat.operate.prepare import PARTS, Prepared, prepare

BROKEN = ("broken", ("heliostat.no_such_module",))
WELL = ("well", ("this",))


def test_each_part_is_a_module_that_is_there() -> None:
    assert all(importlib.util.find_spec(words[0]) for _, words in PARTS)


def test_a_part_that_fails_keeps_no_other_from_being_made() -> None:
    shown: list[Prepared] = []

    made = prepare(shown.append, [BROKEN, WELL])

    assert made == shown
    assert [part.name for part in made if not part.why_not] == ["well"]
    assert "no_such_module" in made[0].why_not


@pytest.mark.parametrize(
    ("made", "code", "line"),
    [
        (Prepared("loops", 12.3), 0, "kept loops (12 s)\n"),
        (Prepared("loops", 1.0, "disk full"), 1, "not kept: loops: disk full\n"),
    ],
)
def test_the_command_line_says_what_became_of_it(
    monkeypatch: pytest.MonkeyPatch, made: Prepared, code: int, line: str
) -> None:
    def prepared(tell):
        tell(made)
        return [made]

    monkeypatch.setattr(verb, "prepare", prepared)

    outcome = CliRunner().invoke(verb.prepare_command)

    assert (outcome.exit_code, outcome.output) == (code, line)
