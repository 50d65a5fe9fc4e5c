"""A link's section while it is built from the properties of a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.errors import ConfigError
from heliostat.mm2.config_patterns import named_with_dots, patterns_of
from heliostat.mm2.config_values import Fate, Flow, Ledger, Setting

Section = dict[str, Any]
ORDER = (
    *("topics", "records", "state", "groups", "schemas"),
    *("heartbeats", "checkpoints", "offset_syncs"),
)
"""Order of a link's sections."""
WITHOUT_OLD_NAMES = (4, 0)
"""The first version that does not read `topics.blacklist` and its like (KIP-629)."""


class LinkDraft:
    """Sections of one link; properties that are read are noted in the ledger."""

    def __init__(self, flow: Flow, secrets: str, ledger: Ledger) -> None:
        self.flow = flow
        self.secrets = secrets
        self.ledger = ledger
        self.given = flow.settings
        self.parts: dict[str, Section] = {}
        self.registries: dict[str, Section] = {}
        """What is known of a cluster's schema registry, by the cluster's key."""
        self.pipelines: list[Section] = []

    def section(self) -> Section:
        """Return the sections in their order, without empty ones."""
        section: Section = {key: self.parts[key] for key in ORDER if self.parts.get(key)}
        return section | ({"pipelines": self.pipelines} if self.pipelines else {})

    @property
    def naming_format(self) -> str:
        """The naming as one format with `${topic}` in it."""
        naming = self.parts["topics"]["naming"]
        if naming == "same":
            return "${topic}"
        return str(naming["prefix"] + "${topic}" if "prefix" in naming else naming["format"])

    def put(self, part: str, key: str, value: object) -> None:
        """Set a key."""
        self.parts.setdefault(part, {})[key] = value

    def take(
        self, name: str, part: str, key: str, read: Callable[[Setting], object] | None = None
    ) -> None:
        """Convert a property to the key that corresponds to it, if the property is given.

        Parameters
        ----------
        name
            Name of the property.
        part, key
            Section and key.
        read
            Converts the value; a boolean by default.
        """
        setting = self.given.get(name)
        if setting is not None:
            self.put(part, key, setting.is_true if read is None else read(setting))
            self.ledger.used(setting, f"{part}.{key}")

    def first(self, *names: str) -> Setting | None:
        """Return the first given property; the others, older names, have no effect then."""
        settings = [self.given[name] for name in names if name in self.given]
        for other in settings[1:]:
            self.ledger.without(other, f"{settings[0].origin.name} wins")
        if settings and names[0] not in self.given and self.flow.version >= WITHOUT_OLD_NAMES:
            self.ledger.must_do(
                f"{self.flow.name}: MirrorMaker 2 reads {settings[0].origin.name} before 4.0 only, "
                "and so does the link; if yours is later, remove what it became"
            )
        return settings[0] if settings else None

    def tell_answers(self, answer: Callable[[str], tuple[Fate, str] | None]) -> None:
        """Tell the outcome of the properties for which it depends on the name alone."""
        for name, setting in self.given.items():
            outcome = answer(name)
            if outcome is not None:
                self.ledger.tell(setting.origin, *outcome)

    def patterns(self, setting: Setting, key: str) -> list[str]:
        """Convert a list of names and patterns."""
        patterns = patterns_of(setting)
        dotted = named_with_dots(setting.entries())
        text = key
        if dotted:
            text += f"; dots in {', '.join(dotted[:3])} now match only dots, not any character"
        self.ledger.used(setting, text)
        return patterns

    def number(self, setting: Setting, limits: tuple[float, float]) -> float:
        """Return a number, clamped to the limits.

        Raises
        ------
        ConfigError
            It is not a number.
        """
        try:
            value = float(setting.value)
        except ValueError:
            raise ConfigError(f"{setting.origin.name}: not a number") from None
        kept = min(max(value, limits[0]), limits[1])
        return int(kept) if kept == int(kept) else kept

    def replicas(self, setting: Setting) -> int | None:
        """Return a replication factor; None for -1, the broker's default."""
        value = int(self.number(setting, (-1, 32_767)))
        return value if value > 0 else None
