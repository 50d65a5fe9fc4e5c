"""Settings of topics as a broker of Kafka 4.3 has them: their defaults, and what it refuses.

`tests/kafka/test_admin_contract.py` compares all of them with a real broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heliostat.clusters.admin import ConfigEntry, ConfigSource

Check = Callable[[str], bool]
FOREVER = str(2**63 - 1)
BROKER_SETTINGS = {
    "producer.id.expiration.ms": "86400000",
    "message.max.bytes": "1048588",
    "offset.metadata.max.bytes": "4096",
}
"""Those of the hundreds of broker settings that the product uses."""
OFFSET_METADATA_MAX = 4096


def _number(least: float, most: float = 2**63 - 1) -> Check:
    def check(value: str) -> bool:
        try:
            return least <= int(value.strip()) <= most
        except ValueError:
            return False

    return check


def _share(value: str) -> bool:
    try:
        return 0 <= float(value) <= 1
    except ValueError:
        return False


def _one_of(*words: str) -> Check:
    return lambda value: value in words


def _is_flag(value: str) -> bool:
    return value.strip().lower() in {"true", "false"}


def _is_policy(value: str) -> bool:
    return not value or set(value.split(",")) <= {"compact", "delete"}


def _is_replicas(value: str) -> bool:
    pairs = (each.split(":") for each in value.split(","))
    return value in {"", "*"} or all(len(p) == 2 and "".join(p).isdigit() for p in pairs)


_INT = 2**31 - 1
_TOPIC_SETTINGS: dict[str, tuple[str, Check]] = {
    "cleanup.policy": ("delete", _is_policy),
    "compression.gzip.level": ("-1", lambda value: value == "-1" or _number(1, 9)(value)),
    "compression.lz4.level": ("9", _number(1, 17)),
    "compression.type": (
        "producer",
        _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    "compression.zstd.level": ("3", _number(-131072, 22)),
    "delete.retention.ms": ("86400000", _number(0)),
    "file.delete.delay.ms": ("60000", _number(0)),
    "flush.messages": (FOREVER, _number(1)),
    "flush.ms": (FOREVER, _number(0)),
    "follower.replication.throttled.replicas": ("", _is_replicas),
    "index.interval.bytes": ("4096", _number(0, _INT)),
    "leader.replication.throttled.replicas": ("", _is_replicas),
    "local.retention.bytes": ("-2", _number(-2)),
    "local.retention.ms": ("-2", _number(-2)),
    "max.compaction.lag.ms": (FOREVER, _number(1)),
    "max.message.bytes": ("1048588", _number(0, _INT)),
    "message.timestamp.after.max.ms": ("3600000", _number(0)),
    "message.timestamp.before.max.ms": (FOREVER, _number(0)),
    "message.timestamp.type": ("CreateTime", _one_of("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": ("0.5", _share),
    "min.compaction.lag.ms": ("0", _number(0)),
    "min.insync.replicas": ("1", _number(1, _INT)),
    "preallocate": ("false", _is_flag),
    "remote.log.copy.disable": ("false", _is_flag),
    "remote.log.delete.on.disable": ("false", _is_flag),
    "remote.storage.enable": ("false", _is_flag),
    "retention.bytes": ("-1", _number(-(2**63))),
    "retention.ms": ("604800000", _number(-1)),
    "segment.bytes": ("1073741824", _number(1024 * 1024, _INT)),
    "segment.index.bytes": ("10485760", _number(4, _INT)),
    "segment.jitter.ms": ("0", _number(0)),
    "segment.ms": ("604800000", _number(1)),
    "unclean.leader.election.enable": ("false", _is_flag),
}
_DYNAMIC = "min.insync.replicas"  # set for all brokers when a cluster is formatted (KIP-966)


def is_refused(values: Mapping[str, str | None]) -> bool:
    """Return whether a broker answers INVALID_CONFIG; an unset setting need not exist."""
    return any(
        value is not None and not (key in _TOPIC_SETTINGS and _TOPIC_SETTINGS[key][1](value))
        for key, value in values.items()
    )


def inherited(of_brokers: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a topic without its own, of brokers that set some for all."""
    return {key: of_brokers.get(key, value) for key, (value, _) in _TOPIC_SETTINGS.items()}


def in_effect(own: Mapping[str, str], of_brokers: Mapping[str, str]) -> dict[str, ConfigEntry]:
    """Return all settings of a topic and the source of each."""
    return {
        key: _entry(own[key], ConfigSource.TOPIC)
        if key in own
        else _entry(value, _source(key, of_brokers))
        for key, value in inherited(of_brokers).items()
    }


def _source(key: str, of_brokers: Mapping[str, str]) -> ConfigSource:
    if key in of_brokers:
        return ConfigSource.STATIC_BROKER
    return ConfigSource.DYNAMIC_DEFAULT_BROKER if key == _DYNAMIC else ConfigSource.DEFAULT


def default_entry(value: str) -> ConfigEntry:
    """Return a setting with Kafka's default."""
    return _entry(value, ConfigSource.DEFAULT)


def set_entry(value: str) -> ConfigEntry:
    """Return a setting from a broker's configuration file."""
    return _entry(value, ConfigSource.STATIC_BROKER)


def _entry(value: str, source: ConfigSource) -> ConfigEntry:
    is_default = source is ConfigSource.DEFAULT
    return ConfigEntry(value, source, is_default, is_read_only=False, is_sensitive=False)
