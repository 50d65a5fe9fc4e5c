"""Which steps do to Avro records what Kafka's transformations do, where a converter has read them.

Each is made of the step for JSON: what `avro_fields` has under the same name does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heliostat.mm2.config_draft import LinkDraft
from heliostat.mm2.config_schemas import mirror_schemas
from heliostat.mm2.config_transform_steps import NotCarried, Step

SAME = frozenset({"drop", "rename", "mask", "cast", "flatten", "hoist", "to_headers", "column"})
"""What both kinds of steps have, and do alike."""
WHY_NOT = {
    "only": "name the fields to drop: avro_fields has no list of those that stay",
    "insert_origin": "avro_fields has no place of a record; insert_origin puts it into headers",
    "times": "avro_fields.set with an expression of Spark SQL does it",
    "to_key": "keys would be JSON: write avro_fields.to_key if your readers take that",
}

WHY_NOT_JOINED = "the records are Avro, and a column has one step of avro_fields, in which"


def avro_steps(steps: Iterable[Step]) -> list[Step]:
    """Return the steps that do to Avro records what these do to JSON objects.

    Raises
    ------
    NotCarried
        There are none.
    """
    return [
        {"avro_fields": _changes(step["json_fields"])} if "json_fields" in step else step
        for step in steps
    ]


def _changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    avro_fields: dict[str, Any] = {}
    for name, content in changes.items():
        if name in WHY_NOT:
            raise NotCarried(f"the records are Avro: {WHY_NOT[name]}")
        if name == "insert":
            avro_fields["set"] = {field: _literal(text) for field, text in content.items()}
            avro_fields["cast"] = dict.fromkeys(content, "string")
        elif name == "cast":
            avro_fields[name] = {field: _cast(field, kind) for field, kind in content.items()}
        elif name == "extract" and len(content) > 1:
            raise NotCarried("the records are Avro: avro_fields.extract takes one name")
        else:
            avro_fields[name] = content
    return avro_fields


def _cast(field: str, kind: str) -> str:
    if not field:
        raise NotCarried("the records are Avro: avro_fields casts fields, not the whole content")
    if kind in {"tinyint", "smallint"}:
        raise NotCarried(f"the records are Avro, which has no {kind}: take int")
    return kind


def _literal(text: str) -> str:
    """Return a text in Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def joined(first: Step, other: Step) -> Step | None:
    """Return two steps for Avro fields as one, as a column may have; None: they are of two columns.

    Within one step the order of changes is given, so two may be joined that change other fields.

    Raises
    ------
    NotCarried
        They change the same field, or one of them changes all.
    """
    before, after = first["avro_fields"], other["avro_fields"]
    if before.get("column") != after.get("column"):
        return None
    last = ("extract", "hoist")
    if any(name in before for name in last) or ("flatten" in before and not after.keys() & last):
        raise NotCarried(f"{WHY_NOT_JOINED} the whole content was changed before")
    if both := _fields(before) & _fields(after):
        raise NotCarried(f"{WHY_NOT_JOINED} {', '.join(sorted(both))} was changed before")
    changes = dict(before)
    for name, content in after.items():
        match changes.get(name), content:
            case dict() as old, dict():
                changes[name] = old | content
            case list() as old, list():
                changes[name] = [*old, *content]
            case _:
                changes[name] = content
    return {"avro_fields": changes}


def _fields(changes: Mapping[str, Any]) -> set[str]:
    """Return the fields that changes name, by names before and after."""
    names: set[str] = set()
    for name in ("set", "cast", "to_headers", "mask", "rename", "drop"):
        names.update(changes.get(name, ()))
    return names.union(changes.get("rename", {}).values())


def rewrite_changed(draft: LinkDraft) -> None:
    """Let a link mirror schemas whose pipelines change Avro records: these get their own.

    Ids were the target's as well where a converter has written the records.
    """
    steps = (step for pipeline in draft.pipelines for step in pipeline["steps"])
    if not any("avro_fields" in step for step in steps):
        return
    if "schemas" not in draft.parts:
        mirror_schemas(draft, None)
    draft.put("schemas", "strategy", "rewrite")
    draft.ledger.must_do(
        f"link {draft.flow.name} changes Avro records: schemas.strategy is rewrite, so records get "
        "the ids of the target's registry; look at what heliostat try shows before the first run"
    )
