"""Reads answers strictly: what is missing, or of another type, is refused with where it is.

Fields that we don't know are left alone: registries add them. An id of 0 or a version of -1 in an
answer would be trusted for years, so numbers are checked, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from heliostat.errors import RegistryAnswerInvalid, RegistryError
from heliostat.schemas.registry.error_codes import registry_error
from heliostat.schemas.registry.messages import Answer
from heliostat.schemas.registry.values import (
    AVRO,
    Compatibility,
    Context,
    Mode,
    RegisteredSchema,
    Schema,
    SchemaId,
    SchemaReference,
    SchemaVersion,
    Subject,
    SubjectVersion,
)

T = TypeVar("T")

SHOWN_CHARS_MAX = 200
"""Of an answer that makes no sense: enough to recognise a proxy's page."""
ID_MAX = 2**31 - 1
"""Java's int; the frame of a record has four bytes for it."""


def json_of(answer: Answer) -> Any:
    """The JSON of an answer.

    Raises
    ------
    RegistryAnswerInvalid
        It is none.
    """
    try:
        return json.loads(answer.body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _invalid("the answer is no JSON", answer) from None


def error_of(answer: Answer) -> RegistryError | RegistryAnswerInvalid:
    """The error that an answer other than success stands for.

    Its `error_code` counts; Apicurio's 0 stands for none, and then HTTP's status counts, as it does
    where a proxy answers in the registry's place.
    """
    try:
        body = json_of(answer)
    except RegistryAnswerInvalid:
        body = None
    if not 400 <= answer.status < 600:
        return _invalid("the answer is neither success nor error", answer)
    code, words = answer.status, ""
    if isinstance(body, dict):
        said, message = body.get("error_code"), body.get("message")
        code = said if type(said) is int and said >= 400 else answer.status
        words = message if isinstance(message, str) else ""
    if words:
        return registry_error(words[:SHOWN_CHARS_MAX], code)
    return registry_error("the registry answers with an error", code, answer=_shown(answer))


def number(value: Any, where: str) -> int:
    """A whole number; JSON's `true` and `1.0` are none."""
    if type(value) is not int:
        _refuse(value, where, "a whole number")
    return value


def positive(value: Any, where: str) -> int:
    """A whole number from 1 to Java's largest int."""
    if not 1 <= number(value, where) <= ID_MAX:
        _refuse(value, where, f"a number from 1 to {ID_MAX}")
    return int(value)


def boolean(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        _refuse(value, where, "true or false")
    return value


def text(value: Any, where: str) -> str:
    """A text."""
    if not isinstance(value, str):
        _refuse(value, where, "a text")
    return value


def listed(value: Any, where: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """A list, each of its items read by `read`."""
    if not isinstance(value, list):
        _refuse(value, where, "a list")
    return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(value))


def field(value: Any, name: str, where: str = "") -> Any:
    """A field that must be there."""
    if not isinstance(value, dict) or name not in value:
        _refuse(value, where or "the answer", f"an object with {name}")
    return value[name]


def subject(value: Any, where: str) -> Subject:
    """A subject's name."""
    return Subject(text(value, where))


def context(value: Any, where: str) -> Context:
    """A context's name, `.` in front; Apicurio writes it between colons."""
    name = text(value, where).strip(":")
    if not name.startswith("."):
        _refuse(value, where, "a context's name")
    return Context(name)


def schema_id(value: Any, where: str = "") -> SchemaId:
    """The `id` of an object.

    Confluent's ids begin with 1, but IMPORT accepts 0 (`checkRegisterMode` compares with `>= 0`).
    """
    id_number = number(field(value, "id", where), f"{where} id".strip())
    if not 0 <= id_number <= ID_MAX:
        _refuse(id_number, f"{where} id".strip(), f"a number from 0 to {ID_MAX}")
    return SchemaId(id_number)


def schema(value: Any, where: str = "") -> Schema:
    """The content in an object: `schema`, and what belongs to it."""
    kind = value.get("schemaType") if isinstance(value, dict) else None
    schema_text = field(value, "schema", where)
    return Schema(
        text(schema_text, f"{where} schema".strip()),
        AVRO if kind is None else text(kind, f"{where} schemaType".strip()),
        listed(value.get("references") or [], f"{where} references".strip(), _reference),
        _kept(value, "metadata"),
        _kept(value, "ruleSet"),
    )


def registered_schema(value: Any, where: str = "") -> RegisteredSchema:
    """A version of a subject with its content."""
    return RegisteredSchema(
        subject(field(value, "subject", where), f"{where} subject".strip()),
        version(field(value, "version", where), f"{where} version".strip()),
        schema_id(value, where),
        schema(value, where),
        guid(value.get("guid"), f"{where} guid".strip()),
    )


def guid(value: Any, where: str) -> bytes:
    """The bytes of a GUID, which older registries leave out."""
    if value is None:
        return b""
    try:
        return UUID(text(value, where)).bytes
    except ValueError:
        _refuse(value, where, "a GUID")


def subject_version(value: Any, where: str) -> SubjectVersion:
    """A version's name."""
    return SubjectVersion(
        subject(field(value, "subject", where), f"{where}.subject"),
        version(field(value, "version", where), f"{where}.version"),
    )


def version(value: Any, where: str) -> SchemaVersion:
    """A version's number."""
    return SchemaVersion(positive(value, where))


def compatibility(value: Any, name: str) -> Compatibility:
    """A compatibility, from the field of this name."""
    level_name = text(field(value, name), name)
    try:
        return Compatibility(level_name)
    except ValueError:
        _refuse(level_name, name, "a compatibility that we know")


def mode(value: Any) -> Mode:
    """A mode."""
    mode_name = text(field(value, "mode"), "mode")
    try:
        return Mode(mode_name)
    except ValueError:
        _refuse(mode_name, "mode", "a mode that we know")


def _reference(value: Any, where: str) -> SchemaReference:
    return SchemaReference(
        text(field(value, "name", where), f"{where}.name"),
        subject(field(value, "subject", where), f"{where}.subject"),
        version(field(value, "version", where), f"{where}.version"),
    )


def _kept(value: dict[str, Any], name: str) -> str:
    """JSON that is carried unread, the same text for the same content."""
    member = value.get(name)
    return "" if member is None else json.dumps(member, sort_keys=True, ensure_ascii=False)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _invalid(what: str, answer: Answer) -> RegistryAnswerInvalid:
    return RegistryAnswerInvalid(what, status=answer.status, answer=_shown(answer))


def _shown(answer: Answer) -> str:
    return answer.body[: SHOWN_CHARS_MAX * 4].decode("utf-8", "replace")[:SHOWN_CHARS_MAX]


def _refuse(value: Any, where: str, wanted: str) -> NoReturn:
    value_text = repr(value)[:SHOWN_CHARS_MAX]
    raise RegistryAnswerInvalid(f"{where} should be {wanted}", found=value_text)
