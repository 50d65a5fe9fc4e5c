"""Convert the configuration of a MirrorMaker 2 into ours, with the outcome of each property.

Three formats: `mm2.properties` of dedicated mode, the connectors' JSON, Strimzi's resource. Each
is read as flows (`Flow`), whose properties have the names that the connectors use; from there on
the rules are the same. Pure: reads no file and contacts no cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from heliostat.errors import ConfigError
from heliostat.mm2.config_connectors import Connector, flows_of, read_json
from heliostat.mm2.config_dedicated import is_dedicated, read_dedicated
from heliostat.mm2.config_rules import link_section
from heliostat.mm2.config_security import cluster_section
from heliostat.mm2.config_strimzi import is_strimzi, read_strimzi
from heliostat.mm2.config_values import Flow, Imported, Ledger

SECRETS_FOLDER = "/etc/heliostat/secrets"
"""Default folder for secrets and PEM files."""


def import_mm2(
    files: Mapping[str, str], *, secrets: str = SECRETS_FOLDER, naming: str | None = None
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

    Raises
    ------
    ConfigError
        A file has none of the three formats, no flow is enabled, or something can't be converted.
    """
    ledger = Ledger()
    flows = _flows(files, secrets, ledger)
    if not flows:
        raise ConfigError(
            "no flow copies anything",
            hint="a flow needs `A->B.enabled=true`, or a MirrorSourceConnector",
        )
    aliases = _aliases(flows)
    clusters: dict[str, Any] = {}
    for flow in flows:
        for client in (flow.source, flow.target):
            found = cluster_section(client, secrets, ledger)
            before = clusters.setdefault(aliases[client.alias], found)
            if before["bootstrap"] != found["bootstrap"]:
                ledger.differs(
                    f"the files have different addresses for cluster {client.alias}; the first "
                    "ones are used"
                )
    links = [
        {
            "name": name,
            "source": aliases[flow.source.alias],
            "target": aliases[flow.target.alias],
            **link_section(flow, naming, ledger),
        }
        for flow, name in zip(flows, _link_names(flows), strict=True)
    ]
    return Imported(
        config={"clusters": clusters, "links": links},
        findings=ledger.findings(),
        todo=tuple(ledger.todo),
        differences=tuple(ledger.differences),
    )


def _flows(files: Mapping[str, str], secrets: str, ledger: Ledger) -> list[Flow]:
    flows: list[Flow] = []
    connectors: list[Connector] = []
    for name, text in files.items():
        if text.lstrip()[:1] in ("{", "[") and not is_strimzi(text):
            connectors += read_json(name, text, ledger)
        elif is_strimzi(text):
            flows += read_strimzi(name, text, secrets, ledger)
        elif is_dedicated(text):
            flows += read_dedicated(name, text, ledger)
        else:
            raise ConfigError(
                f"{name} is no MirrorMaker 2 configuration of a known format",
                hint="give mm2.properties with `clusters`, a connector's JSON, or a "
                "KafkaMirrorMaker2",
            )
    return flows + flows_of(connectors, ledger)


def _aliases(flows: Iterable[Flow]) -> dict[str, str]:
    """Return valid aliases: letters, digits, `.`, `_` and `-`, the first a letter or digit."""
    found: dict[str, str] = {}
    for flow in flows:
        for client in (flow.source, flow.target):
            clean = re.sub(r"[^A-Za-z0-9._-]", "-", client.alias).lstrip("._-") or "cluster"
            found[client.alias] = clean
    return found


def _link_names(flows: Iterable[Flow]) -> list[str]:
    names: list[str] = []
    for flow in flows:
        text = f"{flow.source.alias}-to-{flow.target.alias}"
        name = re.sub(r"[^A-Za-z0-9-]", "-", text).lstrip("-")
        while name in names:
            name += "-2"
        names.append(name)
    return names
