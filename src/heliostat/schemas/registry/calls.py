"""The requests of Confluent's API that Heliostat makes, each as a call with its reader.

Paths and bodies: Confluent's classes in `rest.resources` (8.4). Names in paths are percent-encoded
to the last slash and colon, as subjects may have both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from heliostat.schemas.registry import reading
from heliostat.schemas.registry.messages import Answer, Call, Method, Request
from heliostat.schemas.registry.values import (
    AVRO,
    DEFAULT_CONTEXT,
    Compatibility,
    Context,
    Mode,
    RegisteredSchema,
    Schema,
    SchemaId,
    SchemaVersion,
    Subject,
    SubjectVersion,
)

T = TypeVar("T")

LATEST = "latest"
"""Stands for a subject's newest version that isn't deleted."""
EVERY_CONTEXT = ":*:"
"""Prefix of subjects that stands for all contexts."""
_DELETED = (("deleted", "true"),)


def subjects(prefix: str = EVERY_CONTEXT, *, deleted: bool = False) -> Call[tuple[Subject, ...]]:
    """Names of all subjects, those in contexts with it in front.

    Parameters
    ----------
    prefix
        Only these. Apicurio 2.5 ignores it, so the names must be looked at again.
    deleted
        Whether subjects that are wholly soft-deleted are among them.
    """
    query = (("subjectPrefix", prefix), *(_DELETED if deleted else ()))
    return _get(
        "/subjects", lambda answer: reading.listed(answer, "subjects", reading.subject), query
    )


def versions(subject: Subject, *, deleted: bool = False) -> Call[tuple[SchemaVersion, ...]]:
    """A subject's versions; with `deleted` the soft-deleted ones, too."""
    return _get(
        f"{_of(subject)}/versions",
        lambda answer: reading.listed(answer, "versions", reading.version),
        _DELETED if deleted else (),
    )


def version(
    subject: Subject, number: SchemaVersion | None = None, *, deleted: bool = False
) -> Call[RegisteredSchema]:
    """One version of a subject; without a number the newest that is not deleted."""
    return _get(
        f"{_of(subject)}/versions/{LATEST if number is None else number}",
        reading.registered_schema,
        _DELETED if deleted else (),
    )


def schemas(
    prefix: str = EVERY_CONTEXT, *, deleted: bool = False, offset: int = 0
) -> Call[tuple[RegisteredSchema, ...]]:
    """A page of all versions of all subjects with their content, from the `offset`-th on.

    Confluent's registries only (5.5 and newer); a page has 1,000 (`schema.search.max.limit`).
    """
    query = (("subjectPrefix", prefix), *(_DELETED if deleted else ()), ("offset", str(offset)))
    return _get(
        "/schemas",
        lambda answer: reading.listed(answer, "schemas", reading.registered_schema),
        query,
    )


def schema_by_id(schema_id: SchemaId, context: Context = DEFAULT_CONTEXT) -> Call[Schema]:
    """The content of an id, soft-deleted or not.

    Parameters
    ----------
    schema_id
        The id in a record's frame.
    context
        Where it counts. It is asked for as the context of an empty subject, since a plain name
        would make the registry look through all contexts (`getSchemaKeyUsingContexts`).
    """
    query = () if context == DEFAULT_CONTEXT else (("subject", f":{context}:"),)
    return _get(f"/schemas/ids/{schema_id}", reading.schema, query)


def versions_of_id(
    schema_id: SchemaId, context: Context = DEFAULT_CONTEXT, *, deleted: bool = False
) -> Call[tuple[SubjectVersion, ...]]:
    """Which versions have the content of an id."""
    query = () if context == DEFAULT_CONTEXT else (("subject", f":{context}:"),)
    return _get(
        f"/schemas/ids/{schema_id}/versions",
        lambda answer: reading.listed(answer, "versions", reading.subject_version),
        (*query, *(_DELETED if deleted else ())),
    )


def register(
    subject: Subject,
    schema: Schema,
    *,
    schema_id: SchemaId | None = None,
    number: SchemaVersion | None = None,
) -> Call[SchemaId]:
    """Register a schema; its id is returned, also if the subject had it before.

    Parameters
    ----------
    subject, schema
        What is registered where. References must be there.
    schema_id, number
        In IMPORT mode only: the id and version that it must get. A registry that is no Confluent's
        may ignore them (Apicurio 2.5 does), so the id returned must be compared. Confluent's
        replaces a version that has other content (`KafkaSchemaRegistry.register` puts it without a
        look), so that must be looked at before.
    """
    body = _body(schema)
    if schema_id is not None:
        body["id"] = schema_id
    if number is not None:
        body["version"] = number
    return _send("POST", f"{_of(subject)}/versions", body, reading.schema_id)


def look_up(subject: Subject, schema: Schema, *, deleted: bool = False) -> Call[RegisteredSchema]:
    """The version of a subject that has this content; nothing is registered."""
    query = _DELETED if deleted else ()
    return _send("POST", _of(subject), _body(schema), reading.registered_schema, query)


