"""Convert the configuration of a MirrorMaker 2 into ours, with the outcome of each property.

Three formats: `mm2.properties` of dedicated mode, connectors' JSON, properties or resources,
Strimzi's KafkaMirrorMaker2. Each is read as flows (`Flow`), whose properties have the names that
the connectors use; from there on the rules are the same. Connectors of Confluent Replicator have
rules of their own.
Pure: reads no file and contacts no cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from heliostat.config import is_plain_name
from heliostat.errors import ConfigError
from heliostat.mm2.config_connectors import (
    Connector,
    is_connector_file,
    read_connector_file,
    read_json,
)
from heliostat.mm2.config_dedicated import is_dedicated, read_dedicated
from heliostat.mm2.config_draft import LinkDraft, Section
from heliostat.mm2.config_pairs import flows_of
from heliostat.mm2.config_registry import completed, merged
from heliostat.mm2.config_replicator import ExecutableFiles, read_executable, replicator_flows
from heliostat.mm2.config_replicator_rules import convert_replicator
from heliostat.mm2.config_resources import is_connector_resource, read_resources
from heliostat.mm2.config_rules import convert
from heliostat.mm2.config_security import cluster_section
from heliostat.mm2.config_strimzi import is_strimzi, read_strimzi
from heliostat.mm2.config_values import Flow, Imported, Ledger

SECRETS_FOLDER = "/etc/heliostat/secrets"
"""Default folder for secrets and PEM files."""


def import_mm2(
    files: Mapping[str, str],
    *,
    secrets: str = SECRETS_FOLDER,
    naming: str | None = None,
    executable: ExecutableFiles | None = None,
) -> Imported:
    """Convert the files of one MirrorMaker 2 into one configuration.

    Parameters
    ----------
    files
        Contents by file name.
    secrets
        Absolute path of the folder for secrets and PEM files.
    naming
        Format such as `${source}.${topic}` that replaces the replication policy.
    executable
        Which of the files are those of Replicator's executable.

    Raises
    ------
    ConfigError
        A file has none of these formats, no flow is enabled, or something can't be converted.
    """
    ledger = Ledger()
    flows = _flows(files, executable, secrets, ledger)
    if not flows:
        raise ConfigError(
            "no flow copies anything",
            hint="a flow needs `A->B.enabled=true`, or a MirrorSourceConnector",
        )
    clusters = _clusters(flows, secrets, ledger)
    drafts = [draft_of(flow, secrets, naming, ledger) for flow in flows]
    _add_registries(clusters, drafts, ledger)
    links = [
        {"name": name, "source": flow.source.key, "target": flow.target.key, **draft.section()}
        for flow, draft, name in zip(flows, drafts, _link_names(flows), strict=True)
    ]
    _tell_both_ways(drafts, ledger)
    _tell_shared_names(drafts, ledger)
    return Imported(
        config={"clusters": clusters, "links": links},
        findings=ledger.findings(),
        todo=tuple(ledger.todo),
        differences=tuple(ledger.differences),
    )


def _flows(
    files: Mapping[str, str], executable: ExecutableFiles | None, secrets: str, ledger: Ledger
) -> list[Flow]:
    flows: list[Flow] = []
    connectors: list[Connector] = []
    others = set(files)
    if executable is not None:
        connectors.append(read_executable(executable, files, ledger))
        others -= {executable.consumer, executable.producer, executable.replication}
    for name, text in files.items():
        if name not in others:
            continue
        is_mirror_maker, is_connector = is_strimzi(text), is_connector_resource(text)
        if is_mirror_maker or is_connector:  # one file may have both
            flows += read_strimzi(name, text, secrets, ledger) if is_mirror_maker else []
            connectors += read_resources(name, text, ledger) if is_connector else []
        elif text.lstrip()[:1] in ("{", "["):
            connectors += read_json(name, text, ledger)
        elif is_dedicated(text):
            flows += read_dedicated(name, text, ledger)
        elif is_connector_file(text):
            connectors.append(read_connector_file(name, text, ledger))
        else:
            raise ConfigError(
                f"{name} is no MirrorMaker 2 configuration of a known format",
                hint="give mm2.properties with `clusters`, a connector's JSON, properties or "
                "KafkaConnector, or a KafkaMirrorMaker2; files of Replicator's executable by its "
                "own options: --consumer.config, --producer.config, --replication.config",
            )
    return flows + flows_of(connectors, ledger, flows) + replicator_flows(connectors, ledger)


def _clusters(flows: Iterable[Flow], secrets: str, ledger: Ledger) -> dict[str, Any]:
    """Return the clusters; one that the files reach in different ways gets a key for each."""
    clusters: dict[str, Any] = {}
    secret: dict[str, str] = {}
    for flow in flows:
        for client in (flow.source, flow.target):
            first, number = client.key, 1
            jaas = client.settings.get("sasl.jaas.config")
            login = "" if jaas is None else jaas.value
            while True:
                section = cluster_section(client, secrets, Ledger())
                if client.key not in clusters:
                    break
                if clusters[client.key] == section and secret[client.key] == login:
                    break
                number += 1
                client.key = f"{first}-{number}"
            if client.key != first and client.key not in clusters:
                is_other = clusters[first]["bootstrap"] != section["bootstrap"]
                what = "addresses" if is_other else "credentials"
                ledger.differs(
                    f"the files have different {what} for cluster {first}: those of "
                    f"{flow.name} are cluster {client.key}"
                )
            clusters[client.key] = cluster_section(client, secrets, ledger)
            secret[client.key] = login
    return clusters


def draft_of(flow: Flow, secrets: str, naming: str | None, ledger: Ledger) -> LinkDraft:
    """Return the link of a flow.

    Parameters
    ----------
    flow, ledger
        The flow, and what takes the outcome of its properties.
    secrets, naming
        As of `import_mm2`.

    Raises
    ------
    ConfigError
        Something can't be converted.
    """
    draft = LinkDraft(flow, secrets, ledger)
    if flow.is_replicator:
        convert_replicator(draft, naming)
    else:
        convert(draft, naming)
    return draft


def _add_registries(clusters: dict[str, Any], drafts: Iterable[LinkDraft], ledger: Ledger) -> None:
    registries: dict[str, Section] = {}
    for draft in drafts:
        for key, section in draft.registries.items():
            registries[key] = merged(key, registries.get(key, {}), section, ledger)
    for key, section in registries.items():
        clusters[key]["schema_registry"] = completed(key, section, ledger)


def _tell_both_ways(drafts: Iterable[LinkDraft], ledger: Ledger) -> None:
    """Note what two links in opposite directions can't both do."""
    ways = {(draft.flow.source.key, draft.flow.target.key): draft for draft in drafts}
    for (source, target), draft in ways.items():
        back = ways.get((target, source))
        if back is None or source > target:
            continue
        both = f"links between {source} and {target}"
        if "schemas" in draft.parts and "schemas" in back.parts:
            ledger.must_do(f"{both}: take strategy isolate in both directions (docs/schemas.md)")
        is_same = all(way.parts["topics"]["naming"] == "same" for way in (draft, back))
        if is_same and draft.flow.is_replicator and back.flow.is_replicator:
            ledger.differs(
                f"{both}: Replicator could write both directions into one topic, by headers; a "
                "mirror has one writer, so one direction needs another naming (--naming)"
            )


