"""One link in the making: what a flow has of properties, and what they have become so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.errors import ConfigError
from heliostat.mm2.config_patterns import named_with_dots, patterns_of
from heliostat.mm2.config_values import Flow, Ledger, Setting

Section = dict[str, Any]


class LinkDraft:
    """Its parts by their keys, and how properties are read: what was is noted in the ledger."""

    def __init__(self, flow: Flow, ledger: Ledger) -> None:
        self.flow = flow
        self.ledger = ledger
        self.given = flow.settings
        self.parts: dict[str, Section] = {}

    def put(self, part: str, key: str, value: object) -> None:
        """Give a key its value."""
        self.parts.setdefault(part, {})[key] = value

    def take(
        self, name: str, part: str, key: str, read: Callable[[Setting], object] | None = None
    ) -> None:
        """A property that has a key of its own."""
        setting = self.given.get(name)
        if setting is not None:
            self.put(part, key, setting.is_true if read is None else read(setting))
            self.ledger.used(setting, f"{part}.{key}")

    def first(self, *names: str) -> Setting | None:
        """The current name of a property before its former one, which is without effect then."""
        found = [self.given[name] for name in names if name in self.given]
        for other in found[1:]:
            self.ledger.without(other, f"{found[0].origin.name} wins")
        return found[0] if found else None

    def patterns(self, setting: Setting, key: str) -> list[str]:
        """A list of names and patterns, as our lists have them."""
        found = patterns_of(setting)
        dotted = named_with_dots(found)
        text = key
        if dotted:
            text += f"; dots in {', '.join(dotted[:3])} are dots now, and no longer any character"
        self.ledger.used(setting, text)
        return found

    def number(self, setting: Setting, limits: tuple[float, float]) -> float:
        """A number, or the limit that it is beyond.

        Raises
        ------
        ConfigError
            It is none.
        """
        try:
            value = float(setting.value)
        except ValueError:
            raise ConfigError(f"{setting.origin.name}: not a number") from None
        kept = min(max(value, limits[0]), limits[1])
        return int(kept) if kept == int(kept) else kept

    def replicas(self, setting: Setting) -> int | None:
        """-1 leaves it to the broker, which is what null comes nearest to."""
        value = int(self.number(setting, (-1, 32_767)))
        return value if value > 0 else None
