"""`heliostat config`: the configuration as it is in force, defaults included, without any secret.

What may be one is never shown: what stands in sections with credentials (`may_be_shown`, as in
messages), Spark's own settings, and texts that pipelines write or look for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from heliostat.config import Config, LinkConfig
from heliostat.config.security import SECRET_KEYS, SecretConfig, may_be_shown

Where = tuple[str | int, ...]
HIDDEN = "(not shown)"
_FIELD_STEPS = frozenset({"json_fields", "avro_fields"})
_SHOWN_OF_FIELDS = frozenset(
    {"column", "schema_ddl", "reader_schema", "cast", "rename", "drop", "flatten", "to_key"}
)
_HEADER_STEPS = frozenset({"keep_with_header", "drop_with_header"})
_SHOWN_STEPS = frozenset({"function", "drop_tombstones", "rename_headers", "drop_headers"})
"""Steps, and keys of steps, whose values are names and types."""
_EXPRESSIONS = frozenset({"where", "set"})
_QUOTES = "'\""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that is in force."""

    path: str
    """Where it stands in the file; parts of links and pipelines are named."""
    value: Any
    """As JSON; `(not shown)` for what may be a secret."""
    is_default: bool
    """Whether it is what holds if nothing is said."""

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self)


def settings_in_force(config: Config, link: LinkConfig | None = None) -> list[Setting]:
    """Return all that is in force, or what concerns one link: its own, and its two clusters."""
    rows = _settings(config, (), "", is_default=False)
    rows = (row for row in rows if not row.path.startswith("defaults."))  # merged into links
    if link is None:
        return list(rows)
    kept = f"links.{link.name}.", f"clusters.{link.source}.", f"clusters.{link.target}."
    return [row for row in rows if row.path.startswith(kept)]


def _settings(value: object, where: Where, path: str, *, is_default: bool) -> Iterator[Setting]:
    """Yield settings below a value; `where` is its place in the file, `path` that for people."""
    if isinstance(value, SecretConfig):
        yield Setting(path, HIDDEN, is_default)
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            own = getattr(value, name)
            usual = not field.is_required() and own == field.get_default()
            yield from _settings(own, (*where, name), _below(path, name), is_default=usual)
    elif isinstance(value, Mapping) and value:
        for name, own in value.items():
            key = (*where, str(name))
            yield from _settings(own, key, _below(path, str(name)), is_default=is_default)
    elif isinstance(value, tuple) and any(isinstance(element, BaseModel) for element in value):
        for place, own in enumerate(value):
            name = str(getattr(own, "name", place))
            key = (*where, place)
            yield from _settings(own, key, _below(path, name), is_default=is_default)
    else:
        yield Setting(path, _shown(value, where, is_default=is_default), is_default)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: object, where: Where, *, is_default: bool) -> Any:
    if value is None or is_default or isinstance(value, bool):
        return to_jsonable_python(value)
    if isinstance(value, tuple):
        return [
            _shown(element, (*where, place), is_default=False)
            for place, element in enumerate(value)
        ]
    if where[:2] == ("spark", "conf") or SECRET_KEYS & set(where) or _has_credentials(value):
        return HIDDEN
    if where[0] == "links" and "steps" in where:
        return _of_step(value, [str(part) for part in where[where.index("steps") + 2 :]])
    return to_jsonable_python(value) if may_be_shown(where, value) else HIDDEN


def _has_credentials(value: object) -> bool:
    """Whether a text may be an address with user and password."""
    return isinstance(value, str) and "//" in value and "@" in value


def _of_step(value: object, keys: list[str]) -> Any:
    """Return a value of a step; of expressions all from the first quote to the last is left out.

    `keys` are those below the step's number: names of headers and fields may be among them.
    """
    kind, key = keys[0], keys[1] if len(keys) > 1 else ""
    if (key if kind in _FIELD_STEPS else kind) in _EXPRESSIONS:
        return _without_texts(str(value))
    is_name = (
        kind in _SHOWN_STEPS
        or (kind in _FIELD_STEPS and key in _SHOWN_OF_FIELDS)
        or (kind in _HEADER_STEPS and key == "name")
    )
    return to_jsonable_python(value) if is_name else HIDDEN


def _without_texts(expression: str) -> str:
    """Whatever a dialect takes for the end of a text, none ends behind the last quote."""
    places = [place for place, letter in enumerate(expression) if letter in _QUOTES]
    if not places:
        return expression
    first, last = places[0], places[-1]
    end = expression[last:] if last > first else ""
    return f"{expression[: first + 1]}…{end}"
