"""Write a link's connectors in the formats of those who run MirrorMaker 2.

strimzi             a KafkaMirrorMaker2 (v1), and a KafkaConnector where heartbeats are written
kafkaconnectors     KafkaConnector resources (v1), for a KafkaConnect of Strimzi
connectors          JSON, as it is posted to Connect
properties          mm2.properties of dedicated mode
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import yaml

from heliostat.config import ClusterConfig, LinkConfig
from heliostat.mm2.config_values import Ledger
from heliostat.mm2.export_naming import PACKAGE, MirrorNaming
from heliostat.mm2.export_rules import MirrorConnectors, Properties
from heliostat.mm2.export_secrets import FileReferences, SecretReferences, kubernetes_name
from heliostat.mm2.export_security import client_properties, strimzi_cluster

_VERSION = "kafka.strimzi.io/v1"
_MIRROR_FIELDS = {
    "topics": "topicsPattern",
    "topics.exclude": "topicsExcludePattern",
    "groups": "groupsPattern",
    "groups.exclude": "groupsExcludePattern",
}
_KINDS = ("source", "checkpoint", "heartbeat")
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONVERTERS = {f"{kind}.converter": _BYTES for kind in ("key", "value", "header")}
"""Connect's own ones are another cluster's choice: they would read records as JSON."""


class ExportForm(Enum):
    """A format that is written."""

    STRIMZI = "strimzi"
    RESOURCES = "kafkaconnectors"
    CONNECTORS = "connectors"
    PROPERTIES = "properties"


@dataclass(frozen=True, slots=True)
class Mirror:
    """A link as MirrorMaker 2 has it, before it is written.

    Parameters
    ----------
    link
        The link.
    source, target
        Its clusters.
    naming
        Their names there, and those of mirrors.
    connectors
        What the connectors do.
    folder, namespace
        Where the link has secrets mounted, and the namespace of Kubernetes that has them.
    ledger
        Takes what a person has to do.
    """

    link: LinkConfig
    source: ClusterConfig
    target: ClusterConfig
    naming: MirrorNaming
    connectors: MirrorConnectors
    folder: str
    namespace: str
    ledger: Ledger

    @property
    def name(self) -> str:
        """The link's name, as Kubernetes takes it."""
        return kubernetes_name(self.link.name)


def text_of(mirror: Mirror, form: ExportForm) -> str:
    """Return the text of a format."""
    return _WRITERS[form](mirror)


# -- Strimzi ---------------------------------------------------------------------------------------


def _strimzi(mirror: Mirror) -> str:
    naming, connectors, ledger = mirror.naming, mirror.connectors, mirror.ledger
    references = SecretReferences(mirror.folder, mirror.namespace, ledger)
    target = strimzi_cluster(mirror.link.target, mirror.target, references, ledger)
    config = {**connectors.worker, **target.pop("config", {})}
    source = strimzi_cluster(mirror.link.source, mirror.source, references, ledger)
    spec: Properties = {
        "replicas": 1,
        "target": {
            "alias": naming.target,
            "groupId": f"{naming.source}-mm2",
            "configStorageTopic": f"mm2-configs.{naming.source}.internal",
            "offsetStorageTopic": f"mm2-offsets.{naming.source}.internal",
            "statusStorageTopic": f"mm2-status.{naming.source}.internal",
            **target,
            **({"config": config} if config else {}),
        },
        "mirrors": [{"source": {"alias": naming.source, **source}, **_mirror_fields(connectors)}],
    }
    documents = [_resource("KafkaMirrorMaker2", mirror.name, mirror, spec)]
    if connectors.heartbeat is not None:
        documents.append(_kafka_connector(mirror, "heartbeat", references))
    _tell_heartbeats(mirror)
    name = f"{naming.flow}.MirrorSourceConnector"
    _tell_beginning(mirror, f"--connector '{name}'")
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


