"""The links that connectors are, as `links:` of our file has them; pure.

One link is one MirrorSourceConnector, with the checkpoint and heartbeat connectors of the same two
clusters, or one of Replicator's. What the import of MirrorMaker 2's files makes of each property
holds here, too, but for what runs by default: the other two connectors are asked for by name, and
offset syncs are written unless a configuration says otherwise, as MirrorMaker 2 does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from heliostat.config import LinkConfig
from heliostat.connect.connector import ConfigProblem, StoredConnector
from heliostat.connect.file_clusters import FileClusters, Side
from heliostat.connect.link_copies import Copies, LinkCopies
from heliostat.connect.plugins import CLASS
from heliostat.connect.refusals import refusals_of
from heliostat.errors import ConfigError
from heliostat.mm2.config import draft_of
from heliostat.mm2.config_connectors import CHECKPOINT, REPLICATOR, Connector, connector
from heliostat.mm2.config_pairs import (
    addresses_of,
    aliases_of,
    build_flow,
    emits_heartbeats,
    partners_of,
)
from heliostat.mm2.config_replicator import replicator_flows
from heliostat.mm2.config_values import Fate, Finding, Flow, Ledger, Origin, Setting
from heliostat.names import Alias, LinkName
from heliostat.wishes.wish import WishedState

_SECRETS = "/"
"""No secret is read from where a connector says."""
_SYNCS = "emit.offset-syncs.enabled"
_POLICY = "replication.policy."
_OUR_FILE = "the configuration file"
_NAMING = frozenset({"name", CLASS, "source.cluster.alias", "target.cluster.alias"})
"""Properties that say which link it is; there is nothing to tell of them."""
_ADDRESSES = {"source": "src.kafka.bootstrap.servers", "target": "dest.kafka.bootstrap.servers"}


@dataclass(slots=True)
class DerivedLinks:
    """What connectors are."""

    links: dict[LinkName, dict[str, Any]] = field(default_factory=dict)
    """What `links:` of the file would have, without its name, by name; the oldest first."""
    of_connector: dict[str, tuple[LinkName, ...]] = field(default_factory=dict)
    """The links that a connector is, or belongs to; none: it has no effect yet."""
    problems: dict[str, tuple[ConfigProblem, ...]] = field(default_factory=dict)
    """What is wrong with a connector; it is no link then, and belongs to none."""
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Properties of a connector that a link does not need, or has no counterpart of."""


def links_of(
    connectors: Iterable[StoredConnector], file: FileClusters, copies: Copies | None = None
) -> DerivedLinks:
    """Return the links that connectors are.

    Parameters
    ----------
    connectors
        All connectors; of two that would be called alike, the older one is.
    file
        What the configuration file says.
    copies
        What links of connectors copy, or did: none of these names is chosen for what is called
        otherwise.
    """
    derived = DerivedLinks()
    given = sorted(
        connectors,
        key=lambda candidate: (candidate.generation < 0, candidate.generation, candidate.name),
    )
    read: dict[str, _Read] = {}
    for stored in given:
        problems = [*_not_ours(stored), *refusals_of(stored.config)]
        if not problems:
            read[stored.name] = reading = _Read(stored, Ledger())
            problems += reading.problems()
        derived.of_connector[stored.name] = ()
        if problems:
            derived.problems[stored.name] = tuple(problems)
            read.pop(stored.name, None)
    names = _LinkNames({owner.link: owner.name for owner in given if owner.link}, copies or {})
    for entry in read.values():
        if entry.makes_link:
            _add_link(derived, entry, read.values(), file, names)
        else:
            _check_sides(derived, entry, file)
    return derived


