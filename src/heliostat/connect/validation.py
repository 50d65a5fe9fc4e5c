"""What is wrong with a connector's configuration, as Kafka Connect tells it; pure.

Connect reads only the types of values; here what a link would make of them is looked at, too, so
that nothing is accepted that fails later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.connect.config_keys import ConfigKey, groups_of, keys_of
from heliostat.connect.connector import ConfigProblem, StoredConnector
from heliostat.connect.file_clusters import FileClusters
from heliostat.connect.link_maps import NOT_OURS, links_of
from heliostat.connect.plugins import CLASS, Plugin, plugin_of
from heliostat.mm2.config_connectors import CHECKPOINT, SOURCE

_ALIAS = "source.cluster.alias"
_SYNCS = "emit.offset-syncs.enabled"
_ONCE = "exactly.once.support"
_ISOLATION = "source.consumer.isolation.level"
_NO_SYNCS = (
    "MirrorSourceConnector can't setup offset-syncs feature while emit.offset-syncs.enabled set to "
    "false"
)
_NOT_COMMITTED = (
    "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is "
    "configured with isolation.level set to 'read_committed'; a link reads so in any case: set "
    f"{_ISOLATION}, or leave {_ONCE} out"
)
_UNREAD = re.compile(r"Not a number|Expected value to be|could not be found")
"""Of a value that could not be read, Connect shows none."""
_ENDPOINT = "/connector-plugins/{connectorType}/config/validate"


@dataclass(frozen=True, slots=True)
class Validation:
    """A configuration, what is known of its properties, and what is wrong with them."""

    class_name: str
    keys: tuple[ConfigKey, ...]
    groups: tuple[str, ...]
    config: Mapping[str, str]
    problems: tuple[ConfigProblem, ...]
    aliases: tuple[str, ...] = ()
    """What may be a source."""

    def to_json(self) -> dict[str, Any]:
        """Return it as Connect does."""
        errors: dict[str, list[str]] = {}
        for problem in self.problems:
            errors.setdefault(problem.field, []).append(problem.text)
        names = {key.name for key in self.keys}
        rows = [self._row(key.name, key, errors.get(key.name, [])) for key in self.keys]
        rows += [
            self._row(name, None, texts) for name, texts in errors.items() if name not in names
        ]
        return {
            "name": self.class_name,
            "error_count": len(self.problems),
            "groups": list(self.groups),
            "configs": rows,
        }

    def _row(self, name: str, key: ConfigKey | None, errors: list[str]) -> dict[str, Any]:
        value = self.config.get(name, None if key is None else key.default)
        if any(map(_UNREAD.search, errors)):
            value = None
        return {
            "definition": None if key is None else key.to_json(),
            "value": {
                "name": name,
                "value": value,
                "recommended_values": list(self.aliases) if name == _ALIAS else [],
                "errors": errors,
                "visible": True,
            },
        }

    def message(self) -> str:
        """Return why a configuration is refused."""
        lines = [text if field in text else f"{field}: {text}" for field, text in self.problems]
        count = len(self.problems)
        return "\n".join(
            [
                f"Connector configuration is invalid and contains the following {count} error(s):",
                *lines,
                f"You can also find the above list of errors at the endpoint `{_ENDPOINT}`",
            ]
        )


def validate(
    class_name: str,
    stored: StoredConnector,
    others: Iterable[StoredConnector],
    file: FileClusters,
) -> Validation:
    """Check a configuration beside the other connectors.

    Parameters
    ----------
    class_name
        The class as it was named.
    stored
        The connector as it would be.
    others
        All others.
    file
        What the configuration file says.
    """
    plugin = plugin_of(stored.config.get(CLASS, class_name))
    aliases = tuple(sorted(file.addresses))
    if plugin is None:
        problem = ConfigProblem(CLASS, NOT_OURS)
        return Validation(class_name, (), (), stored.config, (problem,))
    keys = keys_of(plugin.kind)
    problems = [*_wrong_values(keys, stored.config), *_own_rules(plugin, stored.config)]
    if not problems:
        derived = links_of([*others, stored], file)
        problems += derived.problems.get(stored.name, ())
    groups = tuple(groups_of(plugin.kind))
    return Validation(
        stored.config.get(CLASS, class_name), keys, groups, stored.config, tuple(problems), aliases
    )


def _wrong_values(keys: Iterable[ConfigKey], config: Mapping[str, str]) -> Iterator[ConfigProblem]:
    for key in keys:
        value = config.get(key.name)
        if value is None:
            if key.required:
                text = f'Missing required configuration "{key.name}" which has no default value.'
                yield ConfigProblem(key.name, text)
        elif (reason := key.wrong(value)) is not None:
            yield ConfigProblem(key.name, reason)


def _own_rules(plugin: Plugin, config: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yield what MirrorMaker 2's own classes refuse."""
    is_on = {
        name: config.get(name, "true").strip().lower() == "true"
        for name in (_SYNCS, "emit.checkpoints.enabled")
    }
    if plugin.kind == SOURCE:
        syncs = [name for name in config if name.startswith(("offset-syncs.", "offset-syncs-"))]
        if syncs and not is_on[_SYNCS]:
            yield ConfigProblem(_SYNCS, _NO_SYNCS)
        isolation = config.get(_ISOLATION, config.get(_ISOLATION.removeprefix("source.")))
        if config.get(_ONCE) == "required" and isolation != "read_committed":
            yield ConfigProblem(_ONCE, _NOT_COMMITTED)
    if plugin.kind == CHECKPOINT:
        for name, condition in (
            ("emit.checkpoints.enabled", "with emit.checkpoints.enabled set to false"),
            (_SYNCS, "without offset syncs"),
        ):
            if not is_on[name]:
                yield ConfigProblem(name, f"MirrorCheckpointConnector can't run {condition}")
