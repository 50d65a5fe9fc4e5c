"""Values of the import: flows and properties of a replicator, and the outcome of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import yaml

LATEST = (4, 3)
"""MirrorMaker 2's version whose defaults count if a file has none."""


class Fate(IntEnum):
    """Outcome of a property; of several flows' outcomes the highest counts."""

    WITHOUT_EFFECT = 0
    REPLACED = 1
    USED = 2
    NOT_SUPPORTED = 3

    @property
    def words(self) -> str:
        """The outcome in words."""
        return self.name.lower().replace("_", " ")


class Origin(NamedTuple):
    """Where a property comes from: file, and name in the file."""

    file: str
    name: str


class Setting(NamedTuple):
    """Value of one property of a flow, and where it comes from."""

    value: str
    origin: Origin

    @property
    def is_true(self) -> bool:
        """Whether Java reads the value as true."""
        return self.value.strip().lower() == "true"

    def entries(self) -> list[str]:
        """Return the entries as Kafka reads a list (`ConfigDef.Type.LIST`)."""
        return [entry.strip() for entry in self.value.split(",") if entry.strip()]


class Finding(NamedTuple):
    """Outcome of one property, and how or why; never contains the property's value."""

    origin: Origin
    fate: Fate
    text: str


@dataclass(slots=True)
class Ledger:
    """Outcomes of all properties, what a person has to do, and what will differ."""

    known: dict[Origin, None] = field(default_factory=dict)
    todo: dict[str, None] = field(default_factory=dict)
    differences: dict[str, None] = field(default_factory=dict)
    _fates: dict[Origin, tuple[Fate, list[str]]] = field(default_factory=dict)
    _unread: dict[Origin, str] = field(default_factory=dict)

    def add(self, origins: Iterable[Origin]) -> None:
        """Register properties that need an outcome."""
        self.known.update(dict.fromkeys(origins))

    def tell(self, origin: Origin, fate: Fate, text: str) -> None:
        """Note the outcome of a property; the highest fate wins, equal ones keep all texts."""
        self.known.setdefault(origin)
        before = self._fates.get(origin)
        if before is None or fate > before[0]:
            self._fates[origin] = (fate, [text])
        elif fate == before[0] and text not in before[1]:
            before[1].append(text)

    def unless_read(self, origin: Origin, why: str) -> None:
        """Note why a property has no effect, in case no other outcome is noted."""
        self._unread[origin] = why

    def used(self, setting: Setting, text: str) -> None:
        """Note that a property is in our file; `text` names the key."""
        self.tell(setting.origin, Fate.USED, text)

    def replaced(self, setting: Setting, text: str) -> None:
        """Note that something else in a link does its work; `text` says what."""
        self.tell(setting.origin, Fate.REPLACED, text)

    def without(self, setting: Setting, text: str) -> None:
        """Note that a property has no effect; `text` says why."""
        self.tell(setting.origin, Fate.WITHOUT_EFFECT, text)

    def unsupported(self, setting: Setting, text: str, difference: str) -> None:
        """Note that a link can't do what a property says, and what differs therefore."""
        self.tell(setting.origin, Fate.NOT_SUPPORTED, text)
        self.differs(difference)

    def must_do(self, text: str) -> None:
        """Note what a person has to do before the link runs."""
        self.todo.setdefault(text)

    def differs(self, text: str) -> None:
        """Note what MirrorMaker 2 did and the link will not do."""
        self.differences.setdefault(text)

    def findings(self) -> tuple[Finding, ...]:
        """Return one finding for each property, in the order of the files."""
        return tuple(self._finding(origin) for origin in self.known)

    def _finding(self, origin: Origin) -> Finding:
        if origin in self._fates:
            fate, texts = self._fates[origin]
            return Finding(origin, fate, "; ".join(texts))
        why = self._unread.get(origin, "MirrorMaker 2 reads no such property there")
        return Finding(origin, Fate.WITHOUT_EFFECT, why)


@dataclass(slots=True)
class Client:
    """How a flow connects to one of its clusters.

    Parameters
    ----------
    alias
        Alias of the cluster, from which names of mirrors are made; may be empty.
    settings
        Settings of Kafka's clients, by name.
    security
        Our `security` section, if the file has other fields than these settings for it.
    key
        Its alias in our file: letters, digits, `.`, `_` and `-`, the first a letter or digit.
    """

    alias: str
    settings: dict[str, Setting] = field(default_factory=dict)
    security: dict[str, Any] | None = None
    key: str = ""

    def __post_init__(self) -> None:
        """Make the key of the alias, if none is given or it can't be one."""
        name = self.key or self.alias
        self.key = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "source"


@dataclass(slots=True)
class Flow:
    """One direction between two clusters.

    Parameters
    ----------
    source, target
        How to connect to both clusters.
    settings
        Settings of all three connectors by name; those of clients below `source.consumer.` and
        `producer.override.`, those of the Connect worker below `worker.`.
    has_heartbeats_at_source
        Whether MirrorMaker 2 writes heartbeats into the source, for this flow to copy.
    has_heartbeats_at_target
        Whether a link is to write heartbeats into the target, as MirrorMaker 2 does.
    has_checkpoints
        Whether its checkpoint connector runs.
    is_replicator
        Whether it is a Confluent Replicator's, whose settings have other names and meanings.
    heartbeats
        Settings of the connector that writes heartbeats into the source.
    version
        MirrorMaker 2's version, if the file has it; the latest otherwise.
    from_connectors
        Whether its connectors run on a Connect cluster of unknown make.
    """

    source: Client
    target: Client
    settings: dict[str, Setting]
    has_heartbeats_at_source: bool = False
    has_heartbeats_at_target: bool = False
    has_checkpoints: bool = True
    is_replicator: bool = False
    heartbeats: dict[str, Setting] = field(default_factory=dict)
    version: tuple[int, int] = LATEST
    from_connectors: bool = False

    @property
    def name(self) -> str:
        """The name that MirrorMaker 2 gives the flow."""
        return f"{self.source.alias or self.source.key}->{self.target.alias or self.target.key}"


@dataclass(frozen=True, slots=True)
class Imported:
    """Our configuration, and how each property was converted.

    Parameters
    ----------
    config
        Contents of our YAML file; without secrets.
    findings
        Outcome of each property.
    todo
        What a person has to do before it can run.
    differences
        What MirrorMaker 2 did and a link will not do.
    """

    config: Mapping[str, Any]
    findings: tuple[Finding, ...]
    todo: tuple[str, ...]
    differences: tuple[str, ...]

    def to_yaml(self) -> str:
        """Return the file, with things to do and differences as comments at its top."""
        lines = [f"# to do: {text}" for text in self.todo]
        lines += [f"# differs: {text}" for text in self.differences]
        head = "".join(line.replace("\n", " ") + "\n" for line in lines)
        return head + yaml.safe_dump(dict(self.config), sort_keys=False, allow_unicode=True)

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "config": dict(self.config),
            "properties": [
                {
                    "file": finding.origin.file,
                    "property": finding.origin.name,
                    "fate": finding.fate.words,
                    "text": finding.text,
                }
                for finding in self.findings
            ],
            "todo": list(self.todo),
            "differences": list(self.differences),
        }
