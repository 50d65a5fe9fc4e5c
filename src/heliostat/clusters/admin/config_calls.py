"""Settings of topics and brokers: describe and change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from kafka.admin import ConfigResourceType
from kafka.protocol.admin import DescribeConfigsResponse, IncrementalAlterConfigsRequest

from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.config_answers import VERSION, ConfigAnswer, decode_configs
from heliostat.clusters.admin.large_answers import DescribeConfigs, LargeAnswer
from heliostat.clusters.admin.values import ConfigEntry, ConfigSource
from heliostat.errors import BrokerError, ProtocolError
from heliostat.names import BrokerId, TopicName

TOPICS_PER_REQUEST = 1000  # some 3 kB of settings a topic: answers of a few MB
_SET, _DELETE = 0, 1  # `AlterConfigOp.OpType`
_TOPIC = ConfigResourceType.TOPIC.value
_BROKER = ConfigResourceType.BROKER.value


def describe_topics(
    caller: Caller, topics: Iterable[TopicName], keys: Sequence[str] | None
) -> dict[TopicName, Mapping[str, ConfigEntry] | BrokerError]:
    """Settings in effect of topics, all or those in `keys`, in as few requests as possible."""
    pending = iter(sorted(set(topics)))
    wanted = None if keys is None else tuple(keys)
    answers: dict[TopicName, Mapping[str, ConfigEntry] | BrokerError] = {}
    while batch := tuple(islice(pending, TOPICS_PER_REQUEST)):
        for row in _asked(caller, _TOPIC, batch, wanted):
            answers[TopicName(row.name)] = _entries(row, "topic")
    return answers


def _asked(
    caller: Caller,
    kind: int,
    names: tuple[str, ...],
    keys: tuple[str, ...] | None,
    broker: BrokerId | None = None,
) -> list[ConfigAnswer]:
    wanted = None if keys is None else list(keys)
    request = DescribeConfigs(
        resources=[(kind, name, wanted) for name in names], include_synonyms=False
    )
    answer = caller.send(request, broker)
    return caller.remembered.decoded(("configs", kind, names, keys), answer, _rows)


def _rows(answer: LargeAnswer) -> list[ConfigAnswer]:
    if answer.version == VERSION:
        return decode_configs(answer.body)
    rows = DescribeConfigsResponse.decode(answer.body, version=answer.version).results
    return [
        ConfigAnswer(
            row.resource_name,
            row.error_code,
            row.error_message,
            {config.name: _entry(config) for config in row.configs},
        )
        for row in rows
    ]


def describe_broker(caller: Caller, broker: BrokerId) -> Mapping[str, ConfigEntry]:
    """Settings in effect of one broker.

    Raises
    ------
    BrokerError
        The broker refused, most likely because we may not describe the cluster's settings.
    """
    rows = _asked(caller, _BROKER, (str(broker),), None, broker)
    if len(rows) != 1:
        raise ProtocolError("asked for one broker's settings", answered=len(rows))
    entries = _entries(rows[0], "broker")
    if isinstance(entries, BrokerError):
        raise entries
    return entries


def _entries(row: ConfigAnswer, kind: str) -> Mapping[str, ConfigEntry] | BrokerError:
    error = error_of(row.error_code, f"describe settings of {kind} {row.name}", row.error_message)
    return error or row.configs


def _entry(row: Any) -> ConfigEntry:
    number = row.config_source
    is_known = number in ConfigSource._value2member_map_
    source = ConfigSource(number) if is_known else ConfigSource.OTHER
    return ConfigEntry(
        value=row.value,
        source=source,
        is_default=source is ConfigSource.DEFAULT,
        is_read_only=bool(row.read_only),
        is_sensitive=bool(row.is_sensitive),
    )


def alter_topics(
    caller: Caller,
    changes: Mapping[TopicName, Mapping[str, str | None]],
    *,
    validate_only: bool,
) -> dict[TopicName, BrokerError | None]:
    """Set values and unset those given as None; nothing else changes (KIP-339)."""
    rows = [
        (_TOPIC, name, [_operation(key, value) for key, value in sorted(values.items())])
        for name, values in sorted(changes.items())
        if values
    ]
    if not rows:
        return {}
    request = IncrementalAlterConfigsRequest(resources=rows, validate_only=validate_only)
    return {
        TopicName(row.resource_name): error_of(
            row.error_code, f"change settings of topic {row.resource_name}", row.error_message
        )
        for row in caller.send(request).responses
    }


def _operation(key: str, value: str | None) -> tuple[str, int, str | None]:
    return (key, _DELETE, None) if value is None else (key, _SET, value)
