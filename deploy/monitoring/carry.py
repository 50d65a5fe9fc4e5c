#!/usr/bin/env python3
"""Carries Chronograf's dashboards and Kapacitor's tasks to a site, from another one or from files.

    carry.py dashboards http://chronograf.summit:8888 http://chronograf.usdf:8888
    carry.py tasks      http://kapacitor.summit:9092  http://kapacitor.usdf:9092 --yes
    carry.py dashboards chronograf/ http://localhost:8888 --database heliostat=telegraf --yes

Without --yes nothing is changed, and what would be done is printed. What is there already and equal
stays as it is, so that a second call does nothing; what differs is replaced only with --replace.
Nothing is ever deleted. Needs Python 3.11 or newer, and nothing else.

A site that asks for credentials: CARRY_FROM_AUTHORIZATION and CARRY_TO_AUTHORIZATION in the
environment are sent as the header `Authorization` (`Bearer ...`, `Basic ...`), and never printed.

Exit code 0: all is there, or would be; 1: something differs, or failed; 2: it could not begin.
"""

from __future__ import annotations

import argparse
import fnmatch
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 30.0
PAGE = 100
"""Tasks in one answer of Kapacitor."""
TEXT_MAX = 300
"""Of what a server says."""
DASHBOARDS, TASKS = "/chronograf/v1/dashboards", "/kapacitor/v1/tasks"
SERVER_OWN = frozenset({"id", "i", "links", "organization", "queryConfig", "source"})
"""Given by each Chronograf itself; a query without a source asks the one that is looked at."""
HAS_DBRP = re.compile(r'^\s*dbrp\s+"', re.MULTILINE)
VARIABLE = r"^(\s*var\s+{name}\s*=\s*)(\S.*?)\s*$"
LITERALS = {
    "bool": r"TRUE|FALSE",
    "int": r"-?\d+",
    "float": r"-?\d+\.\d*",
    "duration": r"-?(?:\d+(?:u|µ|ms|s|m|h|d|w))+",
    "string": r"'(?:[^'\\]|\\.)*'",
}
"""Of TICKscript, by the type that Kapacitor's API calls it."""
DATABASE_FORMS = (
    (r"(?<!\.)", '"', r"(?=\.[.\"])"),
    (r"\.database\(\s*", "'", ""),
    (r"\bvar\s+db\s*=\s*", "'", ""),
)
RETENTION_FORMS = (
    (r'"[^"]+"\.', '"', r"(?=[.\s]|$)"),
    (r"\.retentionPolicy\(\s*", "'", ""),
    (r"\bvar\s+rp\s*=\s*", "'", ""),
)
"""Where names stand, in queries and in TICKscript: what is before, quotes, what follows."""
Item = dict[str, Any]


class CarryError(Exception):
    """What can't be done, and why; never with credentials."""