def _mirror_fields(connectors: MirrorConnectors) -> Properties:
    """Return the mirror's own fields, and its connectors without what these say."""
    fields: Properties = {}
    for kind, given in (("source", connectors.source), ("checkpoint", connectors.checkpoint)):
        if given is None:
            continue
        own = {name: value for name, value in given.items() if name not in _MIRROR_FIELDS}
        fields |= {_MIRROR_FIELDS[name]: given[name] for name in _MIRROR_FIELDS if name in given}
        tasks = {} if connectors.tasks is None else {"tasksMax": connectors.tasks}
        fields[f"{kind}Connector"] = (tasks if kind == "source" else {}) | {"config": own}
    return fields


def _resources(mirror: Mirror) -> str:
    references = SecretReferences(mirror.folder, mirror.namespace, mirror.ledger)
    documents = [_kafka_connector(mirror, kind, references) for kind in _kinds(mirror)]
    _tell_heartbeats(mirror)
    _tell_beginning(mirror, f"--connector {mirror.name}-source {_OTHER_TOPICS}")
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


def _kafka_connector(mirror: Mirror, kind: str, references: SecretReferences) -> Properties:
    config = _config(mirror, kind, references)
    spec = {"class": config.pop("connector.class"), "tasksMax": config.pop("tasks.max", 1)}
    place = mirror.link.source if kind == "heartbeat" else mirror.link.target
    resource = _resource(
        "KafkaConnector", f"{mirror.name}-{kind}", mirror, {**spec, "config": config}
    )
    cluster = f"{kubernetes_name(place)}-connect"
    resource["metadata"]["labels"] = {"strimzi.io/cluster": cluster}
    mirror.ledger.must_do(
        f"name in the label strimzi.io/cluster of {mirror.name}-{kind} a KafkaConnect that runs at "
        f"{place}, with MirrorMaker 2's classes ({cluster} is made up)"
    )
    return resource


def _resource(kind: str, name: str, mirror: Mirror, spec: Properties) -> Properties:
    metadata: Properties = {"name": name, "namespace": mirror.namespace}
    return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": spec}


# -- Connect ---------------------------------------------------------------------------------------


def _connectors(mirror: Mirror) -> str:
    references = FileReferences(mirror.ledger)
    configs = {kind: _config(mirror, kind, references) for kind in _kinds(mirror)}
    rows = [
        {"name": f"{mirror.link.name}-{kind}", "config": config} for kind, config in configs.items()
    ]
    for kind in configs:
        place = mirror.link.source if kind == "heartbeat" else mirror.link.target
        mirror.ledger.must_do(
            f"post {mirror.link.name}-{kind} to a Connect cluster that runs at {place}"
        )
    if "${dir:" in json.dumps(rows) or "${env:" in json.dumps(rows):
        mirror.ledger.must_do(f"give its workers {', '.join(_providers())}")
    _tell_heartbeats(mirror)
    _tell_beginning(mirror, f"--connector {mirror.link.name}-source {_OTHER_TOPICS}")
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def _tell_heartbeats(mirror: Mirror) -> None:
    if mirror.link.heartbeats.at_target:
        mirror.ledger.must_do(
            f"run a MirrorHeartbeatConnector at {mirror.link.target}: it writes what the link "
            "wrote there (heartbeats.at_target)"
        )


def _kinds(mirror: Mirror) -> list[str]:
    return [kind for kind in _KINDS if getattr(mirror.connectors, kind) is not None]


def _config(
    mirror: Mirror, kind: str, references: FileReferences | SecretReferences
) -> dict[str, Any]:
    """Return the whole configuration of one connector."""
    link, naming = mirror.link, mirror.naming
    ends = [
        ("source", naming.source, link.source, mirror.source),
        ("target", naming.target, link.target, mirror.target),
    ]
    if kind == "heartbeat":  # it writes into its target, which is our source
        ends = [
            (side, *end[1:]) for side, end in zip(("source", "target"), reversed(ends), strict=True)
        ]
    config: Properties = {
        "connector.class": f"{PACKAGE}.Mirror{kind.capitalize()}Connector",
        **CONVERTERS,
    }
    if kind == "source" and mirror.connectors.tasks is not None:
        config["tasks.max"] = mirror.connectors.tasks
    for side, alias, own, cluster in ends:
        config[f"{side}.cluster.alias"] = alias
        if kind == "heartbeat" and side == "source":
            continue  # it connects to its target only
        given = client_properties(own, cluster, references, mirror.ledger)
        config |= {f"{side}.cluster.{name}": value for name, value in given.items()}
    config |= getattr(mirror.connectors, kind)
    return config


