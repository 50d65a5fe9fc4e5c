"""Convert one link into properties of MirrorMaker 2's connectors, once for all formats.

The reverse of `config_rules`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from heliostat.config import (
    BUILT_IN_EXCLUDE,
    CONFIG_EXCLUDE_DEFAULT,
    LinkConfig,
    RecordsConfig,
    compile_pattern,
    is_plain_name,
)
from heliostat.mm2.config_topics import MM2_CONFIG_EXCLUDE
from heliostat.mm2.config_values import Ledger
from heliostat.mm2.export_naming import MirrorNaming
from heliostat.mm2.export_patterns import java_list

Properties = dict[str, Any]
_STATE_TOPICS = r"heliostat\..*"
_STORAGES = ("config", "offset", "status")


@dataclass(slots=True)
class MirrorConnectors:
    """Properties of the connectors of one link, without those that say how to connect.

    Parameters
    ----------
    source
        Of the connector that copies.
    checkpoint
        Of that of checkpoints and groups; None: it does not run.
    heartbeat
        Of one that writes into the source; None: none does.
    worker
        Of the Connect workers.
    tasks
        Number of tasks; None: it is to be chosen.
    """

    source: Properties
    checkpoint: Properties | None = None
    heartbeat: Properties | None = None
    worker: Properties = field(default_factory=dict)
    tasks: int | None = None


def connectors_of(link: LinkConfig, naming: MirrorNaming, ledger: Ledger) -> MirrorConnectors:
    """Return the properties of a link's connectors.

    Raises
    ------
    ConfigError
        A regular expression can't be written so that Java reads it as Python does.
    """
    shared = naming.properties() | _selection(link, naming, ledger)
    has_checkpoints = link.groups.sync or link.checkpoints.emit
    syncs = _offset_syncs(link, has_checkpoints=has_checkpoints)
    count = link.lanes.count
    return MirrorConnectors(
        source=shared | _topics(link, ledger) | _records(link.records) | syncs,
        checkpoint=shared | _groups(link, ledger) | _location(syncs) if has_checkpoints else None,
        heartbeat=_heartbeats(link, ledger) if link.heartbeats.emit else None,
        worker=_worker(link.state.replication_factor),
        tasks=count if isinstance(count, int) else None,
    )


def _selection(link: LinkConfig, naming: MirrorNaming, ledger: Ledger) -> Properties:
    topics, own = link.topics, naming.left_out()
    own_only = [
        pattern for pattern in own if pattern not in topics.exclude and _concerns(pattern, link)
    ]
    if own_only:
        patterns = ", ".join(own_only)
        ledger.differs(f"MirrorMaker 2 leaves out topics that match {patterns} in any case")
    exclude = [entry for entry in topics.exclude if entry not in (*own, *BUILT_IN_EXCLUDE)]
    return {
        "topics": java_list(topics.include, "topics.include"),
        "topics.exclude": java_list([*exclude, _STATE_TOPICS], "topics.exclude"),
    }


def _concerns(pattern: str, link: LinkConfig) -> bool:
    """Return whether a pattern may match a topic of the link; of expressions it is not known."""
    matches = compile_pattern(pattern).fullmatch
    return any(not is_plain_name(entry) or matches(entry) for entry in link.topics.include)


def _topics(link: LinkConfig, ledger: Ledger) -> Properties:
    topics = link.topics
    refresh = _seconds(topics.refresh_interval_s, "topics.refresh_interval_s", ledger)
    properties: Properties = {
        "refresh.topics.interval.seconds": refresh,
        "sync.topic.configs.interval.seconds": refresh,
        "sync.topic.acls.enabled": False,
        "heartbeats.replication.enabled": link.heartbeats.are_mirrored,
        "source.consumer.isolation.level": "read_committed",
    }
    if topics.start == "latest":
        properties["source.consumer.auto.offset.reset"] = "latest"
    if topics.replication_factor is not None:
        properties["replication.factor"] = topics.replication_factor
    if not topics.sync_configs:
        properties["sync.topic.configs.enabled"] = False
    if topics.sync_broker_values:
        properties["use.defaults.from"] = "source"
    if topics.config_exclude != CONFIG_EXCLUDE_DEFAULT:
        entries = topics.config_exclude
        properties["config.properties.exclude"] = java_list(entries, "topics.config_exclude")
        _tell_copied(entries, ledger)
    return properties


def _tell_copied(entries: Iterable[str], ledger: Ledger) -> None:
    lacking = [e for e in CONFIG_EXCLUDE_DEFAULT[MM2_CONFIG_EXCLUDE:] if e not in entries]
    if lacking:
        ledger.differs(
            f"topics.config_exclude lacks {', '.join(lacking)}: MirrorMaker 2 copies these, "
            "a link gives mirrors its own; `import-mm2` adds them again"
        )


def _records(records: RecordsConfig) -> Properties:
    properties: Properties = {}
    usual = RecordsConfig()
    if records.compression != "keep":
        properties["producer.override.compression.type"] = records.compression
    if records.fetch_bytes_max != usual.fetch_bytes_max:
        properties["source.consumer.fetch.max.bytes"] = records.fetch_bytes_max
    if records.partition_fetch_bytes_max != usual.partition_fetch_bytes_max:
        properties["source.consumer.max.partition.fetch.bytes"] = records.partition_fetch_bytes_max
    return properties


def _offset_syncs(link: LinkConfig, *, has_checkpoints: bool) -> Properties:
    """Checkpoints need them, whether or not the link writes them."""
    syncs = link.offset_syncs
    if not syncs.emit:
        return (
            {"offset-syncs.topic.location": "target"}
            if has_checkpoints
            else {"emit.offset-syncs.enabled": False}
        )
    properties: Properties = {
        "emit.offset-syncs.enabled": True,
        "offset-syncs.topic.location": syncs.location,
    }
    if syncs.replication_factor is not None:
        properties["offset-syncs.topic.replication.factor"] = syncs.replication_factor
    return properties


def _location(syncs: Properties) -> Properties:
    name = "offset-syncs.topic.location"
    return {name: syncs[name]}


def _groups(link: LinkConfig, ledger: Ledger) -> Properties:
    groups = link.groups
    interval = _seconds(groups.interval_s, "groups.interval_s", ledger)
    properties: Properties = {
        "groups": java_list(groups.include, "groups.include"),
        "groups.exclude": java_list(groups.exclude, "groups.exclude"),
        "sync.group.offsets.enabled": groups.sync,
        "sync.group.offsets.interval.seconds": interval,
        "emit.checkpoints.interval.seconds": interval,
    }
    if link.checkpoints.replication_factor is not None:
        properties["checkpoints.topic.replication.factor"] = link.checkpoints.replication_factor
    return properties


def _heartbeats(link: LinkConfig, ledger: Ledger) -> Properties:
    interval = _seconds(link.heartbeats.interval_s, "heartbeats.interval_s", ledger)
    properties: Properties = {"emit.heartbeats.interval.seconds": interval}
    if link.heartbeats.replication_factor is not None:
        properties["heartbeats.topic.replication.factor"] = link.heartbeats.replication_factor
    return properties


def _worker(factor: int | None) -> Properties:
    if factor is None:
        return {}
    return {f"{storage}.storage.replication.factor": factor for storage in _STORAGES}


def _seconds(value: float, key: str, ledger: Ledger) -> int:
    whole = max(1, round(value))
    if whole != value:
        ledger.differs(
            f"{key}: {value:g} s are {whole} s there, as MirrorMaker 2 has whole seconds"
        )
    return whole
