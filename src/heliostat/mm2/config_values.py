"""What is read of a MirrorMaker 2's configuration, and what became of each property."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import yaml


class Fate(IntEnum):
    """What became of a property; of several flows' answers the highest counts."""

    WITHOUT_EFFECT = 0
    REPLACED = 1
    USED = 2

    @property
    def words(self) -> str:
        """For people."""
        return self.name.lower().replace("_", " ")


class Origin(NamedTuple):
    """Where a property stands: its file, and its name there."""

    file: str
    name: str


class Setting(NamedTuple):
    """One property of a flow, by the name that a connector knows it by."""

    value: str
    origin: Origin

    @property
    def is_true(self) -> bool:
        """As Java reads a boolean."""
        return self.value.strip().lower() == "true"

    def entries(self) -> list[str]:
        """As Kafka reads a list (`ConfigDef.Type.LIST`)."""
        return [entry.strip() for entry in self.value.split(",") if entry.strip()]


class Finding(NamedTuple):
    """What became of one property, and how or why. Values are never in it."""

    origin: Origin
    fate: Fate
    text: str


@dataclass(slots=True)
class Ledger:
    """What became of every property; beside it, what a person has to do, and what will differ."""

    known: dict[Origin, None] = field(default_factory=dict)
    todo: dict[str, None] = field(default_factory=dict)
    differences: dict[str, None] = field(default_factory=dict)
    _fates: dict[Origin, tuple[Fate, list[str]]] = field(default_factory=dict)
    _unread: dict[Origin, str] = field(default_factory=dict)

    def add(self, origins: Iterable[Origin]) -> None:
        """Properties of which each must get an answer."""
        self.known.update(dict.fromkeys(origins))

    def tell(self, origin: Origin, fate: Fate, text: str) -> None:
        """Say what became of one; of equal fates all texts are kept."""
        self.known.setdefault(origin)
        before = self._fates.get(origin)
        if before is None or fate > before[0]:
            self._fates[origin] = (fate, [text])
        elif fate == before[0] and text not in before[1]:
            before[1].append(text)

    def unless_read(self, origin: Origin, why: str) -> None:
        """Why nothing comes of it, if nobody says anything else."""
        self._unread[origin] = why

    def used(self, setting: Setting, text: str) -> None:
        """It stands in our file, as what `text` says."""
        self.tell(setting.origin, Fate.USED, text)

    def replaced(self, setting: Setting, text: str) -> None:
        """Something else of ours does it."""
        self.tell(setting.origin, Fate.REPLACED, text)

    def without(self, setting: Setting, text: str) -> None:
        """Nothing comes of it, and why."""
        self.tell(setting.origin, Fate.WITHOUT_EFFECT, text)

    def must_do(self, text: str) -> None:
        """A person has to do this before the link runs."""
        self.todo.setdefault(text)

    def differs(self, text: str) -> None:
        """The link will not do what MirrorMaker 2 did."""
        self.differences.setdefault(text)

    def findings(self) -> tuple[Finding, ...]:
        """One for each property, in the order of the files."""
        return tuple(self._finding(origin) for origin in self.known)

    def _finding(self, origin: Origin) -> Finding:
        if origin in self._fates:
            fate, texts = self._fates[origin]
            return Finding(origin, fate, "; ".join(texts))
        why = self._unread.get(origin, "MirrorMaker 2 reads no such property there")
        return Finding(origin, Fate.WITHOUT_EFFECT, why)


@dataclass(slots=True)
class Client:
    """How a flow reaches one of its clusters.

    Parameters
    ----------
    settings
        Of Kafka's clients, by their names there.
    security
        Our section, where it was given in another form than as settings.
    """

    alias: str
    settings: dict[str, Setting] = field(default_factory=dict)
    security: dict[str, Any] | None = None


@dataclass(slots=True)
class Flow:
    """One direction between two clusters.

    Parameters
    ----------
    settings
        Of all three connectors by name; clients' under `source.consumer.`, `producer.override.`,
        the Connect worker's under `worker.`.
    has_heartbeats_at_source
        Whether MirrorMaker 2 writes heartbeats into the source, for this flow to copy.
    has_checkpoints
        Whether its checkpoint connector runs.
    """

    source: Client
    target: Client
    settings: dict[str, Setting]
    has_heartbeats_at_source: bool = False
    has_checkpoints: bool = True

    @property
    def name(self) -> str:
        """As MirrorMaker 2 writes it."""
        return f"{self.source.alias}->{self.target.alias}"


@dataclass(frozen=True, slots=True)
class Imported:
    """Our configuration, and the account of how it came about.

    Parameters
    ----------
    config
        As our YAML file has it; without secrets.
    findings
        What became of every property.
    todo
        What a person has to do before it can run.
    differences
        What MirrorMaker 2 did and a link will not.
    """

    config: Mapping[str, Any]
    findings: tuple[Finding, ...]
    todo: tuple[str, ...]
    differences: tuple[str, ...]

    def to_yaml(self) -> str:
        """The file, with what is to be done in front."""
        lines = [f"# to do: {text}" for text in self.todo]
        lines += [f"# differs: {text}" for text in self.differences]
        head = "".join(line.replace("\n", " ") + "\n" for line in lines)
        return head + yaml.safe_dump(dict(self.config), sort_keys=False, allow_unicode=True)

    def to_json(self) -> dict[str, Any]:
        """As the command line answers it."""
        return {
            "config": dict(self.config),
            "properties": [
                {
                    "file": found.origin.file,
                    "property": found.origin.name,
                    "fate": found.fate.words,
                    "text": found.text,
                }
                for found in self.findings
            ],
            "todo": list(self.todo),
            "differences": list(self.differences),
        }
