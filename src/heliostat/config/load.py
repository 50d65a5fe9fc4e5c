"""From a YAML file to `Config`, or to the list of everything that is wrong with it."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import override

from heliostat.config import model
from heliostat.config.checks import (
    cross_problems,
    group_naming_problems,
    merge_problems,
    progress_group_problems,
    registry_topic_problems,
    schema_problems,
    target_problems,
)
from heliostat.config.model import Config
from heliostat.config.security import is_secret, may_be_shown
from heliostat.errors import ConfigError

FILE_BYTES_MAX = 4 << 20  # bytes; thousands of links fit, a log file given by mistake does not
SHOWN_CHARACTERS_MAX = 80  # of a value in a message; long enough to find it, short enough to read
_ENVIRONMENT = re.compile(r"\$\{env:([^}]*)\}")
_OURS = re.compile(r"""^(clusters|links)\s*:|["'](clusters|links)["']\s*:""", re.MULTILINE)
_MIRROR_MAKER = re.compile(
    r"""^[\w.>-]*\.?bootstrap\.servers\s*[=:]|^[^\s=:]+->[^\s=:]+\.\w|\bconnector\.class\b"""
    r"|KafkaMirrorMaker2",
    re.MULTILINE,
)
"""Its properties, its connectors, or Strimzi's resource."""
_REPLACED_WHOLE = frozenset({"naming", "start"})  # choices: a mix of two would be neither
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file that was accepted."""

    path: Path
    raw: Mapping[str, Any]
    """What it holds, with variables of the environment filled in; no secrets."""
    config: Config


def load_config(path: str | Path, env: Mapping[str, str] | None = None) -> Config:
    """Read, merge and check the configuration file, see `read_config_file`."""
    return read_config_file(path, env).config


def read_config_file(path: str | Path, env: Mapping[str, str] | None = None) -> ConfigFile:
    """Read, merge and check the configuration file; touches no cluster.

    Parameters
    ----------
    path
        The YAML file.
    env
        Variables for `${env:NAME}` in values; the process's environment by default.

    Raises
    ------
    ConfigError
        The file is refused. It has *all* problems, each as `field: reason (got value)`.
    """
    raw, problems = _read(Path(path))
    if not isinstance(raw, dict):
        raise _refusal(path, problems)
    try:
        raw = _with_environment(raw, os.environ if env is None else env, (), problems)
    except RecursionError:
        raise _refusal(
            path, [*problems, f"file: a value holds itself (got {str(path)!r})"]
        ) from None
    config, more = check(raw)
    problems.extend(more)
    if config is None or problems:
        raise _refusal(path, problems)
    return ConfigFile(Path(path), raw, config)


def check(raw: dict[str, Any]) -> tuple[Config | None, list[str]]:
    """Return what a file holds as values, if it can be, and everything that is wrong with it."""
    problems = list(cross_problems(raw))
    try:
        config = Config.model_validate(_merged(raw))
    except ValidationError as error:
        return None, [*problems, *_worded(error, raw)]
    problems.extend(target_problems(config))
    problems.extend(merge_problems(config))
    problems.extend(schema_problems(config))
    problems.extend(progress_group_problems(config))
    problems.extend(group_naming_problems(config))
    problems.extend(registry_topic_problems(config))
    return config, problems


def _refusal(path: str | Path, problems: list[str]) -> ConfigError:
    return ConfigError(f"{path} is refused", problems=tuple(dict.fromkeys(problems)))


def _read(path: Path) -> tuple[Any, list[str]]:
    """Return what the file holds, if it is a map of ours, and what is wrong with it."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            return None, [f"file: larger than {FILE_BYTES_MAX} bytes (got {str(path)!r})"]
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None, [f"file: no such file (got {str(path)!r})"]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        return None, [f"file: cannot be read: {why} (got {str(path)!r})"]
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> tuple[Any, list[str]]:
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        what = f"{error.reason}, at character {error.position}"
        return None, [f"file: bad YAML: {what} (got {str(path)!r})"]
    try:
        raw = loader.get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        words = f"bad YAML in line {mark.line + 1}" if mark is not None else "bad YAML"
        if _OURS.search(text) is None:
            return None, [_not_ours(path, text, words)]
        reason = getattr(error, "problem", None) or str(error) or type(error).__name__
        return None, [*loader.problems, f"file: {words}: {reason} (got {str(path)!r})"]
    finally:
        loader.dispose()
    if not isinstance(raw, dict) or not {"clusters", "links"} & raw.keys():
        return None, [_not_ours(path, text, "must be a map with clusters and links")]
    return raw, loader.problems


def _not_ours(path: Path, text: str, words: str) -> str:
    """Say that a file is another program's; nothing of it is shown, as it may hold secrets."""
    hint = ""
    if _MIRROR_MAKER.search(text) is not None:
        hint = f"; this looks like MirrorMaker 2's: heliostat import-mm2 {path}"
    return f"file: {words}{hint} (got {str(path)!r})"


class _Loader(yaml.SafeLoader):
    """Reports keys given twice, which YAML forbids: PyYAML would silently take the last one."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problems: list[str] = []

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        key_lines: dict[object, int] = {}
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if key_node.value == "<<" or not isinstance(key_node, yaml.ScalarNode):
                continue
            if key_node.value in key_lines:
                first = key_lines[key_node.value]
                self.problems.append(
                    f"line {line}: key given twice, first in line {first} (got {key_node.value!r})"
                )
            key_lines.setdefault(key_node.value, line)
        return super().construct_mapping(node, deep=deep)


def _time(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    """Read a time; one that is none, as 2026-13-45, says its line."""
    try:
        return loader.construct_yaml_timestamp(node)
    except ValueError as error:
        words = f"{node.value} is no time: {error}"
        raise yaml.constructor.ConstructorError(None, None, words, node.start_mark) from None


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _time)


def _with_environment(value: Any, env: Mapping[str, str], where: _Path, problems: list[str]) -> Any:
    if isinstance(value, dict):
        return {k: _with_environment(v, env, (*where, k), problems) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_environment(v, env, (*where, i), problems) for i, v in enumerate(value)]
    if not isinstance(value, str) or is_secret(where):
        return value  # secrets never get into these values: their fields refuse any text

    def look_up(match: re.Match[str]) -> str:
        if match[1] not in env:
            problems.append(f"{field_path(where)}: no such environment variable (got {match[0]!r})")
        return env.get(match[1], "")

    return _ENVIRONMENT.sub(look_up, value)


def _merged(raw: dict[str, Any]) -> dict[str, Any]:
    defaults, links = raw.get("defaults"), raw.get("links")
    if not isinstance(defaults, dict) or not isinstance(links, list):
        return raw
    own = {key: value for key, value in defaults.items() if key in model.LinkSettings.model_fields}
    return raw | {
        "links": [_merge(own, link) if isinstance(link, dict) else link for link in links]
    }


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict) and key not in _REPLACED_WHOLE
        merged[key] = _merge(old, value) if both else value  # type: ignore[arg-type] # both are
    return merged


def _worded(error: ValidationError, raw: dict[str, Any]) -> Iterator[str]:
    for detail in error.errors(include_url=False):
        if detail["type"] == "too_short" and detail["input"]:
            continue  # reported of a list whose entries were refused; each is reported itself
        where = tuple(part for part in detail["loc"] if not str(part).startswith(":"))
        if where[:1] == ("links",) and _is_inherited(where, raw):
            continue  # reported once, where it is: under defaults
        yield f"{field_path(where)}: {_reason(detail, where)}{_got(detail, where)}"


def _is_inherited(where: _Path, raw: dict[str, Any]) -> bool:
    """Whether a link's value at a path comes from `defaults`."""
    if len(where) < 3:  # a link itself
        return False
    return not _present(raw, where) and _present(raw.get("defaults"), where[2:])


def _present(node: Any, where: _Path) -> bool:
    for part in where:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


_NOT_QUOTED = ("missing", "extra_forbidden")
"""What a key that is none of ours holds may be a secret of another program."""
_REASONS = {
    "missing": "must be given",
    "model_type": "must be a map",
    "dict_type": "must be a map",
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
}


def _reason(detail: ErrorDetails, where: _Path) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    reason = _REASONS.get(kind, detail["msg"][:1].lower() + detail["msg"][1:])
    if kind == "extra_forbidden":
        reason = "unknown key" + _nearest(where)
    elif kind == "value_error":
        reason = str(context.get("error", reason))
    elif kind == "string_pattern_mismatch":
        reason = f"must match {context.get('pattern')}"
    return reason


def _nearest(where: _Path) -> str:
    """Return which key of the section was meant, wherever that is."""
    sections: list[type[BaseModel]] = [Config]
    for part in where[:-1]:
        inner = [
            subsection
            for section in sections
            if isinstance(part, str) and part in section.model_fields
            for subsection in _sections_in(section.model_fields[part].annotation)
        ]
        sections = inner or sections  # a place in a list, a name in a map, or one of several
    keys = [key for section in sections for key in section.model_fields]
    if where[-1] in keys:
        return " here: it stands alone, not beside the others"
    close = difflib.get_close_matches(str(where[-1]), keys, n=1)
    return f", did you mean {close[0]}?" if close else ""


def _sections_in(kind: object) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind):
        yield from _sections_in(inner)


def _got(detail: ErrorDetails, where: _Path) -> str:
    if detail["type"] in _NOT_QUOTED or not may_be_shown(where, detail["input"]):
        return ""
    return f" (got {_shown(detail['input'])})"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        text = '"' + value.replace("\n", "\\n") + '"'
    else:
        text = repr(value) if value is not None else "nothing"
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[: SHOWN_CHARACTERS_MAX - 3] + "..."


def field_path(where: _Path) -> str:
    """Return a place in the file as people write it."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "file"