@dataclass(frozen=True)
class Server:
    """One of both programs at a site.

    Parameters
    ----------
    url
        Its address, with a path before the API's if a proxy adds one.
    authorization
        The header, or nothing.
    """

    url: str
    authorization: str = ""

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request; return the JSON of the answer, None if there is none."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url.rstrip("/") + path, content, method=method)  # noqa: S310  # checked by `server`
        request.add_header("Content-Type", "application/json")
        if self.authorization:
            request.add_header("Authorization", self.authorization)
        try:
            with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
            return json.loads(text) if text.strip() else None
        except urllib.error.HTTPError as error:
            said = _words_of(error.read(), self.authorization)
            hint = f"; {_HINTS[error.code]}" if error.code in _HINTS else ""
            raise CarryError(f"{method} {self.url}{path}: {error.code} {said}{hint}") from None
        except ValueError:
            raise CarryError(
                f"{method} {self.url}{path}: the answer is no JSON: is this another program?"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise CarryError(f"{method} {self.url}{path}: no answer: {reason}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows none: a header with credentials would go along to wherever it leads."""

    def redirect_request(self, *_: Any, **__: Any) -> None:  # type: ignore[explicit-override]  # 3.11
        """Return nothing, so that the answer is an error."""


_OPENER = urllib.request.build_opener(_NoRedirect)
_HINTS = {
    301: "give the address that it leads to",
    302: "to a login page, perhaps: set CARRY_FROM_AUTHORIZATION or CARRY_TO_AUTHORIZATION",
    307: "to a login page, perhaps: set CARRY_FROM_AUTHORIZATION or CARRY_TO_AUTHORIZATION",
    308: "give the address that it leads to",
    401: "set CARRY_FROM_AUTHORIZATION or CARRY_TO_AUTHORIZATION",
    403: "who asks may not do that there",
    404: "is this address the program's own, without the path of its API?",
}


def _words_of(content: bytes, secret: str) -> str:
    """Return what a server says of an error, short and without our credentials."""
    text = content.decode("utf-8", "replace")
    try:
        said = json.loads(text)
        text = str(said.get("message") or said.get("error") or text)
    except (ValueError, AttributeError):
        pass
    text = " ".join(text.split())[:TEXT_MAX]
    for part in secret.split():  # the scheme, which is no secret, and what is
        text = text.replace(part, "(hidden)")
    return text


@dataclass(frozen=True)
class Changes:
    """What an item is called at the other site, where names differ."""

    databases: Mapping[str, str]
    retentions: Mapping[str, str]
    variables: Mapping[str, str]

    def text(self, text: str) -> str:
        """Return a query or script with databases and retention policies renamed."""
        for names, forms in (
            (self.retentions, RETENTION_FORMS),
            (self.databases, DATABASE_FORMS),
        ):
            if names:
                some = "|".join(map(re.escape, names))
                for before, quote, after in forms:
                    pattern = f"({before}){quote}({some}){quote}{after}"
                    text = re.sub(pattern, _renaming(names, quote), text)
        return text


def _renaming(names: Mapping[str, str], quote: str) -> Callable[[re.Match[str]], str]:
    """Return what puts the new name behind the first group, whatever is in it."""
    return lambda match: f"{match[1]}{quote}{names[match[2]]}{quote}"


def board_for(board: Item, changes: Changes) -> Item:
    """Return a dashboard as it is sent to another site."""

    def changed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: changed(v, k) for k, v in value.items() if k not in SERVER_OWN}
        if isinstance(value, list):
            return [changed(entry, key) for entry in value]
        if not isinstance(value, str):
            return value
        if key == "db":
            return changes.databases.get(value, value)
        if key == "rp":
            return changes.retentions.get(value, value)
        return changes.text(value) if key in {"query", "influxql", "command"} else value

    wanted: Item = {key: changed(board.get(key) or []) for key in ("cells", "templates")}
    for template in wanted["templates"]:
        name = str(template.get("tempVar", "")).strip(":")
        if name in changes.variables:
            _select(template, changes.variables[name])
    for cell in wanted["cells"]:
        for query in cell.get("queries") or ():
            query["source"] = ""
    return {"name": board["name"], **wanted}


def _select(template: Item, value: str) -> None:
    """Make a value the chosen one of a dashboard's variable."""
    values = [entry for entry in template.get("values") or () if entry.get("value") != value]
    kind = values[0].get("type", "constant") if values else "constant"
    for entry in values:
        entry["selected"] = False
    template["values"] = [*values, {"value": value, "type": kind, "selected": True}]


def task_for(task: Item, changes: Changes) -> Item:
    """Return a task as it is sent to another site.

    Raises `CarryError` if it is made of a template, or a variable does not fit.
    """
    if task.get("template-id"):
        raise CarryError(f"task {task['id']} is made of the template {task['template-id']}")
    script, given = changes.text(str(task["script"])), dict(task.get("vars") or {})
    for name, value in changes.variables.items():
        if (kind := _type_of(name, script, given, str(task["id"]))) is not None:
            given[name] = {"type": kind, "value": _typed(name, kind, value)}
    wanted: Item = {"id": task["id"], "type": task["type"], "script": script, "vars": given}
    if HAS_DBRP.search(script) is None:  # else the script says it
        wanted["dbrps"] = [
            {
                "db": changes.databases.get(place["db"], place["db"]),
                "rp": changes.retentions.get(place["rp"], place["rp"]),
            }
            for place in task.get("dbrps") or ()
        ]
    return {**wanted, "status": task.get("status", "enabled")}


def _type_of(name: str, script: str, given: Mapping[str, Any], task: str) -> str | None:
    """Return the type of a task's variable; None if it has none of that name."""
    if name in given:
        kind = str(given[name].get("type"))
    else:
        match = re.search(VARIABLE.format(name=re.escape(name)), script, re.MULTILINE)
        if match is None:
            return None
        kind = next((k for k, form in LITERALS.items() if re.fullmatch(form, match[2])), "other")
    if kind not in LITERALS:
        raise CarryError(f"task {task}: the variable {name} is no plain value ({kind})")
    return kind


def _typed(name: str, kind: str, value: str) -> object:
    """Return a variable's value as Kapacitor's API has it."""
    try:
        match kind:
            case "bool":
                return {"true": True, "false": False}[value.lower()]
            case "int":
                return int(value)
            case "float":
                return float(value)
            case "duration" if re.fullmatch(LITERALS["duration"], value) is None:
                pass
            case _:
                return value
    except (KeyError, ValueError):
        pass
    raise CarryError(f"--var {name}: {value!r} is no {kind}")


def is_met(wanted: Any, there: Any) -> bool:
    """Whether all that is wanted is there; a server may add what it has by default."""
    if isinstance(wanted, dict):
        have = there if isinstance(there, dict) else {}
        return all(is_met(value, have.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(there, list):
        return len(wanted) == len(there) and all(map(is_met, wanted, there))
    return bool(wanted == there or (wanted in ("", None, [], {}) and not there))


class Dashboards:
    """Chronograf's dashboards, each known by its name."""

    noun = "dashboard"
    suffix = ".json"

    def name(self, item: Item) -> str:
        """Return what it is known by."""
        return str(item["name"])

    def of_server(self, server: Server) -> list[Item]:
        """Return all of a site's."""
        return list(_field(server.ask("GET", DASHBOARDS), "dashboards", server))

    def of_file(self, path: Path) -> Item:
        """Return what Chronograf has exported, or its API has answered."""
        item: Item = json.loads(path.read_text(encoding="utf-8"))
        item = item.get("dashboard", item)
        if not {"name", "cells"} <= item.keys():
            raise CarryError(f"{path} has no dashboard")
        return item

    def wanted(self, item: Item, changes: Changes) -> Item:
        """Return it as it is sent."""
        return board_for(item, changes)

    def create(self, server: Server, item: Item) -> None:
        """Make it."""
        server.ask("POST", DASHBOARDS, item)

    def replace(self, server: Server, item: Item, there: Item) -> None:
        """Put it in the place of another."""
        server.ask("PUT", f"{DASHBOARDS}/{there['id']}", {**item, "id": there["id"]})


class Tasks:
    """Kapacitor's tasks, alert rules among them, each known by its id."""

    noun = "task"
    suffix = ".tick"

    def name(self, item: Item) -> str:
        """Return what it is known by."""
        return str(item["id"])

    def of_server(self, server: Server) -> list[Item]:
        """Return all of a site's, scripts as they were written."""
        tasks: list[Item] = []
        while True:
            page = {"script-format": "raw", "offset": len(tasks), "limit": PAGE}
            path = f"{TASKS}?{urllib.parse.urlencode(page)}"
            more = list(_field(server.ask("GET", path), "tasks", server))
            tasks += more
            if len(more) < PAGE:
                return tasks

    def of_file(self, path: Path) -> Item:
        """Return what a script makes; it must name its database itself."""
        script = path.read_text(encoding="utf-8")
        if HAS_DBRP.search(script) is None:
            raise CarryError(f'{path} has no `dbrp "database"."retention policy"`')
        kind = (
            "batch" if re.search(r"^\s*(?:var \w+ = )?batch\b", script, re.MULTILINE) else "stream"
        )
        return {"id": path.stem, "type": kind, "script": script, "status": "enabled"}

    def wanted(self, item: Item, changes: Changes) -> Item:
        """Return it as it is sent."""
        return task_for(item, changes)

    def create(self, server: Server, item: Item) -> None:
        """Make it."""
        server.ask("POST", TASKS, item)

    def replace(self, server: Server, item: Item, there: Item) -> None:
        """Change it; one that runs takes its script anew only if it is stopped meanwhile."""
        path = f"{TASKS}/{urllib.parse.quote(str(there['id']), safe='')}"
        server.ask("PATCH", path, {"status": "disabled"})
        changed = {key: value for key, value in item.items() if key != "id"}
        try:
            server.ask("PATCH", path, changed)
        except CarryError:
            server.ask("PATCH", path, {"status": there.get("status", "enabled")})
            raise


Kind = Dashboards | Tasks
KINDS: Mapping[str, Kind] = {"dashboards": Dashboards(), "tasks": Tasks()}


def _field(answer: Any, name: str, server: Server) -> list[Item]:
    """Return a list of an answer."""
    if not isinstance(answer, dict) or not isinstance(answer.get(name), list):
        raise CarryError(f"{server.url} answers without {name!r}: is it the right program?")
    return list(answer[name])


def items_of(kind: Kind, origin: str, patterns: Sequence[str]) -> list[Item]:
    """Return what is carried: of a site, or of the files in a folder."""
    if "://" in origin:
        items = kind.of_server(server(origin, "CARRY_FROM_AUTHORIZATION"))
    else:
        paths = sorted(Path(origin).glob(f"*{kind.suffix}"))
        if not paths:
            raise CarryError(f"{origin} is no folder with files *{kind.suffix}")
        items = [_read(kind, path) for path in paths]
    chosen = [
        item
        for item in items
        if any(fnmatch.fnmatchcase(kind.name(item), pattern) for pattern in patterns)
    ]
    if not chosen:
        raise CarryError(f"{origin} has no {kind.noun} of the name {' or '.join(patterns)}")
    return chosen


def _read(kind: Kind, path: Path) -> Item:
    try:
        return kind.of_file(path)
    except (OSError, ValueError) as error:
        raise CarryError(f"{path} can't be read: {error}") from None


def server(url: str, variable: str) -> Server:
    """Return a site by its address; its credentials are in a variable of the environment."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise CarryError("an address must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise CarryError(f"no credentials in an address, please: put them into {variable}")
    return Server(url, os.environ.get(variable, ""))


@dataclass(frozen=True)
class Carrying:
    """One call."""

    kind: Kind
    target: Server
    changes: Changes
    replaces: bool
    is_real: bool

    def lines(self, items: Sequence[Item]) -> Iterator[tuple[bool, str]]:
        """Carry one after the other; yield whether each is well, and what was done."""
        there: dict[str, list[Item]] = {}
        for item in self.kind.of_server(self.target):
            there.setdefault(self.kind.name(item), []).append(item)
        for item in items:
            name = self.kind.name(item)
            try:
                is_well, done = self._carry(item, there.get(name, []))
            except CarryError as error:
                is_well, done = False, f"failed: {error}"
            yield is_well, f"{self.kind.noun} {name}: {done}"

    def _carry(self, item: Item, there: Sequence[Item]) -> tuple[bool, str]:
        wanted = self.kind.wanted(item, self.changes)
        if len(there) > 1:
            return False, f"{len(there)} of that name are there: which one is meant?"
        if not there:
            if self.is_real:
                self.kind.create(self.target, wanted)
            return True, "created" if self.is_real else "would be created"
        if is_met({key: value for key, value in wanted.items() if key != "status"}, there[0]):
            return True, "is there already"
        if not self.replaces:
            return False, "another one of that name is there; --replace would replace it"
        if self.is_real:
            self.kind.replace(self.target, wanted, there[0])
        return True, "replaced" if self.is_real else "would be replaced"


def _pair(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (old and sign):
        raise argparse.ArgumentTypeError(f"{text!r} is no OLD=NEW")
    return old, new


def options() -> argparse.ArgumentParser:
    """Return what may be given."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("kind", choices=KINDS, help="What is carried.")
    words.add_argument("origin", metavar="FROM", help="A site's address, or a folder of files.")
    words.add_argument("target", metavar="TO", help="A site's address.")
    words.add_argument(
        "--name", action="append", metavar="PATTERN", help="Only these; * is a wildcard."
    )
    for option, text in (
        ("--database", "What a database is called there, in queries and scripts."),
        ("--retention", "What a retention policy is called there."),
        ("--var", "Value of a task's or dashboard's variable there, where it has one."),
    ):
        pair = "NAME=VALUE" if option == "--var" else "OLD=NEW"
        words.add_argument(option, action="append", default=[], type=_pair, metavar=pair, help=text)
    words.add_argument("--replace", action="store_true", help="Replace what differs there.")
    words.add_argument(
        "--yes", action="store_true", help="Do it; else only say what would be done."
    )
    return words


def main(words: Sequence[str] | None = None) -> int:
    """Carry; return the exit code."""
    given = options().parse_args(words)
    kind = KINDS[given.kind]
    changes = Changes(dict(given.database), dict(given.retention), dict(given.var))
    try:
        items = items_of(kind, given.origin, given.name or ["*"])
        target = server(given.target, "CARRY_TO_AUTHORIZATION")
        carrying = Carrying(kind, target, changes, given.replace, given.yes)
        outcomes = []
        for is_well, line in carrying.lines(items):
            print(line, flush=True)
            outcomes.append(is_well)
    except CarryError as error:
        print(f"carry: {error}", file=sys.stderr)
        return 2
    if not given.yes:
        print("nothing was changed; --yes does it")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
