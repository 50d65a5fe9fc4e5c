"""Which steps of a pipeline do what one of Kafka's transformations does to records.

Values are taken for JSON objects without a schema. Kafka's own classes are compared with the result
in `tests/peer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from heliostat.date_patterns import DatePattern

Step = dict[str, Any]
Options = Mapping[str, str]
PACKAGE = "org.apache.kafka.connect.transforms."
_TYPES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
}
_UNITS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


class NotCarried(Exception):
    """A transformation that no step does; its text says why."""


class Transform(NamedTuple):
    """One transformation of a chain."""

    kind: str
    """Its class, without package and `$Key` or `$Value`."""
    column: str
    """`key` or `value`, as its class says; empty: neither."""
    options: Options

    @property
    def changes_fields(self) -> bool:
        """Whether it changes fields of keys or values."""
        return self.kind in FIELD_STEPS


def transform_of(options: Options) -> Transform:
    """Return a transformation.

    Parameters
    ----------
    options
        Its properties by their last names, `type` among them.

    Raises
    ------
    NotCarried
        It is none of Kafka's own.
    """
    name = options.get("type", "").strip()
    kind, _, side = name.removeprefix(PACKAGE).partition("$")
    if not name.startswith(PACKAGE) or (kind not in STEPS and kind not in OTHERS):
        raise NotCarried(f"{name or 'without a type'} is none of Kafka's own; write a step for it")
    return Transform(kind, side.lower(), options)


def steps_of(transform: Transform, naming: str) -> list[Step]:
    """Return the steps that do the same.

    Parameters
    ----------
    transform
        What Kafka does.
    naming
        Format of a mirror's name, which Kafka puts where a record's topic is wanted.

    Raises
    ------
    NotCarried
        There are none.
    """
    if transform.kind == "InsertField" and naming != "${topic}":
        _check_no_topic(transform.options)
    return STEPS[transform.kind](transform)


def _check_no_topic(options: Options) -> None:
    if options.get("topic.field"):
        raise NotCarried(
            "topic.field got the mirror's name, and json_fields.insert_origin puts the source's"
        )


def _names(options: Options, key: str) -> list[str]:
    return [entry.strip() for entry in options.get(key, "").split(",") if entry.strip()]


def _pairs(options: Options, key: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for entry in _names(options, key):
        name, _, other = entry.partition(":")
        pairs[name.strip()] = other.strip()
    return pairs


def _given(options: Options, key: str) -> str:
    value = options.get(key, "").strip()
    if not value:
        raise NotCarried(f"{key} is missing")
    return value


def _json(transform: Transform, **changes: Any) -> Step:
    column = {"column": "key"} if transform.column == "key" else {}
    return {"json_fields": {**column, **changes}}


def _insert_field(transform: Transform) -> list[Step]:
    options = transform.options
    if options.get("offset.field"):
        raise NotCarried(
            "offset.field is for sinks, Kafka refuses it here; json_fields.insert_origin does it"
        )
    places = {}
    for what in ("topic", "partition", "timestamp"):
        if name := options.get(f"{what}.field", "").rstrip("?!"):
            places[what] = name
    changes: dict[str, Any] = {"insert_origin": places} if places else {}
    if name := options.get("static.field", "").rstrip("?!"):
        changes["insert"] = {name: options.get("static.value", "")}
    return [_json(transform, **changes)] if changes else []


def _replace_field(transform: Transform) -> list[Step]:
    options = transform.options
    drop = _names(options, "exclude") or _names(options, "blacklist")
    only = _names(options, "include") or _names(options, "whitelist")
    rename = _pairs(options, "renames")
    steps = []
    if drop:
        steps.append(_json(transform, drop=drop))
    if only:
        steps.append(_json(transform, only=only))
    return [*steps, _json(transform, rename=rename)] if rename else steps


def _mask_field(transform: Transform) -> list[Step]:
    instead = transform.options.get("replacement") or None
    return [_json(transform, mask=dict.fromkeys(_names(transform.options, "fields"), instead))]


def _cast(transform: Transform) -> list[Step]:
    casts: dict[str, str] = {}
    for entry in _names(transform.options, "spec"):
        name, _, kind = entry.rpartition(":")
        if kind.strip().lower() not in _TYPES:
            raise NotCarried(f"{kind} is no type of a cast")
        casts[name.strip()] = _TYPES[kind.strip().lower()]
    return [_json(transform, cast=casts)]


def _flatten(transform: Transform) -> list[Step]:
    return [_json(transform, flatten=transform.options.get("delimiter", "."))]


def _value_to_key(transform: Transform) -> list[Step]:
    return [{"json_fields": {"to_key": _names(transform.options, "fields")}}]


def _timestamp_converter(transform: Transform) -> list[Step]:
    options = transform.options
    target = options.get("target.type", "").strip().lower()
    if target not in {"string", "unix"}:
        raise NotCarried(f"target.type {target or 'is missing,'} is no type that JSON has")
    unit = options.get("unix.precision", "milliseconds").strip().lower()
    change: dict[str, Any] = {"to": "text" if target == "string" else "number"}
    if pattern := options.get("format", "").strip():
        try:
            DatePattern(pattern)
        except ValueError as error:
            raise NotCarried(f"its format: {error}") from None
        change["format"] = pattern
    elif target == "string":
        raise NotCarried("format is missing")
    if unit != "milliseconds":
        change["unit"] = _UNITS[unit]
    return [_json(transform, times={options.get("field", "").strip(): change})]


def _hoist_field(transform: Transform) -> list[Step]:
    return [_json(transform, hoist=_given(transform.options, "field"))]


def _extract_field(transform: Transform) -> list[Step]:
    path = [_given(transform.options, "field")]
    if transform.options.get("field.syntax.version", "V1").strip().upper() == "V2":
        if "`" in path[0]:
            raise NotCarried("its field has backticks: give the names of the path as a list")
        path = path[0].split(".")
    return [_json(transform, extract=path)]


def _header_from(transform: Transform) -> list[Step]:
    options = transform.options
    fields, headers = _names(options, "fields"), _names(options, "headers")
    changes: dict[str, Any] = {"to_headers": dict(zip(fields, headers, strict=False))}
    if options.get("operation", "").strip().lower() == "move":
        changes["drop"] = fields
    return [_json(transform, **changes)]


def _insert_header(transform: Transform) -> list[Step]:
    text = transform.options.get("value.literal", "")
    try:
        content = json.loads(text)
    except ValueError:
        content = text
    literal = content if isinstance(content, str) else text
    return [{"insert_headers": {_given(transform.options, "header"): literal}}]


def _drop_headers(transform: Transform) -> list[Step]:
    return [{"drop_headers": _names(transform.options, "headers")}]


FIELD_STEPS: dict[str, Callable[[Transform], list[Step]]] = {
    "InsertField": _insert_field,
    "ReplaceField": _replace_field,
    "MaskField": _mask_field,
    "Cast": _cast,
    "Flatten": _flatten,
    "ValueToKey": _value_to_key,
    "TimestampConverter": _timestamp_converter,
    "HoistField": _hoist_field,
    "ExtractField": _extract_field,
    "HeaderFrom": _header_from,
}
STEPS: dict[str, Callable[[Transform], list[Step]]] = {
    **FIELD_STEPS,
    "InsertHeader": _insert_header,
    "DropHeaders": _drop_headers,
}
OTHERS = frozenset({"Filter", "RegexRouter", "TimestampRouter", "SetSchemaMetadata"})
"""What is no step of one record: `config_transforms` knows them."""
