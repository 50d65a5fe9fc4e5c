"""What MirrorMaker 2's own classes make of a configuration, to compare our import with.

For `mm2.properties` they do all of it. A connector's properties go to the connector's own class;
what Strimzi's operator makes of its resources is restated here, as it is in none of the jars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import yaml
from py4j.protocol import Py4JJavaError
from support.mirror_jvm import MirrorJvm

from heliostat.mm2.config_properties import read_properties

KINDS = ("Source", "Checkpoint", "Heartbeat")
CLASS = "org.apache.kafka.connect.mirror.Mirror{}Connector"
TOPICS = (
    *(
        "orders",
        "orders-eu",
        "orders.eu",
        "ordersXeu",
        "sales_A",
        "sales_B",
        "users",
        "pay",
        "pays",
    ),
    *("A.orders", "B.orders", "C.orders", "C.B.orders", "a.orders", "b.orders", "A", "B", "none"),
    *("A_orders", "B_orders", "B-orders", "B--orders", "C-B-orders", "mirror-orders", "Bob", "a"),
    *("heartbeats", "A.heartbeats", "B.heartbeats", "C.heartbeats", "b.heartbeats", "B-heartbeats"),
    *("my-heartbeats", "x.replica", "x.internal", "x-internal", "mm2-offsets.A.internal"),
    *("mm2.x.internal", "mm2-x-internal", "__consumer_offsets", ".hidden", "orders.secret", "x"),
    *("A.checkpoints.internal", "C-checkpoints-internal", "my.secret.topic", "connect-configs"),
)
GROUPS = (
    "app",
    "app-1",
    "app.1",
    "console-consumer-1",
    "connect-x",
    "__g",
    "testgroup",
    "a b",
    "x",
)
CLIENT_KEYS = (
    *("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config"),
    *("ssl.endpoint.identification.algorithm", "ssl.truststore.location"),
    *("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope"),
    "sasl.oauthbearer.client.credentials.client.id",
)
ClientView = dict[str, Any]


@dataclass(slots=True)
class Verdict:
    """What MirrorMaker 2 does in one flow."""

    source_alias: str
    target_alias: str
    mirrors: dict[str, str] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    clients: dict[str, ClientView] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


class Judge:
    """MirrorMaker 2's classes in a JVM."""

    def __init__(self, jvm: MirrorJvm) -> None:
        self.jvm = jvm
        self._lang = jvm.jvm.java.lang
        self._methods: dict[tuple[str, str], Any] = {}
        self._object = self._lang.Object

    def verdicts(self, files: Mapping[str, str]) -> list[Verdict]:
        """Return what each enabled flow does, in the order of the files."""
        connectors: list[dict[str, str]] = []
        found: list[Verdict] = []
        for name, text in files.items():
            if name.endswith(".properties") and "connector.class" not in text:
                found += list(self._dedicated(text))
            else:
                connectors += connectors_in(name, text)
        return [*found, *self._connectors(connectors)]

    def _dedicated(self, text: str) -> Iterator[Verdict]:
        given = {each.name: each.value for each in read_properties(text)}
        fast = {"plugin.discovery": "service_load"}  # else each object scans all jars, for 6 s
        config = self.jvm.mirror("MirrorMakerConfig")(self._map(given | fast))
        for pair in config.clusterPairs():
            kinds = [
                dict(config.connectorBaseConfig(pair, self._class(kind)))
                | {"connector.class": CLASS.format(kind)}
                for kind in KINDS
            ]
            if kinds[0].get("enabled") == "true":
                worker = {str(k): str(v) for k, v in dict(config.workerConfig(pair)).items()}
                found = self._verdict(kinds[0], kinds[1], worker)
                back = self.jvm.mirror("SourceAndTarget")(pair.target(), pair.source())
                opposite = dict(config.connectorBaseConfig(back, self._class("Heartbeat")))
                found.values |= self._heartbeats([opposite])
                yield found

    def _connectors(self, given: list[dict[str, str]]) -> Iterator[Verdict]:
        def of_kind(kind: str) -> list[dict[str, str]]:
            return [each for each in given if each["connector.class"] == CLASS.format(kind)]

        checkpoints = {_ends(each): each for each in of_kind("Checkpoint")}
        for source in of_kind("Source"):
            found = self._verdict(source, checkpoints.get(_ends(source)), {})
            address = source["source.cluster.bootstrap.servers"]
            found.values |= self._heartbeats(
                [
                    each
                    for each in of_kind("Heartbeat")
                    if each["target.cluster.bootstrap.servers"] == address
                ]
            )
            yield found

    def _heartbeats(self, given: Iterable[Mapping[str, str]]) -> dict[str, Any]:
        """Return how often heartbeats are written into the source; 0 for never."""
        interval = 0
        for each in given:
            config = self.jvm.mirror("MirrorHeartbeatConfig")(self._map({"name": "h", **each}))
            interval = int(self._call(config, "emitHeartbeatsInterval").toSeconds())
        return {"heartbeats at the source": max(interval, 0)}

    def _verdict(
        self,
        source: Mapping[str, str],
        checkpoint: Mapping[str, str] | None,
        worker: Mapping[str, str],
    ) -> Verdict:
        config = self.jvm.mirror("MirrorSourceConfig")(self._map({"name": "m", **source}))
        found = Verdict(config.get("source.cluster.alias"), config.get("target.cluster.alias"))
        connector = self._connector(config, found)
        for topic in TOPICS:
            if self._call(connector, "shouldReplicateTopic", topic):
                found.mirrors[topic] = str(self._call(connector, "formatRemoteTopic", topic))
        for name in SOURCE_VALUES:
            found.values[name] = config.get(name)
        consumer = dict(self._call(config, "sourceConsumerConfig", "r"))
        for name in CONSUMER_VALUES:
            found.values[f"consumer.{name}"] = consumer.get(name)
        found.clients = {
            "source consumer": view(consumer),
            "source admin": view(dict(self._call(config, "sourceAdminConfig", "r"))),
            "target admin": view(dict(self._call(config, "targetAdminConfig", "r"))),
        }
        producer = {
            k.removeprefix("producer."): v for k, v in worker.items() if k[:9] == "producer."
        }
        producer |= {
            k.removeprefix("producer.override."): v
            for k, v in source.items()
            if k.startswith("producer.override.")
        }
        found.values["producer.compression.type"] = producer.get("compression.type")
        if worker:
            base = {"bootstrap.servers": worker.get("bootstrap.servers")}
            found.clients["target producer"] = view(base | producer)
        if checkpoint is not None:
            self._add_checkpoint(checkpoint, found)
        return found

    def _add_checkpoint(self, given: Mapping[str, str], found: Verdict) -> None:
        config = self.jvm.mirror("MirrorCheckpointConfig")(self._map({"name": "c", **given}))
        group_filter = self._call(config, "groupFilter")
        found.groups = {each for each in GROUPS if group_filter.shouldReplicateGroup(each)}
        for name in CHECKPOINT_VALUES:
            found.values[name] = config.get(name)

    def _connector(self, config: Any, found: Verdict) -> Any:
        pair = self.jvm.mirror("SourceAndTarget")(found.source_alias, found.target_alias)
        kind = self._class("Source")
        constructor = next(c for c in kind.getDeclaredConstructors() if c.getParameterCount() == 5)
        constructor.setAccessible(True)
        return constructor.newInstance(
            self._array(
                pair,
                self._call(config, "replicationPolicy"),
                self._call(config, "topicFilter"),
                self._call(config, "configPropertyFilter"),
                config.get("heartbeats.replication.enabled"),
            )
        )

    def _call(self, java: Any, method: str, *arguments: str) -> Any:
        """Call a method that may be package-private."""
        kind = java.getClass()
        key = (str(kind.getName()), method)
        if key not in self._methods:
            self._methods[key] = self._method(kind, method, len(arguments))
        return self._methods[key](java, self._array(*arguments))

    def _method(self, kind: Any, name: str, arguments: int) -> Any:
        """Find a method that takes so many strings, in the class or one above."""
        types = self.jvm.array(self._lang.Class, arguments)
        for index in range(arguments):
            types[index] = self._lang.Class.forName("java.lang.String")
        while kind is not None:
            try:
                found = kind.getDeclaredMethod(name, types)
            except Py4JJavaError:
                kind = kind.getSuperclass()
            else:
                found.setAccessible(True)
                return found.invoke
        raise AssertionError(name)

    def _array(self, *values: Any) -> Any:
        made = self.jvm.array(self._object, len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    def _class(self, kind: str) -> Any:
        return self._lang.Class.forName(CLASS.format(kind))

    def _map(self, given: Mapping[str, str]) -> Any:
        made = self.jvm.jvm.java.util.HashMap()
        for key, value in given.items():
            made.put(key, value)
        return made


SOURCE_VALUES = (
    *("replication.factor", "sync.topic.configs.enabled", "heartbeats.replication.enabled"),
    *("emit.offset-syncs.enabled", "offset-syncs.topic.location"),
)
CONSUMER_VALUES = (
    *("auto.offset.reset", "isolation.level", "fetch.max.bytes", "max.partition.fetch.bytes"),
)
CHECKPOINT_VALUES = (
    *("sync.group.offsets.enabled", "emit.checkpoints.enabled"),
    "sync.group.offsets.interval.seconds",
)


def view(client: Mapping[str, Any]) -> ClientView:
    """Return what decides where a client connects, and as whom."""
    text = {key: str(client[key]).strip() for key in CLIENT_KEYS if client.get(key) is not None}
    protocol = text.get("security.protocol", "PLAINTEXT").upper()
    jaas = text.get("sasl.jaas.config", "")
    found: ClientView = {
        "bootstrap": sorted(filter(None, re.split(r"\s*,\s*", text.get("bootstrap.servers", "")))),
        "protocol": protocol,
    }
    if protocol.endswith("SSL"):
        found["verify_hostname"] = bool(text.get("ssl.endpoint.identification.algorithm", "https"))
    if protocol.startswith("SASL"):
        found["mechanism"] = text.get("sasl.mechanism", "GSSAPI").upper()
        option = re.search(r'(?:username|clientId)\s*=\s*"?([^";\s]+)', jaas)
        identity = text.get("sasl.oauthbearer.client.credentials.client.id")
        found["user"] = identity or (option[1] if option else None)
    return found


def connectors_in(name: str, text: str) -> Iterator[dict[str, str]]:
    """Yield connectors' properties, as Connect gets them."""
    if name.endswith(".properties"):
        yield {each.name: each.value for each in read_properties(text)}
    elif name.endswith(".json"):
        for each in _connectors_of(json.loads(text)):
            yield {key: str(value) for key, value in each.items()}
    else:
        for resource in yaml.safe_load_all(text):
            if resource["kind"] == "KafkaConnector":
                spec = resource["spec"]
                yield _texts(spec["config"]) | {"connector.class": spec["class"]}
            else:
                yield from strimzi_connectors(resource["spec"])


def _connectors_of(value: Any) -> Iterator[Mapping[str, Any]]:
    for each in value if isinstance(value, list) else [value]:
        yield each["config"]


def strimzi_connectors(spec: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the connectors that Strimzi's operator makes of a KafkaMirrorMaker2."""
    clusters = {each["alias"]: each for each in spec.get("clusters", ())}
    for mirror, kind in product(spec["mirrors"], KINDS):
        connector = mirror.get(f"{kind.lower()}Connector")
        if connector is None:
            continue
        target = spec.get("target") or clusters[mirror["targetCluster"]]
        source = mirror.get("source") or clusters[mirror["sourceCluster"]]
        found = {"connector.class": CLASS.format(kind), **_texts(connector.get("config", {}))}
        found |= _cluster("target", target) | _cluster("source", source)
        for name, fields in STRIMZI_PATTERNS:
            value = next((mirror[each] for each in fields if each in mirror), None)
            if value is not None:
                found[name] = value
        yield _with_defaults_of(str(spec.get("version", "")), found)


STRIMZI_PATTERNS = (
    ("topics", ("topicsPattern",)),
    ("topics.exclude", ("topicsExcludePattern", "topicsBlacklistPattern")),
    ("groups", ("groupsPattern",)),
    ("groups.exclude", ("groupsExcludePattern", "groupsBlacklistPattern")),
)
INTERNAL_BEFORE_41 = r".*[\-\.]internal"
EXCLUDED_BEFORE_41 = r".*[\-\.]internal,.*\.replica,__.*"


def _with_defaults_of(version: str, given: dict[str, str]) -> dict[str, str]:
    """Give explicitly what a version before 4.1 excludes by default, and whatever its list says."""
    if version and tuple(map(int, version.split(".")[:2])) < (4, 1):
        own = given.get("topics.exclude", EXCLUDED_BEFORE_41)
        given["topics.exclude"] = own + "," + INTERNAL_BEFORE_41
    return given


def _cluster(side: str, given: Mapping[str, Any]) -> dict[str, str]:
    found = {"alias": given["alias"], "bootstrap.servers": given["bootstrapServers"]}
    authentication = given.get("authentication") or {}
    kind = authentication.get("type", "")
    is_sasl = kind.startswith(("scram", "plain", "oauth"))
    found["security.protocol"] = ("SASL_" if is_sasl else "") + (
        "SSL" if "tls" in given else "PLAINTEXT"
    )
    if is_sasl:
        found["sasl.mechanism"] = "OAUTHBEARER" if kind == "oauth" else kind.upper()
        user = authentication.get("username") or authentication.get("clientId")
        found["sasl.jaas.config"] = f'X required username="{user}";'
    found |= _texts(given.get("config", {}))
    return {f"{side}.cluster.{name}": value for name, value in found.items()}


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
    }


def _ends(connector: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return both addresses, which pair connectors whatever their aliases."""
    return tuple(
        connector.get(f"{side}.cluster.bootstrap.servers") for side in ("source", "target")
    )
