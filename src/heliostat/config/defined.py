"""Links that are defined elsewhere, merged with those of the file; pure.

A definition comes from the network. It may name clusters of the file, and nothing that would be
read, called or connected to: no file, function, class or variable, unless `service.allow` names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.config.load import ConfigFile, check, field_path
from heliostat.config.model import Config
from heliostat.config.patterns import compile_pattern
from heliostat.names import LinkName

_VARIABLE = "${env:"
_CALLS_OUT = re.compile(
    r"\b(?:try_reflect|reflect|java_method|from_protobuf|to_protobuf)\b"
    r"|\(\s*(?:select|from|table|values|with)\b|/\*|--",
    re.IGNORECASE,
)
"""What in an expression of Spark SQL calls a Java class or reads a file: functions, and queries,
whose tables may be files. Comments might hide the beginning of a query."""
_DEPTH_MAX = 40
_EXPRESSIONS = frozenset({"where", "set", "cast"})
Place = tuple[str | int, ...]
_FILES: frozenset[Place] = frozenset({("topics", "start", "offsets"), ("access", "users_file")})
"""Fields that name a file which the link reads."""


@dataclass(frozen=True, slots=True)
class WholeConfig:
    """The file's configuration with the links that are defined elsewhere."""

    config: Config
    waits: Mapping[LinkName, tuple[str, ...]]
    """Those that are left out, each with what is wrong: `field: reason (got value)`."""


def with_definitions(
    file: ConfigFile, definitions: Mapping[LinkName, Mapping[str, Any]]
) -> WholeConfig:
    """Return the file's configuration with links that are defined elsewhere.

    One that is wrong, alone or beside those before it, is left out, and harms no other.

    Parameters
    ----------
    definitions
        What `links:` of the file would have, without its name, by name; the oldest first.
    """
    fit: dict[LinkName, Mapping[str, Any]] = {}
    waits: dict[LinkName, tuple[str, ...]] = {}
    for name, content in definitions.items():
        problems = tuple(_own_problems(file, name, content))
        if problems:
            waits[name] = problems
        else:
            fit[name] = content
    config, problems_of_all = _checked(file, fit)
    if config is not None and not problems_of_all:
        return WholeConfig(config, waits)
    whole, accepted = file.config, dict[LinkName, Mapping[str, Any]]()
    for name, content in fit.items():
        config, problems_of_all = _checked(file, {**accepted, name: content})
        if config is None or problems_of_all:
            where = f"links[{len(file.config.links) + len(accepted)}]."
            waits[name] = tuple(text.removeprefix(where) for text in dict.fromkeys(problems_of_all))
        else:
            whole, accepted[name] = config, content
    return WholeConfig(whole, waits)


def _checked(
    file: ConfigFile, definitions: Mapping[LinkName, Mapping[str, Any]]
) -> tuple[Config | None, list[str]]:
    links = [{**content, "name": name} for name, content in definitions.items()]
    return check({**file.raw, "links": [*file.raw["links"], *links]})


def _own_problems(file: ConfigFile, name: str, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a definition whatever its fields may hold."""
    if any(link.name.casefold() == name.casefold() for link in file.config.links):
        yield f"name: {file.path.name} has a link of that name, which counts (got {name!r})"
    if content.get("name", name) != name:
        yield f"name: the definition is of link {name} (got {content['name']!r})"
    for place, text, what in _reaching_out((), content):
        if not any(compile_pattern(entry).fullmatch(text) for entry in file.config.service.allow):
            yield (
                f"{field_path(place)}: {what} is taken from the file only, unless its "
                f"service.allow names it (got {text!r})"
            )


def _reaching_out(place: Place, value: Any) -> Iterator[tuple[Place, str, str]]:
    """Yield texts that name what lies outside of Kafka: their place, and what they name."""
    if len(place) > _DEPTH_MAX:
        yield place[:3], "...", "what is nested so deeply"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _reaching_out((*place, str(key)), inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _reaching_out((*place, index), inner)
    elif isinstance(value, str):
        if _VARIABLE in value:
            yield place, value, "a variable"
        elif place[:3] in _FILES or place[:2] in _FILES:
            yield place, value, "a file"
        elif place[:1] == ("pipelines",) and place[-1] == "function":
            yield place, value, "a Python function"
        elif place[:1] == ("pipelines",) and _is_reaching(place, value):
            yield place, value, "an expression that calls Java, or reads a table"


def _is_reaching(place: Place, text: str) -> bool:
    return bool(_EXPRESSIONS & set(place)) and _CALLS_OUT.search(text) is not None
