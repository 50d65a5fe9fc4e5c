"""`heliostat restart`: what is printed, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from heliostat.cli.restart import restart_command
from heliostat.names import LinkName
from heliostat.operate import orders
from heliostat.operate.orders import OrderAnswer
from heliostat.wishes.order import CUT_SHORT, Ended, Order, OrderStanding, Stage
from heliostat.wishes.wish import Place

CONFIG = """
clusters: {a: {bootstrap: [a:9092]}, b: {bootstrap: [b:9092]}}
links: [{name: l, source: a, target: b}]
"""
ORDER = Order("0f" * 16, Place(), "ops", 5)


def asked(
    monkeypatch: pytest.MonkeyPatch, folder: Path, ended: Ended | None, *words: str
) -> Result:
    def answer(*_: Any, dry_run: bool, **__: Any) -> OrderAnswer:
        standings = () if dry_run else (OrderStanding(ORDER, None, ended),)
        waits = "" if dry_run or ended is not None else "the link has no owner now"
        return OrderAnswer(LinkName("l"), ("the link",), standings, 2, 3, waits, 0.5, dry_run)

    monkeypatch.setattr(orders, "order_restart", answer)
    config = folder / "heliostat.yaml"
    config.write_text(CONFIG)
    return CliRunner().invoke(restart_command, ["l", "-c", str(config), *words])


@pytest.mark.parametrize(
    ("ended", "words", "code", "text"),
    [
        (Ended(Stage.DONE, "2 lanes began anew", 9), (), 0, "the link done: 2 lanes began anew"),
        (Ended(Stage.CUT_SHORT, CUT_SHORT, 9), (), 1, "the link cut short: its driver ended"),
        (None, (), 1, "it is written, and waits: the link has no owner now"),
        (None, ("--dry-run",), 0, "2 lanes would begin anew, 3 stopped partitions would be tried"),
    ],
)
def test_what_became_of_an_order(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ended: Ended | None,
    words: tuple[str, ...],
    *,
    code: int,
    text: str,
) -> None:
    answer = asked(monkeypatch, tmp_path, ended, *words)
    assert answer.exit_code == code, answer.output
    assert text in answer.output


def test_the_same_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = json.loads(asked(monkeypatch, tmp_path, None, "--json").stdout)
    assert told["orders"][0]["stage"] == "waits"
    assert told["is_done"] is False