def _tell_shared_names(drafts: Iterable[LinkDraft], ledger: Ledger) -> None:
    """Note links that may write topics of one name into one cluster: a mirror has one writer."""
    for draft, other in combinations(drafts, 2):
        is_one_place = draft.flow.target.key == other.flow.target.key
        namings = [link_draft.parts["topics"]["naming"] for link_draft in (draft, other)]
        if not is_one_place or namings[0] != namings[1]:
            continue
        lists = [link_draft.parts["topics"]["include"] for link_draft in (draft, other)]
        shared = set(lists[0]) & set(lists[1])
        if shared or not all(is_plain_name(entry) for entry in lists[0] + lists[1]):
            ledger.differs(
                f"{draft.flow.name} and {other.flow.name} write into {draft.flow.target.key} under "
                "the same names, which their topics' lists don't keep apart; a mirror has one "
                "writer: if a topic is in both sources, give one link another naming, or "
                "topics.fan_in"
            )


def _link_names(flows: Iterable[Flow]) -> list[str]:
    names: list[str] = []
    for flow in flows:
        text = f"{flow.source.key}-to-{flow.target.key}"
        name = re.sub(r"[^A-Za-z0-9-]", "-", text).lstrip("-")
        while name in names:
            name += "-2"
        names.append(name)
    return names
