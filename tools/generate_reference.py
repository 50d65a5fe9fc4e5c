"""Writes docs/reference/*.md from the code, so that no reference can differ from it.

`python tools/generate_reference.py` writes; with `--check` it changes nothing and ends with 1 when
a page is outdated, or when no test provokes one of our error codes.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import click
import provoked_codes
from service_reference import metrics_page, openapi_text, rest_page

from heliostat import errors, invariants
from heliostat.cli.main import HELP_OPTIONS
from heliostat.cli.main import root as command_line
from heliostat.config import Config
from heliostat.errors import KAFKA_ERRORS, HeliostatError, Verdict
from heliostat.gaps.choices import Cause
from heliostat.handover.held_back import HeldBack
from heliostat.records.batches.converted import StopReason
from heliostat.records.copier.lane import LineUse, PartitionCode, PartitionState
from heliostat.schemas.registry.error_codes import REGISTRY_ERRORS
from heliostat.status.values import LinkStatus, PartitionProblem, TopicStatus
from heliostat.topics.topic_plan import RefusalCode

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
GENERATED = "<!-- Written by tools/generate_reference.py; change the code, not this page. -->"
HELP_COLUMNS = 96  # fits the width of a code host's pages
INLINE_DEFAULT_CHARS_MAX = 60  # longer defaults are below their table
DIFFERENCE_LINES_MAX = 40  # enough to see what changed
BY_CODE = {errors.BrokerError: "by Kafka's code", errors.RegistryError: "by the registry's code"}

TIME_TYPE = "time"
PLAIN_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}

Schema = Mapping[str, Any]


def cli_page() -> Iterator[str]:
    """Return the page of all commands with their help texts."""
    yield "# Command line"
    yield from ("", "Every verb as `--help` prints it.")
    top = click.Context(
        command_line,
        info_name="heliostat",
        terminal_width=HELP_COLUMNS,
        help_option_names=HELP_OPTIONS,
    )
    for context in _contexts(top):
        help_text = [line.rstrip() for line in context.get_help().rstrip().splitlines()]
        yield from ("", f"## {context.command_path}", "", "```text", *help_text, "```")


def _contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            inner = context.command.get_command(context, name)
            if inner is not None:
                yield from _contexts(click.Context(inner, parent=context, info_name=name))


def config_page() -> Iterator[str]:
    """Return the page of all configuration keys, with type, default and meaning."""
    schema = Config.model_json_schema()
    yield "# Configuration file"
    yield ""
    yield "YAML, checked whole before anything is touched: an unknown key, a wrong type or a value"
    yield "out of its bounds is refused with field, value and reason. `${env:NAME}` in a value is"
    yield "replaced by that environment variable, except where a secret belongs. An example:"
    yield "[docs/examples/heliostat.yaml](../examples/heliostat.yaml)."
    yield from _section("", schema, schema["$defs"], depth=2)


def _section(path: str, model: Schema, models: Mapping[str, Schema], depth: int) -> Iterator[str]:
    yield from ("", f"{'#' * depth} {f'`{path}`' if path else 'Top level'}", "")
    yield _one_line(model.get("description", ""))
    yield from ("", "| key | type | default | meaning |", "|---|---|---|---|")
    below: list[tuple[str, Schema]] = []
    long_defaults: list[tuple[str, str]] = []
    for key, field in model["properties"].items():
        inner, suffix = _inner_model(field, models)
        default = "required" if key in model.get("required", ()) else json.dumps(field["default"])
        if inner is not None:
            below.append((f"{path}.{key}{suffix}".lstrip("."), inner))
            default = "required" if default == "required" else "see below"
        elif len(default) > INLINE_DEFAULT_CHARS_MAX:
            long_defaults.append((key, default))
            default = "see below"
        cell = default if default in ("required", "see below") else f"`{_in_cell(default)}`"
        meaning = _in_cell(_one_line(field.get("description", "")))
        yield f"| `{key}` | {_in_cell(_type(field, models))} | {cell} | {meaning} |"
    for key, default in long_defaults:
        yield from ("", f"Default of `{key}`:", "", "```yaml")
        yield from (f"- '{item}'" for item in json.loads(default))
        yield "```"
    below += _optional_models(path, model, models)
    for where, inner in below:
        if where == "defaults":
            yield from ("", "### `defaults`", "")
            yield "The keys of `links[]` but `name`, `source` and `target`."
        else:
            yield from _section(where, inner, models, depth=3)


def _optional_models(
    path: str, model: Schema, models: Mapping[str, Schema]
) -> Iterator[tuple[str, Schema]]:
    """Give the models that fields may hold instead of null, with all fields that hold each."""
    holders: dict[str, list[str]] = {}
    for key, field in model["properties"].items():
        for choice in field.get("anyOf", ()):
            if "$ref" in choice:
                holders.setdefault(choice["$ref"].rpartition("/")[2], []).append(key)
    for name, keys in holders.items():
        yield "`, `".join(f"{path}.{key}" for key in keys), models[name]


def _inner_model(field: Schema, models: Mapping[str, Schema]) -> tuple[Schema | None, str]:
    """Give the model of a field, and the suffix of its path: `[]` for a list, `.*` for a map."""
    candidates = [(field, ""), (field.get("items", {}), "[]")]
    candidates += [(each, ".*") for each in field.get("patternProperties", {}).values()]
    for schema, suffix in candidates:
        if "$ref" in schema:
            return models[schema["$ref"].rpartition("/")[2]], suffix
    return None, ""


def _type(field: Schema, models: Mapping[str, Schema]) -> str:
    choices = field.get("oneOf") or field.get("anyOf")
    if choices is not None:
        return " or ".join(_type(each, models) for each in choices)
    values = [field["const"]] if "const" in field else field.get("enum")
    if values is not None:
        return " or ".join(f"`{value}`" for value in values)
    if "$ref" in field:
        keys = tuple(models[field["$ref"].rpartition("/")[2]]["properties"])
        return "map" if len(keys) > 1 else f"`{{{keys[0]}: …}}`"
    kind = field["type"]
    if kind == "array":
        return f"list of {_type(field['items'], models)}"
    if kind == "object":
        inner = next(iter(field.get("patternProperties", {}).values()), None)
        return f"map of {_type(inner or field['additionalProperties'], models)}"
    return TIME_TYPE if field.get("format") == "date-time" else PLAIN_TYPES[kind] + _bounds(field)


def _bounds(field: Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if high is None and field.get("type") == "integer" and "exclusiveMaximum" in field:
        high = field["exclusiveMaximum"] - 1
    if low is None and high is None:
        return ""
    return f", {low} or more" if high is None else f", {low} to {high}"


def errors_page() -> Iterator[str]:
    """Return the page of errors, Kafka's error codes, and states of partitions."""
    yield "# Errors and states"
    yield ""
    yield "Every error prints as `[CODE] what happened; facts (hint: what to do)`."
    yield from ("", "## Verdicts", "", "| verdict | what Heliostat does |", "|---|---|")
    yield from _enum_rows(Verdict)
    yield from ("", "## Errors", "", "| code | verdict | meaning | hint |", "|---|---|---|---|")
    for kind in error_classes():
        verdict = BY_CODE.get(kind, kind.verdict.value)
        hint = kind.hint or f"none: {kind.no_hint}"
        yield f"| `{kind.code}` | {verdict} | {_first_paragraph(kind)} | {_in_cell(hint)} |"
    yield from ("", "## Error codes of brokers", "")
    yield "*Ambiguous*: the batch may be in the log, so the target's end is read before anything is"
    yield "sent again (I4). Codes that are not listed are treated as `UNKNOWN_SERVER_ERROR`, and"
    yield "told by Kafka's name."
    yield from ("", "| code | name | verdict | append | hint |", "|---|---|---|---|---|")
    for number, row in sorted(KAFKA_ERRORS.items()):
        if number != 0:
            facts = (str(number), f"`{row.name}`", row.verdict.value, row.append.value, row.hint)
            yield f"| {' | '.join(_in_cell(fact) for fact in facts)} |"
    yield from ("", "## Error codes of schema registries", "")
    yield "Codes below 1000 are HTTP's. A code that is not listed is treated as its HTTP status."
    yield from ("", "| code | name | verdict | hint |", "|---|---|---|---|")
    for number, refusal in sorted(REGISTRY_ERRORS.items()):
        verdict, hint = refusal.verdict.value, _in_cell(refusal.hint)
        yield f"| {number} | `{refusal.name}` | {verdict} | {hint} |"
    yield from ("", "## States of a partition", "", "| state | meaning |", "|---|---|")
    yield from _enum_rows(PartitionState)
    yield from ("", "## Codes of a partition", "")
    yield "Why a partition is stopped or tried again, where it is not one of the brokers' codes."
    yield from ("", "| code | meaning |", "|---|---|")
    yield from _code_rows(PartitionCode, {code.name: code.value for code in PartitionCode})
    yield from _code_rows(StopReason, {reason.name: reason.name for reason in StopReason})
    sorts: dict[str, type[Enum]] = {
        "Codes of a refused topic": RefusalCode,
        "Causes of a gap": Cause,
    }
    for heading, sort in sorts.items():
        yield from ("", f"## {heading}", "", "| code | meaning |", "|---|---|")
        yield from _code_rows(sort, {each.name: each.value for each in sort})
    yield from ("", "## Proof", "")
    yield "[Which test provokes which code on a real broker](errors-provoked.md)."