class _Read:
    """A connector in the import's words, and the outcome of its properties."""

    def __init__(self, stored: StoredConnector, ledger: Ledger) -> None:
        self.stored = stored
        self.ledger = ledger
        makes_link = stored.plugin is not None and stored.plugin.makes_link
        state = WishedState.RUNNING if makes_link else stored.state
        config = {**stored.config, CLASS: stored.plugin.name if stored.plugin else ""}
        self.connector: Connector = connector(stored.name, "", config, ledger, state.value)
        self.makes_link = makes_link

    @property
    def is_replicator(self) -> bool:
        """Whether it is Confluent's."""
        return self.connector.kind == REPLICATOR

    def problems(self) -> Iterator[ConfigProblem]:
        """Yield what it lacks."""
        needed = [_ADDRESSES["source"]] if self.is_replicator else ["source.cluster.alias"]
        for name in needed:
            if name not in self.stored.config:
                text = f'Missing required configuration "{name}" which has no default value.'
                yield ConfigProblem(name, text)

    def side(self, which: str) -> Side:
        """Return what it says of one of its clusters."""
        is_target = which == "target"
        if self.is_replicator:
            name = _ADDRESSES[which]
            setting = self.connector.settings.get(name)
            addresses = frozenset[str]() if setting is None else frozenset(setting.entries())
            return Side(name, "", addresses, is_target)
        alias = aliases_of(self.connector)[1 if is_target else 0]
        addresses = addresses_of(self.connector, which)
        named = f"{which}.cluster." + ("bootstrap.servers" if addresses else "alias")
        return Side(named, alias, addresses, is_target)

    def policy(self) -> tuple[str, str]:
        """Return what decides how it calls topics: class and separator."""
        config = self.stored.config
        name = config.get(f"{_POLICY}class", "DefaultReplicationPolicy").rpartition(".")[2]
        return name, config.get(f"{_POLICY}separator", ".")


def _not_ours(stored: StoredConnector) -> Iterator[ConfigProblem]:
    if stored.plugin is None:
        yield ConfigProblem(CLASS, NOT_OURS)


NOT_OURS = (
    "only MirrorMaker 2's connectors, and Confluent's Replicator, run here: keep this one on your "
    "Connect cluster"
)


def _check_sides(derived: DerivedLinks, entry: _Read, file: FileClusters) -> None:
    """Note clusters that are not ours; a heartbeat may leave out where its target is."""
    wrong = [
        problem
        for which in ("source", "target")
        if isinstance(problem := file.alias_of(entry.side(which)), ConfigProblem)
    ]
    if wrong:
        derived.problems[entry.stored.name] = tuple(wrong)


def _add_link(
    derived: DerivedLinks,
    entry: _Read,
    others: Iterable[_Read],
    file: FileClusters,
    names: _LinkNames,
) -> None:
    ends = [file.alias_of(entry.side(which)) for which in ("source", "target")]
    problems = [end for end in ends if isinstance(end, ConfigProblem)]
    source, target = ends
    if not problems and source == target:
        text = f"the link would copy cluster {target} to itself"
        problems = [ConfigProblem(entry.side("target").field, text)]
    if problems or isinstance(source, ConfigProblem) or isinstance(target, ConfigProblem):
        derived.problems[entry.stored.name] = tuple(problems)
        return
    partners = [] if entry.is_replicator else _partners(entry, others)
    ledger = Ledger()
    for reading in (entry, *partners):
        ledger.add(setting.origin for setting in reading.connector.settings.values())
    try:
        content = _content(entry, partners, (source, target), ledger)
    except ConfigError as error:
        derived.problems[entry.stored.name] = tuple(_problems_in(error, entry.stored.config))
        return
    if "schemas" in content:
        content["schemas"] = {**content["schemas"], "strategy": file.strategy}
    wrong = [
        *_unsupported(ledger, entry.stored.name),
        *_not_valid(entry, {"source": source, "target": target, **content}, file),
    ]
    if wrong:
        derived.problems[entry.stored.name] = tuple(wrong)
        return
    section = {"source": source, "target": target, **content}
    name = names.name_of(entry.stored, section, {*file.links, *derived.links})
    derived.links[name] = section
    for reading in (entry, *partners):
        derived.of_connector[reading.stored.name] += (name,)
        _note(derived, reading.stored.name, ledger)


def _partners(entry: _Read, others: Iterable[_Read]) -> list[_Read]:
    """Return the connectors that belong to a source connector.

    A checkpoint whose policy is another one speaks of mirrors of other names.
    """
    rest = [other for other in others if not other.makes_link]
    partners = partners_of(entry.connector, [other.connector for other in rest])
    own = [*partners.checkpoints, *partners.at_source, *partners.at_target]
    return [
        other
        for other in rest
        if any(other.connector is partner for partner in own)
        and (other.connector.kind != CHECKPOINT or other.policy() == entry.policy())
    ]


def _content(
    entry: _Read, partners: Sequence[_Read], ends: tuple[Alias, Alias], ledger: Ledger
) -> dict[str, Any]:
    if entry.is_replicator:
        (flow,) = replicator_flows([entry.connector], ledger)
    else:
        mine = [partner.connector for partner in partners]
        checkpoints = [partner for partner in mine if partner.kind == CHECKPOINT]
        beating = [partner for partner in mine if partner.kind != CHECKPOINT]
        flow = build_flow(entry.connector, checkpoints, beating, [], ledger)
        at_target = partners_of(entry.connector, mine).at_target
        flow.has_heartbeats_at_target = any(emits_heartbeats(partner) for partner in at_target)
        by_default = Setting("true", Origin(_OUR_FILE, _SYNCS))
        flow.settings.setdefault(_SYNCS, by_default)
    for client, alias in ((flow.source, ends[0]), (flow.target, ends[1])):
        client.key = alias
        for setting in client.settings.values():
            ledger.replaced(setting, f"clusters.{alias} of the configuration file")
    return dict(_draft(flow, ledger))


