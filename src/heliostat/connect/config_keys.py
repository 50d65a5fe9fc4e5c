"""The properties that Kafka Connect 4.3.0 knows of each class, as its own answers list them; pure.

`config_keys.json` was taken from a worker, see tests/kafka/test_connect_oracle.py, which compares.
Descriptions are left out: docs/reference has what a link makes of each.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "config_keys.json"
_NUMBERS = {"SHORT": 15, "INT": 31, "LONG": 63}
MINIMA = {"tasks.max": 1}
CHOICES = {
    "offset-syncs.topic.location": ("source", "target"),
    "errors.tolerance": ("none", "all"),
    "config.action.reload": ("none", "restart"),
}
"""What a property of ours takes; Connect's answers don't list these."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A property: what a definition of it says."""

    name: str
    type: str
    required: bool
    default: str | None
    importance: str
    group: str | None
    order: int
    width: str
    display_name: str
    dependents: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as Connect does."""
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "default_value": self.default,
            "importance": self.importance,
            "documentation": "",
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width,
            "display_name": self.display_name,
            "dependents": list(self.dependents),
        }

    def wrong(self, value: str) -> str | None:
        """Return what is wrong with a value, in Kafka's words; None: nothing."""
        reason = self._reason(value.strip())
        return reason and f"Invalid value {value} for configuration {self.name}: {reason}"

    def _reason(self, value: str) -> str | None:
        if self.type == "BOOLEAN" and value.lower() not in {"true", "false"}:
            return "Expected value to be either true or false"
        if self.type in _NUMBERS:
            return self._wrong_number(value)
        if self.type == "DOUBLE":
            try:
                float(value)
            except ValueError:
                return "Not a number of type DOUBLE"
        choices = CHOICES.get(self.name)
        if choices is not None and value not in choices:
            return f"String must be one of: {', '.join(choices)}"
        return None

    def _wrong_number(self, value: str) -> str | None:
        if re.fullmatch(r"[+-]?\d{1,19}", value) is None:
            return f"Not a number of type {self.type}"
        limit = 1 << _NUMBERS[self.type]
        if not -limit <= int(value) < limit:
            return f"Not a number of type {self.type}"
        least = MINIMA.get(self.name)
        if least is not None and int(value) < least:
            return f"Value must be at least {least}"
        return None


@cache
def keys_of(kind: str) -> tuple[ConfigKey, ...]:
    """Return the properties of a class; of one that Kafka has not: those of all connectors."""
    content = json.loads(_FILE.read_text(encoding="utf-8"))
    keys = content["keys"]
    rows = [
        [key, *keys[key]] if isinstance(key, str) else key
        for key in content.get(kind, content["other"])
    ]
    return tuple(_key(row) for row in rows)


def _key(row: list[Any]) -> ConfigKey:
    named = dict(zip((field.name for field in fields(ConfigKey)), row, strict=True))
    return ConfigKey(**named | {"dependents": tuple(named["dependents"])})


def groups_of(kind: str) -> list[str]:
    """Return the names of the groups of a class's properties."""
    return list(dict.fromkeys(key.group for key in keys_of(kind) if key.group))