def error_classes(kind: type[HeliostatError] = HeliostatError) -> Iterator[type[HeliostatError]]:
    """Return the classes of errors that are raised: each has its own code."""
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            if "code" in vars(each):
                yield each
            yield from error_classes(each)


def _enum_rows(kind: type[Enum]) -> Iterator[str]:
    meanings = _member_docs(kind)
    for member in kind:
        yield f"| {member.value} | {_in_cell(meanings.get(member.name, ''))} |"


def _code_rows(kind: type[Enum], codes: Mapping[str, str]) -> Iterator[str]:
    meanings = _member_docs(kind)
    for name, code in codes.items():
        yield f"| `{code}` | {_in_cell(meanings[name])} |"


def _member_docs(kind: type) -> dict[str, str]:
    """Give the text under each member, which Python itself does not keep."""
    docs: dict[str, str] = {}
    name = ""
    body = (node for part in ast.parse(inspect.getsource(kind)).body for node in _body_of(part))
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            docs[name] = _one_line(str(node.value.value))
    return docs


def _body_of(node: ast.stmt) -> list[ast.stmt]:
    return node.body if isinstance(node, ast.ClassDef) else []


def own_codes() -> dict[str, list[str]]:
    """Return our own codes by section, as tests name them."""
    partition = [code.value for code in PartitionCode] + [reason.name for reason in StopReason]
    raised = [kind.code for kind in error_classes()]
    return {
        "Errors": raised,
        "Codes of a partition": [code for code in partition if code not in raised],
        "Codes of a refused topic": [f"refused:{code.value}" for code in RefusalCode],
        "Causes of a gap": [f"gap:{cause.value}" for cause in Cause],
    }


