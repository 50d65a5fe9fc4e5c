"""A connector as it is stored: its configuration as given, and what is wished of it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from heliostat.connect.plugins import Plugin, plugin_in
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.names import Offset
from heliostat.wishes.wish import WishedState

_STATE, _LINK = "state", "link"
NOT_WRITTEN = Offset(-1)


class ConfigProblem(NamedTuple):
    """What is wrong with a property, in words."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class StoredConnector:
    """A connector.

    Parameters
    ----------
    name, config
        Its name, and its configuration as it was given: texts only.
    state
        What is wished of it, by a row of its own: who pauses it and who changes it at once lose
        nothing. Of a connector that is a link, that lies with the link's wishes.
    link
        The link that it is; empty: it is none, or nothing was chosen yet.
    by, at_ms
        Who wrote it, and when by that writer's clock.
    generation
        Its place in the order of all writes; -1: it is not written yet.
    """

    name: str
    config: Mapping[str, str]
    state: WishedState = WishedState.RUNNING
    link: str = ""
    by: str = ""
    at_ms: int = 0
    generation: Offset = NOT_WRITTEN

    @property
    def plugin(self) -> Plugin | None:
        """Its class; None: none that becomes a link."""
        return plugin_in(self.config)

    @property
    def key(self) -> DefinitionKey:
        """Under which it is stored."""
        return DefinitionKey(DefinitionKind.CONNECTOR, self.name)

    @property
    def state_key(self) -> DefinitionKey:
        """Under which its state is stored."""
        return DefinitionKey(DefinitionKind.STATE, self.name)

    def to_definition(self) -> Definition:
        """Return it as a row of the home cluster's topic, without its state."""
        return Definition(self.key, self.config, self.by, self.at_ms, extra={_LINK: self.link})

    def to_state(self) -> Definition:
        """Return its state as a row."""
        return Definition(self.state_key, {_STATE: self.state.value}, self.by, self.at_ms)

    @classmethod
    def of_definition(cls, row: Definition, wished: Definition | None = None) -> Self:
        """Build from such a row, and that of its state.

        Raises
        ------
        ValueError
            It is not a connector's.
        """
        if row.key.kind is not DefinitionKind.CONNECTOR:
            raise ValueError(f"{row.key.key} is no connector")
        extra = row.extra or {}
        state = extra if has_state(row, wished) or wished is None else wished.content
        return cls(
            row.key.name,
            {str(name): text_of(value) for name, value in row.content.items()},
            WishedState(state.get(_STATE, WishedState.RUNNING.value)),
            str(extra.get(_LINK, "")),
            row.by,
            row.at_ms,
            row.generation,
        )


def has_state(row: Definition, wished: Definition | None) -> bool:
    """Whether a connector's row itself has its state, as earlier versions wrote it, the last."""
    is_last = wished is None or row.generation > wished.generation
    return is_last and _STATE in (row.extra or {})


def text_of(value: Any) -> str:
    """Return a scalar of JSON as Connect stores it: as text.

    Raises
    ------
    ValueError
        It is none.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("not a text, number or boolean")