# -- dedicated mode --------------------------------------------------------------------------------


def _properties(mirror: Mirror) -> str:
    naming, connectors, link = mirror.naming, mirror.connectors, mirror.link
    references = FileReferences(mirror.ledger)
    lines: Properties = {"clusters": f"{naming.source}, {naming.target}"}
    for alias, own, cluster in (
        (naming.source, link.source, mirror.source),
        (naming.target, link.target, mirror.target),
    ):
        given = client_properties(own, cluster, references, mirror.ledger)
        lines |= _below(f"{alias}.", given)
    if any("${dir:" in str(value) or "${env:" in str(value) for value in lines.values()):
        lines |= _providers()
    lines |= _below(f"{naming.target}.", connectors.worker)
    flow, back = f"{naming.flow}.", f"{naming.target}->{naming.source}."
    lines[f"{flow}enabled"] = True
    lines[f"{flow}emit.heartbeats.enabled"] = link.heartbeats.at_target
    lines[f"{back}enabled"] = False
    lines[f"{back}emit.heartbeats.enabled"] = connectors.heartbeat is not None
    lines |= _below(back, connectors.heartbeat or {})
    if connectors.tasks is not None:
        lines[f"{flow}tasks.max"] = connectors.tasks
    if connectors.checkpoint is None:
        lines[f"{flow}emit.checkpoints.enabled"] = False
    lines |= _below(flow, connectors.source | (connectors.checkpoint or {}))
    _tell_beginning(mirror, "")
    return "".join(f"{_escaped(name)} = {_escaped(_text(v))}\n" for name, v in lines.items())


def _below(prefix: str, given: Mapping[str, Any]) -> Properties:
    return {f"{prefix}{name}": value for name, value in given.items()}


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    """Return a text as Java reads it from a file; none of ours begins with a blank."""
    safe = text.replace("\\", "\\\\")
    return "".join(letter if letter.isascii() else _unicode(letter) for letter in safe)


def _unicode(letter: str) -> str:
    data = letter.encode("utf-16-be")
    return "".join(f"\\u{data[place : place + 2].hex()}" for place in range(0, len(data), 2))


# -- all -------------------------------------------------------------------------------------------

_OTHER_TOPICS = "--offsets-topic CONNECT_OFFSETS --group CONNECT_GROUP"


def _providers() -> dict[str, str]:
    """Return the settings of the providers to which references are."""
    package = "org.apache.kafka.common.config.provider"
    return {
        "config.providers": "dir,env",
        "config.providers.dir.class": f"{package}.DirectoryConfigProvider",
        "config.providers.env.class": f"{package}.EnvVarConfigProvider",
    }


def _tell_beginning(mirror: Mirror, connector: str) -> None:
    alias = "" if mirror.naming.source == mirror.link.source else f"--alias {mirror.naming.source}"
    words = ["heliostat adopt", mirror.link.name, "--back", connector, alias]
    mirror.ledger.must_do(
        "before it starts, stop the link and write where it ends: "
        + " ".join(word for word in words if word)
        + "; otherwise it begins anew, and writes everything again"
    )


_WRITERS: dict[ExportForm, Callable[[Mirror], str]] = {
    ExportForm.STRIMZI: _strimzi,
    ExportForm.RESOURCES: _resources,
    ExportForm.CONNECTORS: _connectors,
    ExportForm.PROPERTIES: _properties,
}
