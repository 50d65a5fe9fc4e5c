"""What an include entry can select, as Kafka's ACLs can express it: a name, a prefix, or all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from heliostat.clusters.acl import EVERYTHING, PatternKind
from heliostat.config import is_plain_name

_LITERAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_QUANTIFIERS = frozenset("*+?{")


@dataclass(frozen=True, slots=True)
class Reach:
    """A set of topic names; `exact` if the entry selects every one of them.

    Parameters
    ----------
    name
        A name, a prefix, or `*` as a literal name for all names.
    """

    name: str
    pattern: PatternKind = PatternKind.LITERAL
    exact: bool = True

    @property
    def is_everything(self) -> bool:
        """Whether it holds every name."""
        return self.name == EVERYTHING and self.pattern is PatternKind.LITERAL

    def covers(self, other: Reach) -> bool:
        """Whether it holds all names of the other."""
        if self.is_everything:
            return True
        if other.is_everything:
            return False
        if self.pattern is PatternKind.PREFIXED:
            return other.name.startswith(self.name)
        return other.pattern is PatternKind.LITERAL and other.name == self.name


def reach_of(entries: Iterable[str]) -> tuple[Reach, ...]:
    """The smallest sets that hold all names the entries select; none contains another."""
    reaches = [reach for entry in entries for reach in _of_entry(entry)]
    kept: list[Reach] = []
    for reach in sorted(dict.fromkeys(reaches), key=_widest_first):
        if reach.is_everything:
            return (reach,)
        if not any(wider.covers(reach) for wider in kept):
            kept.append(reach)
    return tuple(kept)


def _widest_first(reach: Reach) -> tuple[int, bool, str]:
    return len(reach.name), reach.pattern is PatternKind.LITERAL, reach.name


def _of_entry(entry: str) -> Iterator[Reach]:
    if is_plain_name(entry):
        yield Reach(entry)
        return
    for alternative in _alternatives(entry):
        prefix, rest = _literal_prefix(alternative)
        if rest == "":
            yield Reach(prefix)
        elif prefix == "":
            yield Reach(EVERYTHING, exact=rest in {".*", ".+"})
        else:
            yield Reach(prefix, PatternKind.PREFIXED, exact=rest == ".*")


def _alternatives(expression: str) -> list[str]:
    """The alternatives between bars outside of groups; the whole expression if in doubt."""
    if "[" in expression or "\\Q" in expression or "(?" in expression:
        return [expression if "|" not in expression else f"(?:{expression})"]
    parts, depth, start, place = [], 0, 0, 0
    while place < len(expression):
        character = expression[place]
        if character == "\\":
            place += 1
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and depth == 0:
            parts.append(expression[start:place])
            start = place + 1
        place += 1
    return [*parts, expression[start:]]


def _literal_prefix(expression: str) -> tuple[str, str]:
    """The literal prefix of every match, and the rest of the expression."""
    prefix, place = "", 0
    while place < len(expression):
        size = 1
        character = expression[place]
        if character == "\\" and place + 1 < len(expression):
            size, character = 2, expression[place + 1]
            if character.isalnum():  # a class such as \d, or a reference
                break
        elif character not in _LITERAL:
            break
        if expression[place + size : place + size + 1] in _QUANTIFIERS:
            break  # it may be missing, or be repeated
        prefix += character
        place += size
    return prefix, expression[place:]