def is_compatible(subject: Subject, schema: Schema) -> Call[bool]:
    """Whether the registry would accept a schema as the subject's next version."""
    path = f"/compatibility{_of(subject)}/versions/{LATEST}"
    return _send("POST", path, _body(schema), _is_compatible)


def delete_subject(
    subject: Subject, *, permanently: bool = False
) -> Call[tuple[SchemaVersion, ...]]:
    """Soft-delete all versions of a subject; permanently only what is soft-deleted already."""
    return _delete(
        _of(subject),
        lambda answer: reading.listed(answer, "versions", reading.version),
        permanently,
    )


def delete_version(
    subject: Subject, number: SchemaVersion, *, permanently: bool = False
) -> Call[SchemaVersion]:
    """Soft-delete one version; its id can still be read. Permanently only what is soft-deleted."""
    path = f"{_of(subject)}/versions/{number}"
    return _delete(path, lambda answer: reading.version(answer, "version"), permanently)


def compatibility(
    subject: Subject | None = None, *, inherited: bool = False
) -> Call[Compatibility]:
    """The compatibility of the default context, of another one (`:.summit:`), or of a subject.

    With `inherited`, what counts for the subject if it has none of its own.
    """
    query = (("defaultToGlobal", "true"),) if inherited else ()
    return _get(
        _setting("config", subject),
        lambda answer: reading.compatibility(answer, "compatibilityLevel"),
        query,
    )


def set_compatibility(level: Compatibility, subject: Subject | None = None) -> Call[Compatibility]:
    """Set the compatibility of the default context, of another one, or of a subject."""
    return _send(
        "PUT",
        _setting("config", subject),
        {"compatibility": level.value},
        lambda answer: reading.compatibility(answer, "compatibility"),
    )


def clear_compatibility(subject: Subject) -> Call[None]:
    """Take away the compatibility of a subject or context, so that the registry's counts again."""
    return _cleared(_setting("config", subject))


def mode(subject: Subject | None = None, *, inherited: bool = False) -> Call[Mode]:
    """The mode of the default context, of another one, or of a subject."""
    query = (("defaultToGlobal", "true"),) if inherited else ()
    return _get(_setting("mode", subject), reading.mode, query)


def set_mode(new: Mode, subject: Subject | None = None, *, force: bool = False) -> Call[Mode]:
    """Set the mode of the default context, of another one (`:.summit:`), or of a subject.

    Without a subject it is the default context's alone; `:.__GLOBAL:` stands for all that have none
    of their own (`InMemoryCache.mode`).

    IMPORT needs `force` where there are subjects. Without it, what is soft-deleted there is deleted
    permanently (`KafkaSchemaRegistry.setMode`), though records may still need it.
    """
    query = (("force", "true"),) if force else ()
    return _send("PUT", _setting("mode", subject), {"mode": new.value}, reading.mode, query)


def clear_mode(subject: Subject) -> Call[None]:
    """Take away the mode of a subject or context, so that the registry's counts again."""
    return _cleared(_setting("mode", subject))


def contexts() -> Call[tuple[Context, ...]]:
    """All contexts, the default one among them."""
    return _get("/contexts", lambda answer: reading.listed(answer, "contexts", reading.context))


def _of(subject: Subject) -> str:
    return f"/subjects/{_quoted(subject)}"


def _setting(kind: str, subject: Subject | None) -> str:
    return f"/{kind}" if subject is None else f"/{kind}/{_quoted(subject)}"


def _quoted(name: str) -> str:
    """A name as one part of a path; dots alone would lead to another folder (RFC 3986, 5.2.4)."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.schema_type != AVRO:  # old registries don't know the field
        body["schemaType"] = schema.schema_type
    if schema.references:
        body["references"] = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in schema.references
        ]
    for name, kept in (("metadata", schema.metadata), ("ruleSet", schema.rule_set)):
        if kept:
            body[name] = json.loads(kept)
    return body


def _get(path: str, read: Callable[[Any], T], query: tuple[tuple[str, str], ...] = ()) -> Call[T]:
    return Call(Request("GET", path, query), _of_json(read))


def _send(
    method: Method,
    path: str,
    body: dict[str, Any],
    read: Callable[[Any], T],
    query: tuple[tuple[str, str], ...] = (),
) -> Call[T]:
    # Repeatable: registering the same content twice, or setting the same twice, is once.
    text = json.dumps(body, separators=(",", ":"))  # ASCII: half of a surrogate pair survives
    return Call(Request(method, path, query, text), _of_json(read))


def _delete(path: str, read: Callable[[Any], T], permanently: bool) -> Call[T]:
    query = (("permanent", "true"),) if permanently else ()
    return Call(Request("DELETE", path, query), _of_json(read), is_repeatable=False)


def _cleared(path: str) -> Call[None]:
    return Call(Request("DELETE", path), lambda _: None, is_repeatable=False)


def _of_json(read: Callable[[Any], T]) -> Callable[[Answer], T]:
    return lambda answer: read(reading.json_of(answer))


def _is_compatible(answer: Any) -> bool:
    value = reading.field(answer, "is_compatible")
    return reading.boolean(value, "is_compatible")