def _draft(flow: Flow, ledger: Ledger) -> Mapping[str, Any]:
    return draft_of(flow, _SECRETS, None, ledger).section()


@dataclass(frozen=True, slots=True)
class _LinkNames:
    """Names of links that are no longer free."""

    kept: Mapping[str, str]
    """Names that were chosen when a connector was stored, each with the connector."""
    copies: Copies

    def name_of(
        self, stored: StoredConnector, section: Mapping[str, Any], taken: Iterable[str]
    ) -> LinkName:
        """Return the name that was chosen when it was stored, or else a free one."""
        used = {link_name.casefold() for link_name in taken}
        if stored.link and stored.link.casefold() not in used:
            return LinkName(stored.link)
        used |= {link.casefold() for link, owner in self.kept.items() if owner != stored.name}
        own = LinkCopies.of_content(section)
        used |= {link.casefold() for link, link_copies in self.copies.items() if link_copies != own}
        usual = _plain(f"{section['source']}-to-{section['target']}")
        name = usual
        if name.casefold() in used:
            name = _plain(stored.name) or usual
        while name.casefold() in used:
            name += "-2"
        return LinkName(name)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", text).strip("-")[:90]


def _unsupported(ledger: Ledger, file: str) -> Iterator[ConfigProblem]:
    """Yield transformations that a link can't do: without them it would copy other records."""
    findings = [
        finding
        for finding in ledger.findings()
        if finding.origin.file == file
        and finding.fate is Fate.NOT_SUPPORTED
        and finding.origin.name.startswith(("transforms", "predicates"))
    ]
    inner = [finding for finding in findings if "." in finding.origin.name]
    for finding in inner or findings:
        yield ConfigProblem(finding.origin.name, f"a link can't do that: {finding.text}")


def _not_valid(
    entry: _Read, content: Mapping[str, Any], file: FileClusters
) -> Iterator[ConfigProblem]:
    """Yield what no link may be, such as mirrors whose names can't be topics'."""
    fields = _FIELDS_OF_REPLICATOR if entry.is_replicator else _FIELDS
    try:
        LinkConfig.model_validate({**content, "name": "any"})
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            where = ".".join(str(part) for part in detail["loc"] if str(part)[:1] != ":")
            named = next((to for place, to in fields if where.startswith(place)), CLASS)
            yield ConfigProblem(named, f"{where} of the link: {detail['msg']}")
    lacking = {content["source"], content["target"]} - file.registries
    if "schemas" in content and lacking:
        yield ConfigProblem(
            "topic.whitelist" if entry.is_replicator else "topics",
            "schemas go from registry to registry, and not as a topic: set schema_registry of "
            f"{' and '.join(sorted(lacking))} in the configuration file, or leave the topic out",
        )


_FIELDS = (("topics.naming", "source.cluster.alias"), ("topics", "topics"), ("groups", "groups"))
_FIELDS_OF_REPLICATOR = (("topics.naming", "topic.rename.format"), ("topics", "topic.whitelist"))
"""By the beginning of a link's field: the property that it comes from."""


def _problems_in(error: ConfigError, config: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yield a problem for each property that an error names."""
    for text in error.problems or (error.text,):
        named, colon, reason = text.partition(": ")
        if colon and named in config:
            yield ConfigProblem(named, reason)
            continue
        about = [name for name in config if name in text]
        if "replication policy" in text:
            about = [f"{_POLICY}class"]
        yield ConfigProblem(max(about, key=len, default=CLASS), text)


def _note(derived: DerivedLinks, name: str, ledger: Ledger) -> None:
    own = [finding for finding in ledger.findings() if finding.origin.file == name]
    lines = [
        _line(finding)
        for finding in own
        if finding.fate is not Fate.USED and finding.origin.name not in _NAMING
    ]
    derived.notes[name] = tuple(dict.fromkeys([*derived.notes.get(name, ()), *lines]))


def _line(finding: Finding) -> str:
    return f"{finding.origin.name}: {finding.fate.words}: {finding.text}"
