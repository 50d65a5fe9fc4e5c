"""Random JSON texts, and what is read of them and of their changes by Python's own reader."""

from __future__ import annotations

import json
import random
from typing import Any

from heliostat.records.rows.json_changes import JsonChanges

NAMES = ("name", "id", "secret", "", "é", 'a"b', "a\\b", "new", "tab\t", "😀", "nam", "names")
NUMBERS = ("0", "-0", "7", "12345678901234567890123", "1.50", "-2e+10", "3E-7", "0.0")


class Number(str):
    """A number as it stands in a text."""

    __slots__ = ()


class Members(tuple[tuple[str, Any], ...]):
    """An object; fields may be there twice."""

    __slots__ = ()


def read(text: str | bytes) -> Any:
    """Read a text; numbers as they stand there.

    Raises
    ------
    ValueError
        It is no JSON.
    """

    def refuse(word: str) -> None:
        raise ValueError(word)

    if isinstance(text, bytes):
        text = text.decode()
    return json.loads(
        text,
        object_pairs_hook=Members,
        parse_int=Number,
        parse_float=Number,
        parse_constant=refuse,
    )


def changed(changes: JsonChanges, found: Members) -> Members | None:
    """An object after changes; None: two of its fields would have one name."""
    masks, renames = dict(changes.masks), dict(changes.renames)
    kept = []
    for name, value in found:
        new = renames.get(name, name)
        if new in changes.drops:
            continue
        kept.append((name, new, _masked(value, masks[name]) if name in masks else value))
    for new in renames.values():
        if len({name for name, given, _ in kept if given == new}) > 1:
            return None
    return Members((new, value) for _, new, value in kept)


def _masked(value: Any, instead: str | None) -> Any:
    if value is None:
        return None
    if instead is None:
        return {str: "", Number: Number("0"), bool: False}.get(type(value))
    if isinstance(value, Number) and instead in NUMBERS:
        return Number(instead)
    if isinstance(value, bool) and instead in ("true", "false"):
        return instead == "true"
    return instead


def random_changes(rng: random.Random) -> JsonChanges:
    """Changes of some fields."""
    one, two, three, four = rng.sample(NAMES, 4)
    return JsonChanges(
        masks=rng.choice([(), ((one, None), (two, rng.choice(["x'\"é", "", "12", "true"])))]),
        renames=rng.choice([(), ((three, "new"),), ((three, "other"), (one, three))]),
        drops=rng.choice([(), (four,), (four, "new"), (two, three)]),
    )


def random_object(rng: random.Random, depth: int = 0) -> str:
    """An object's text, with white space and escapes."""
    members = [
        f"{_space(rng)}{_string(rng, rng.choice(NAMES))}{_space(rng)}:{_value(rng, depth + 1)}"
        for _ in range(rng.randrange(7))
    ]
    return f"{_space(rng)}{{{','.join(members) or _space(rng)}}}{_space(rng)}"


def _value(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind > 5:
        return random_object(rng, depth)
    if kind == 5:
        return f"{_space(rng)}[{','.join(_value(rng, depth + 1) for _ in range(3))}]{_space(rng)}"
    word = rng.choice(("true", "false", "null"))
    text = (word, rng.choice(NUMBERS), _string(rng, rng.choice(NAMES) * rng.randrange(20)))
    return f"{_space(rng)}{text[kind % 3]}{_space(rng)}"


def _space(rng: random.Random) -> str:
    return "".join(rng.choices(" \t\n\r", k=rng.randrange(3))) if rng.random() < 0.3 else ""


def _string(rng: random.Random, text: str) -> str:
    if rng.random() < 0.5:
        return json.dumps(text, ensure_ascii=rng.random() < 0.5)
    units = text.encode("utf-16-be")
    escaped = [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    if rng.random() < 0.5:
        return f'"{"".join(escaped).upper().replace("U", "u")}"'
    return json.dumps(text).replace("/", "\\/").replace("a", "\\u0061")
