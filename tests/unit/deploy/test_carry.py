"""Boards and alert rules are carried from site to site: dry run first, and twice does nothing.

Kapacitor is a real one. Chronograf is a stand-in, held to its source (`support/chronograf.py`).
"""

from __future__ import annotations

import importlib.util
import json
import sys
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.chronograf import Chronograf
from support.tools import ROOT
from unit.deploy.test_kapacitor import SCRIPTS, running

MONITORING = ROOT / "deploy" / "monitoring"
BOARDS = MONITORING / "chronograf"
SECRET = "Bearer very-secret"  # noqa: S105  # made up
RULE = """var db = 'telegraf'
var rp = 'autogen'
var crit = 90
var period = 1m
var name = 'CPU of the summit'
stream
    |from().database(db).retentionPolicy(rp).measurement('cpu')
    |window().period(period).every(period)
    |mean('usage_user').as('value')
    |alert().id(name).crit(lambda: "value" > crit).topic('ops')
"""
TASK: dict[str, Any] = {
    "id": "chronograf-v1-cpu",
    "type": "stream",
    "dbrps": [{"db": "telegraf", "rp": "autogen"}],
    "script": RULE,
    "status": "enabled",
    "vars": {},
}


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("carry", MONITORING / "carry.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["carry"] = module
    spec.loader.exec_module(module)
    return module


carry = _loaded()


def done(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code of a call, and all that it said."""
    code = carry.main(words)
    out = capsys.readouterr()
    return code, out.out + out.err


def changes(
    databases: dict[str, str] | None = None, retentions: dict[str, str] | None = None, **named: str
) -> Any:
    return carry.Changes(databases or {}, retentions or {}, named)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('SELECT x FROM "a".."m"', 'SELECT x FROM "b".."m"'),
        ('SELECT x FROM "a"."r"."m"', 'SELECT x FROM "b"."s"."m"'),
        ('SELECT "a" FROM "c".."a"', 'SELECT "a" FROM "c".."a"'),
        ('SELECT x FROM "b".."m"', 'SELECT x FROM "a".."m"'),  # both are renamed at once
        ('dbrp "a"."r"\n\nstream', 'dbrp "b"."s"\n\nstream'),
        ("var db = 'a'\nvar rp = 'r'\nvar o = 'a'", "var db = 'b'\nvar rp = 's'\nvar o = 'a'"),
        (".database('a').retentionPolicy('r')", ".database('b').retentionPolicy('s')"),
        ('SELECT x FROM "ab"."rr"."m"', 'SELECT x FROM "ab"."rr"."m"'),
    ],
)
def test_names_are_changed_where_they_are_databases_and_policies(text: str, wanted: str) -> None:
    assert changes({"a": "b", "b": "a"}, {"r": "s"}).text(text) == wanted


def test_a_name_with_signs_of_expressions_is_a_name() -> None:
    assert changes({"a.c": r"\1"}).text('"a.c".."m" "abc".."m"') == r'"\1".."m" "abc".."m"'


def test_variables_of_tasks_are_set_by_their_type() -> None:
    task = carry.task_for(TASK, changes({"telegraf": "efd"}, crit="95", period="2m", name="USDF"))
    assert task["vars"] == {
        "crit": {"type": "int", "value": 95},
        "period": {"type": "duration", "value": "2m"},
        "name": {"type": "string", "value": "USDF"},
    }
    assert task["dbrps"] == [{"db": "efd", "rp": "autogen"}]
    assert "var db = 'efd'" in task["script"]


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"crit": "high"}, "'high' is no int"),
        ({"period": "soon"}, "'soon' is no duration"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(named: dict[str, str], why: str) -> None:
    with pytest.raises(carry.CarryError, match=why):
        carry.task_for(TASK, changes(**named))


def test_a_task_of_a_template_is_refused() -> None:
    with pytest.raises(carry.CarryError, match="template"):
        carry.task_for({**TASK, "template-id": "generic"}, changes())


def test_boards_are_carried_once_and_replaced_only_when_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Chronograf() as site:
        call = ("dashboards", str(BOARDS), site.url, "--database", "heliostat=telegraf")
        assert done(capsys, *call) == (
            0,
            "dashboard Heliostat: would be created\nnothing was changed; --yes does it\n",
        )
        assert site.boards == {}
        assert done(capsys, *call, "--yes") == (0, "dashboard Heliostat: created\n")
        [board] = site.boards.values()
        texts = [query["query"] for cell in board["cells"] for query in cell["queries"]]
        shipped = json.loads((BOARDS / "heliostat.json").read_text())["dashboard"]
        assert len(board["cells"]) == len(shipped["cells"])
        assert all('"telegraf".."heliostat_' in text for text in texts)
        assert not any('"heliostat"' in text for text in texts)
        assert done(capsys, *call, "--yes") == (0, "dashboard Heliostat: is there already\n")

        board["cells"][0]["name"] = "Of my own"
        code, said = done(capsys, *call, "--yes")
        assert (code, "--replace would" in said) == (1, True)
        assert board["cells"][0]["name"] == "Of my own"
        assert done(capsys, *call, "--replace")[1].startswith("dashboard Heliostat: would be repl")
        assert done(capsys, *call, "--replace", "--yes")[1] == "dashboard Heliostat: replaced\n"
        [board] = site.boards.values()
        assert board["cells"][0]["name"] == shipped["cells"][0]["name"]
        assert done(capsys, *call, "--yes")[1] == "dashboard Heliostat: is there already\n"
        assert [request for request in site.asked if not request.startswith("GET")] == [
            "POST /chronograf/v1/dashboards",
            "PUT /chronograf/v1/dashboards/1",
        ]


def test_boards_go_from_site_to_site(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a board with sources and variables / then those of the other site are taken."""
    query = {"query": 'SELECT x FROM "efd"."autogen"."m"', "source": "/chronograf/v1/sources/7"}
    values = [{"value": "summit", "type": "constant", "selected": True}]
    board = {
        "name": "M1M3",
        "cells": [{"x": 0, "y": 0, "w": 4, "h": 4, "name": "f", "queries": [query]}],
        "templates": [{"tempVar": ":site:", "type": "constant", "values": values}],
    }
    with Chronograf(SECRET) as summit, Chronograf() as usdf:
        summit.add(board)
        summit.add({**deepcopy(board), "name": "Other"})
        monkeypatch.setenv("CARRY_FROM_AUTHORIZATION", SECRET)
        call = ("dashboards", summit.url, usdf.url, "--name", "M1*", "--retention", "autogen=30d")
        assert done(capsys, *call, "--var", "site=usdf", "--yes") == (
            0,
            "dashboard M1M3: created\n",
        )
        assert done(capsys, *call, "--var", "site=usdf", "--yes") == (
            0,
            "dashboard M1M3: is there already\n",
        )
        [there] = usdf.boards.values()
        assert there["cells"][0]["queries"][0]["query"] == 'SELECT x FROM "efd"."30d"."m"'
        assert there["cells"][0]["queries"][0]["source"] == ""
        chosen = [row["value"] for row in there["templates"][0]["values"] if row["selected"]]
        assert chosen == ["usdf"]

        monkeypatch.setenv("CARRY_FROM_AUTHORIZATION", f"{SECRET}-wrong")
        code, said = done(capsys, *call)
        assert (code, "401" in said, "CARRY_FROM_AUTHORIZATION" in said) == (2, True, True)
        assert "secret" not in said
        usdf.add(board)
        monkeypatch.setenv("CARRY_FROM_AUTHORIZATION", SECRET)
        assert "2 of that name are there" in done(capsys, *call)[1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("dashboards", "nowhere", "http://127.0.0.1:1"), "no folder with files"),
        (("dashboards", str(BOARDS), "http://127.0.0.1:1"), "no answer"),
        (("dashboards", str(BOARDS), "127.0.0.1:8888"), "must begin with http"),
        (("dashboards", str(BOARDS), "http://me:hush@127.0.0.1:1"), "no credentials"),
        (("tasks", str(BOARDS), "http://127.0.0.1:1"), "*.tick"),
        (("tasks", str(MONITORING / "kapacitor"), "http://x", "--name", "no"), "has no task"),
    ],
)
def test_what_can_t_be_begun_says_why(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    code, said = done(capsys, *words)
    assert (code, why in said) == (2, True), said
    assert "hush" not in said


def test_another_program_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    with Chronograf() as site:
        code, said = done(capsys, "tasks", str(MONITORING / "kapacitor"), site.url)
    assert (code, "404" in said, "the program's own" in said) == (2, True, True)


@pytest.mark.long
def test_alert_rules_are_carried_between_real_kapacitors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given our scripts and a rule of Chronograf's / when they are carried, twice, changed / then

    each runs at the other site under its database, and nothing is done twice.
    """
    for name in ("summit", "usdf"):
        (tmp_path / name).mkdir()
    with running(tmp_path / "summit") as summit, running(tmp_path / "usdf") as usdf:
        here, there = (server.url.removesuffix("/kapacitor/v1") for server in (summit, usdf))
        call = ("tasks", str(MONITORING / "kapacitor"), here)
        assert done(capsys, *call)[0] == 0
        assert summit.ask("tasks")["tasks"] == []
        assert done(capsys, *call, "--yes")[1].count(": created") == len(SCRIPTS)
        assert done(capsys, *call, "--yes")[1].count("is there already") == len(SCRIPTS)
        assert summit.ask("tasks", TASK)["error"] == ""

        names = ("--database", "heliostat=efd", "--database", "telegraf=efd", "--var", "crit=95")
        over = ("tasks", here, there, *names, "--retention", "autogen=30d")
        assert done(capsys, *over, "--yes")[1].count(": created") == len(SCRIPTS) + 1
        assert done(capsys, *over, "--yes")[1].count("is there already") == len(SCRIPTS) + 1
        tasks = {task["id"]: task for task in usdf.ask("tasks?script-format=raw")["tasks"]}
        assert {task["status"] for task in tasks.values()} == {"enabled"}
        assert all(task["executing"] and not task["error"] for task in tasks.values())
        assert [t["dbrps"] for t in tasks.values()] == [[{"db": "efd", "rp": "30d"}]] * len(tasks)
        assert tasks[TASK["id"]]["vars"]["crit"]["value"] == 95

        more = (*over[:-4], "--retention", "autogen=30d", "--var", "crit=97")
        assert "--replace would" in done(capsys, *more, "--yes")[1]
        assert done(capsys, *more, "--replace", "--yes")[1].count(": replaced") == 1
        changed = usdf.ask(f"tasks/{TASK['id']}")
        assert changed["vars"]["crit"]["value"] == 97
        assert (changed["status"], changed["executing"]) == ("enabled", True)
        assert done(capsys, *more, "--yes")[1].count("is there already") == len(SCRIPTS) + 1