def broker_codes() -> list[str]:
    """Return the names of the brokers' error codes that we know."""
    return [row.name for number, row in sorted(KAFKA_ERRORS.items()) if number != 0]


def provoked_page() -> Iterator[str]:
    """Return the page of codes and the tests that provoke them on a real broker."""
    yield from provoked_codes.page(own_codes(), broker_codes(), provoked_codes.proofs())


def unproved() -> list[str]:
    """Return our codes that no test provokes, and markers with unknown codes."""
    return list(provoked_codes.problems(own_codes(), broker_codes(), provoked_codes.proofs()))


def invariants_page() -> Iterator[str]:
    """Return the page of numbered invariants and their predicates."""
    first, _, rest = inspect.cleandoc(invariants.__doc__ or "").partition("\n\n")
    listed, _, note = rest.partition("\n\n")
    yield from ("# Invariants", "", first, "", "```text", *listed.splitlines(), "```", "", note)
    yield from ("", "| predicate | states |", "|---|---|")
    for name, function in inspect.getmembers(invariants, inspect.isfunction):
        yield f"| `{name}` | {_first_paragraph(function)} |"


def _first_paragraph(documented: object) -> str:
    return _in_cell(_one_line((inspect.getdoc(documented) or "").partition("\n\n")[0]))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def status_page() -> Iterator[str]:
    """Return the page of the fields of `heliostat status --json`."""
    yield "# `heliostat status --json`"
    yield ""
    yield "A list with an object for each link. Fields are only added; `null` is what is not known."
    for kind, place in (
        (LinkStatus, "A link"),
        (TopicStatus, "`topics[]`"),
        (PartitionProblem, "`problems[]`"),
        (HeldBack, "`held_back[]`"),
        (LineUse, "`source_line`, `target_line`"),
    ):
        meanings = _member_docs(kind)
        yield from ("", f"## {place}", "", "| field | type | meaning |", "|---|---|---|")
        for each in dataclasses.fields(kind):
            cells = _json_type(str(each.type)), meanings[each.name].replace("None", "null")
            yield f"| `{each.name}` | {' | '.join(_in_cell(cell) for cell in cells)} |"
        if kind is LinkStatus:
            yield "| `in_sync` | true or false | Whether there is no reason against it. |"
            yield "| `why_not_in_sync` | list of text | The reasons; exit code 1 if there is one. |"


def _json_type(annotation: str) -> str:
    names = {"int": "whole number", "float": "number", "str": "text", "None": "null"}
    if annotation.startswith("list["):
        return f"list of {_json_type(annotation[5:-1])}"
    if annotation.startswith("dict["):
        return "object"
    return " or ".join(names.get(part.strip(), "object") for part in annotation.split("|"))


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "cli.md": cli_page,
    "config.md": config_page,
    "errors.md": errors_page,
    "errors-provoked.md": provoked_page,
    "invariants.md": invariants_page,
    "metrics.md": metrics_page,
    "rest.md": rest_page,
    "status.md": status_page,
}


def pages() -> dict[str, str]:
    """Return each page's name and text."""
    marked = {name: "\n".join([GENERATED, *page(), ""]) for name, page in PAGES.items()}
    return {**marked, "openapi.json": openapi_text()}


def stale_pages(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """Return the differences between the folder and the wanted pages, as lines to print."""
    said: list[str] = []
    for name, text in wanted.items():
        file = folder / name
        there = file.read_text(encoding="utf-8") if file.exists() else ""
        if there != text:
            lines = difflib.unified_diff(
                there.splitlines(), text.splitlines(), f"{name} (written)", name, lineterm="", n=1
            )
            said += list(lines)[:DIFFERENCE_LINES_MAX]
    unknown = sorted(file.name for file in folder.glob("*.md") if file.name not in wanted)
    return said + [f"{name}: no page of this tool" for name in unknown]


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with `--check` compare them; 1 if they differ."""
    wanted = pages()
    if "--check" in arguments:
        said = stale_pages(FOLDER, wanted)
        if said:
            print("\n".join(said))
            print("stale: run python tools/generate_reference.py")
        open_codes = unproved()
        print("\n".join(open_codes), end="\n" if open_codes else "")
        return 1 if said or open_codes else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
