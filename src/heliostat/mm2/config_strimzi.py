"""Read the clusters and mirrors of a Strimzi `KafkaMirrorMaker2` resource as flows.

API v1beta2 (`clusters`, `connectCluster`, aliases in `mirrors`) and v1 (`target`, and a `source` in
each mirror). Fields about pods, images and their resources have no counterpart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from heliostat.errors import ConfigError
from heliostat.mm2.config_security import PASSWORD_MECHANISMS
from heliostat.mm2.config_values import Client, Fate, Flow, Ledger, Origin, Setting

KIND = "KafkaMirrorMaker2"
_FIELDS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.blacklist",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.blacklist",
}
_CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
_MECHANISMS = {"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}
_PODS = "it is about Kubernetes pods; a link is a process, or runs on your Spark"
Map = Mapping[str, Any]


def is_strimzi(text: str) -> bool:
    """Return whether a text contains such a resource."""
    return KIND in text and any(True for _ in _resources(text))


def read_strimzi(file: str, text: str, secrets: str, ledger: Ledger) -> list[Flow]:
    """Return the flows of all resources in the file.

    Parameters
    ----------
    file
        Name of the file.
    text
        Its contents.
    secrets
        Folder in which Kubernetes secrets are to be mounted, each under its own name.
    ledger
        Takes the outcome of each property.

    Raises
    ------
    ConfigError
        A mirror names a cluster that the resource does not have.
    """
    found: list[Flow] = []
    for at, resource in enumerate(_resources(text)):
        reader = _Resource(file if at == 0 else f"{file}#{at + 1}", resource, secrets, ledger)
        found += reader.flows()
    return found


def _resources(text: str) -> Iterator[Map]:
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from None
    for each in documents:
        items = each.get("items", [each]) if isinstance(each, dict) else []
        yield from (one for one in items if isinstance(one, dict) and one.get("kind") == KIND)


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}")
    elif isinstance(value, list) and value and any(isinstance(each, dict) for each in value):
        for index, each in enumerate(value):
            yield from _leaves(each, f"{path}[{index}]")
    else:
        yield path, value


class _Resource:
    """Reader of one resource."""

    def __init__(self, file: str, resource: Map, secrets: str, ledger: Ledger) -> None:
        self.file = file
        self.ledger = ledger
        self.folder = secrets.rstrip("/")
        self.spec: Map = resource.get("spec") or {}
        for path, _ in _leaves(self.spec, "spec"):
            origin = Origin(file, path)
            ledger.add([origin])
            ledger.unless_read(origin, _PODS)
        self.clients: dict[str, Client] = {}

    def flows(self) -> list[Flow]:
        """Return a flow for each mirror that has a source connector."""
        for index, cluster in enumerate(self.spec.get("clusters") or ()):
            self._client(cluster, f"spec.clusters[{index}]")
        target = self.spec.get("target")
        if isinstance(target, dict):
            self._client(target, "spec.target")
            for key in (
                "groupId",
                "configStorageTopic",
                "offsetStorageTopic",
                "statusStorageTopic",
            ):
                if key in target:
                    self._tell(f"spec.target.{key}", Fate.REPLACED, "the link's own state topics")
        if "connectCluster" in self.spec:
            self._tell("spec.connectCluster", Fate.REPLACED, "the link's target")
        mirrors = [
            (f"spec.mirrors[{index}]", each)
            for index, each in enumerate(self.spec.get("mirrors") or ())
        ]
        pairs = [self._pair(path, mirror) for path, mirror in mirrors]
        back = {
            (source, target)
            for (source, target), (_, mirror) in zip(pairs, mirrors, strict=True)
            if "heartbeatConnector" in mirror
        }
        return [
            self._flow(path, mirror, source, target, emits=(target, source) in back)
            for (path, mirror), (source, target) in zip(mirrors, pairs, strict=True)
            if "sourceConnector" in mirror
        ]

    def _tell(self, path: str, fate: Fate, text: str) -> None:
        self.ledger.tell(Origin(self.file, path), fate, text)

    def _tell_all(self, value: object, path: str, fate: Fate, text: str) -> None:
        for leaf, _ in _leaves(value, path):
            self._tell(leaf, fate, text)

    def _setting(self, value: object, path: str) -> Setting:
        if isinstance(value, bool):
            value = json.dumps(value)
        return Setting("" if value is None else str(value), Origin(self.file, path))

    # -- mirrors -------------------------------------------------------------------------------

    def _pair(self, path: str, mirror: Map) -> tuple[str, str]:
        source = mirror.get("source")
        if isinstance(source, dict):
            self._client(source, f"{path}.source")
            names = (str(source.get("alias")), str((self.spec.get("target") or {}).get("alias")))
        else:
            names = (str(mirror.get("sourceCluster")), str(mirror.get("targetCluster")))
            for key in ("sourceCluster", "targetCluster"):
                self._tell(f"{path}.{key}", Fate.USED, "the link's source and target")
        for name in names:
            if name not in self.clients:
                raise ConfigError(f"{self.file}: {path} names a cluster {name} that does not exist")
        return names

    def _flow(self, path: str, mirror: Map, source: str, target: str, *, emits: bool) -> Flow:
        settings: dict[str, Setting] = {}
        for key, name in _FIELDS.items():
            if key in mirror:
                settings[name] = self._setting(mirror[key], f"{path}.{key}")
        for key in reversed(_CONNECTORS):
            connector = mirror.get(key) or {}
            for name, value in (connector.get("config") or {}).items():
                one = self._setting(value, f"{path}.{key}.config.{name}")
                settings[f"source.{name}" if name.startswith("consumer.") else str(name)] = one
            if "tasksMax" in connector:
                text = "lanes.count, which finds its number by itself (auto)"
                self._tell(f"{path}.{key}.tasksMax", Fate.REPLACED, text)
            for other in connector.keys() - {"config", "tasksMax"}:
                text = "a partition that fails is retried; only a link as a whole is stopped"
                self._tell_all(connector[other], f"{path}.{key}.{other}", Fate.REPLACED, text)
        for name, setting in self._roles(self.clients[source], "consumer."):
            settings.setdefault(f"source.consumer.{name}", setting)
        for name, setting in self._roles(self.clients[target], "producer."):
            settings.setdefault(f"producer.override.{name}", setting)
        for name, setting in self.clients[target].settings.items():
            if ".storage." in name or name.startswith("offset.flush"):
                settings.setdefault(f"worker.{name}", setting)
        return Flow(
            source=self.clients[source],
            target=self.clients[target],
            settings=settings,
            has_heartbeats_at_source=emits,
            has_checkpoints="checkpointConnector" in mirror,
        )

    def _roles(self, client: Client, role: str) -> Iterator[tuple[str, Setting]]:
        for name, setting in client.settings.items():
            if name.startswith(role):
                yield name.removeprefix(role), setting

    # -- clusters ------------------------------------------------------------------------------

    def _client(self, cluster: Map, path: str) -> None:
        alias = str(cluster.get("alias"))
        self._tell(f"{path}.alias", Fate.USED, f"clusters.{alias}")
        settings = {
            str(name): self._setting(value, f"{path}.config.{name}")
            for name, value in (cluster.get("config") or {}).items()
        }
        for name, setting in settings.items():
            why = "a Connect worker's or client's setting; a link has no such process"
            self.ledger.unless_read(setting.origin, why)
            if name.startswith("ssl."):
                self.ledger.without(setting, "Python's TLS decides: 1.2 or later")
        if "bootstrapServers" in cluster:
            place = f"{path}.bootstrapServers"
            settings["bootstrap.servers"] = self._setting(cluster["bootstrapServers"], place)
        security = self._security(alias, cluster, path)
        self.clients[alias] = Client(alias, settings, security)

    def _security(self, alias: str, cluster: Map, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        tls = cluster.get("tls")
        authentication: Map = cluster.get("authentication") or {}
        kind = authentication.get("type")
        is_sasl = kind in _MECHANISMS or kind == "oauth"
        protocol = ("SASL_" if is_sasl else "") + ("PLAINTEXT" if tls is None else "SSL")
        if protocol != "PLAINTEXT":
            found["protocol"] = protocol
        if tls is not None:
            self._tell_all(tls, f"{path}.tls", Fate.USED, f"clusters.{alias}.security.ca_file")
            self._trust(found, alias, tls)
        text = f"clusters.{alias}.security"
        self._tell_all(authentication, f"{path}.authentication", Fate.USED, text)
        if kind == "tls":
            pair = authentication.get("certificateAndKey") or {}
            found["certificate_file"] = self._mounted(pair, "certificate", alias)
            found["key_file"] = self._mounted(pair, "key", alias)
        elif kind in _MECHANISMS:
            found["mechanism"] = _MECHANISMS[kind]
            assert found["mechanism"] in PASSWORD_MECHANISMS
            found["username"] = str(authentication.get("username"))
            secret = authentication.get("passwordSecret") or {}
            found["password"] = {"file": self._mounted(secret, "password", alias)}
        elif kind == "oauth":
            found |= self._oauth(authentication, alias)
        elif kind is not None:
            self._tell_all(
                authentication, f"{path}.authentication", Fate.WITHOUT_EFFECT, "see to do"
            )
            self.ledger.must_do(
                f"configure the authentication to cluster {alias}; it was of type {kind}"
            )
            self.ledger.differs(f"a link can't authenticate to cluster {alias} with type {kind}")
        return found

    def _trust(self, found: dict[str, Any], alias: str, tls: Map) -> None:
        """Set `ca_file`; several certificates must be written into one file."""
        trusted = tls.get("trustedCertificates") or []
        if len(trusted) == 1 and "certificate" in trusted[0]:
            found["ca_file"] = self._mounted(trusted[0], "certificate", alias)
        elif trusted:
            found["ca_file"] = f"{self.folder}/{alias}-ca.pem"
            names = ", ".join(str(each.get("secretName")) for each in trusted)
            self.ledger.must_do(f"concatenate all certificates of {names} into {found['ca_file']}")

    def _oauth(self, given: Map, alias: str) -> dict[str, Any]:
        found: dict[str, Any] = {"mechanism": "OAUTHBEARER"}
        if "tokenEndpointUri" not in given or "clientSecret" not in given:
            token = given.get("accessToken") or {}
            return found | {"token": {"file": self._mounted(token, "key", alias)}}
        endpoint: dict[str, Any] = {
            "url": given["tokenEndpointUri"],
            "client_id": str(given.get("clientId")),
            "client_secret": {"file": self._mounted(given["clientSecret"], "key", alias)},
        }
        if given.get("scope"):
            endpoint["scope"] = given["scope"]
        return found | {"token_endpoint": endpoint}

    def _mounted(self, secret: Map, key: str, alias: str) -> str:
        """Return the path at which an item of a Kubernetes secret must be mounted."""
        name, item = str(secret.get("secretName")), str(secret.get(key))
        path = f"{self.folder}/{name}/{item}"
        self.ledger.must_do(
            f"mount secret {name} (for cluster {alias}) so that its {item} is at {path}"
        )
        return path
