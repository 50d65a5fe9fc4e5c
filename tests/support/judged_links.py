"""What a link does, in the words of a verdict of MirrorMaker 2's classes: to compare both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.mirror_maker_judge import GROUPS, TOPICS, ClientView, Verdict

from heliostat.config import BUILT_IN_EXCLUDE, ClusterConfig, LinkConfig, compile_pattern
from heliostat.groups.select import compile_selection
from heliostat.names import TopicName
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of

NEVER_MIRRORED = {
    t for t in TOPICS if any(compile_pattern(e).fullmatch(t) for e in BUILT_IN_EXCLUDE)
}
"""A link leaves these out even where MirrorMaker 2 copies them."""


def differences(theirs: Verdict, link: LinkConfig, told: str) -> Iterator[str]:
    """Yield what the link does otherwise and no line tells."""
    selection, naming = selection_of(link), naming_of(link)
    mirrors = {t: naming.target_name(TopicName(t)) for t in TOPICS if selection.selects(t)}
    for topic in TOPICS:
        is_named_so = topic.endswith("heartbeats")
        is_left_out = topic.endswith("internal") and "are left out" in told
        is_known = is_left_out or (
            is_named_so and ("heartbeats" in told or link.topics.naming == "same")
        )
        if topic in NEVER_MIRRORED or is_known:
            continue
        if mirrors.get(topic) != theirs.mirrors.get(topic):
            yield f"{topic}: theirs {theirs.mirrors.get(topic)}, ours {mirrors.get(topic)}"
    if "emit.checkpoints.enabled" in theirs.values:
        groups = compile_selection(link.groups)
        ours = {each for each in GROUPS if groups.by_name(each).skip is None}
        if ours != theirs.groups:
            yield f"groups: theirs {theirs.groups}, ours {ours}"
    for name, value in values_of(link).items():
        expected = theirs.values.get(name)
        is_told = name in told or (name.startswith("heartbeats") and "heartbeats were" in told)
        if expected is not None and value != expected and not is_told:
            yield f"{name}: theirs {expected!r}, ours {value!r}"


def values_of(link: LinkConfig) -> dict[str, Any]:
    """Return what a link does, by the names of MirrorMaker 2."""
    topics, records = link.topics, link.records
    start = "earliest" if topics.start == "earliest" else "latest"
    return {
        "replication.factor": 2 if topics.replication_factor is None else topics.replication_factor,
        "sync.topic.configs.enabled": topics.sync_configs,
        "heartbeats.replication.enabled": link.heartbeats.are_mirrored,
        "heartbeats at the source": link.heartbeats.interval_s if link.heartbeats.emit else 0,
        "consumer.auto.offset.reset": start,
        "consumer.fetch.max.bytes": str(records.fetch_bytes_max),
        "consumer.max.partition.fetch.bytes": str(records.partition_fetch_bytes_max),
        "producer.compression.type": records.compression,
        "sync.group.offsets.enabled": link.groups.sync,
        "emit.checkpoints.enabled": link.checkpoints.emit,
    }


def client_view(cluster: ClusterConfig) -> ClientView:
    """Return what decides where our clients connect, and as whom."""
    security = cluster.security
    found: ClientView = {"bootstrap": sorted(cluster.bootstrap), "protocol": security.protocol}
    if security.protocol.endswith("SSL"):
        found["verify_hostname"] = security.verify_hostname
    if security.protocol.startswith("SASL"):
        found["mechanism"] = security.mechanism
        endpoint = security.token_endpoint
        found["user"] = security.username if endpoint is None else endpoint.client_id
    return found
