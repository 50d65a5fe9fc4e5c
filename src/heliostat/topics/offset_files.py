"""Files of offsets, as other tools write them: where each partition is to begin.

CSV
    `topic,partition,offset`, or with the group before, as `kafka-consumer-groups --reset-offsets
    --export` writes them; a line of names above is passed over.
Lines
    `topic:partition:offset`, as `kafka-get-offsets` prints them.
Connect's JSON
    `GET /connectors/NAME/offsets` (KIP-875). MirrorMaker 2's offset is that of the last copied
    record, so the partition begins after it; a sink's is that of the next one.
A list in JSON
    `{"partitions": [{"topic": ..., "partition": ..., "offset": ...}]}`, as `kafka-delete-records`
    reads them.
A map in JSON or YAML
    `{topic: {partition: offset}}`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from heliostat.errors import ConfigError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

FILE_BYTES_MAX = 64 << 20  # bytes; half a million partitions in Connect's JSON
OFFSET_LIMIT = 1 << 63
PARTITION_LIMIT = 1 << 31
_HINT = (
    "give lines topic,partition,offset (kafka-consumer-groups --export), Connect's "
    "/connectors/NAME/offsets, or a map of topics, each with partition: offset"
)
_LISTED = re.compile(r"[a-zA-Z0-9._-]+:\d+:\d+")
_COLUMNS = (3, 4)
"""With the group before, if several were exported."""


class _Row(NamedTuple):
    """One entry, not checked yet, and where it stands in the file."""

    where: str
    topic: Any
    partition: Any
    offset: Any
    step: int = 0
    """What is added to the offset: 1 if it is that of the last record that was copied."""


def read_offsets(path: str) -> dict[TopicPartition, Offset]:
    """Read a file of offsets.

    Raises
    ------
    ConfigError
        It can't be read, or something in it is no offset: the text has the line or the field.
    """
    try:
        if Path(path).stat().st_size > FILE_BYTES_MAX:
            raise _refusal(path, f"larger than {FILE_BYTES_MAX} bytes")
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigError(f"{path}: can't be read: {why}", hint="see topics.start") from None
    except UnicodeDecodeError:
        raise _refusal(path, "no text in UTF-8") from None
    return parse_offsets(text, path)


def parse_offsets(text: str, path: str) -> dict[TopicPartition, Offset]:
    """Parse the text of a file of offsets; raises as `read_offsets`."""
    offsets: dict[TopicPartition, tuple[str, Offset]] = {}
    for row in _rows(text, path):
        partition, offset = _checked(row, path)
        where, other = offsets.setdefault(partition, (row.where, offset))
        if other != offset:
            raise _refusal(
                path, f"{row.where}: {partition} is at {offset}, and at {other} in {where}"
            )
    if not offsets:
        raise _refusal(path, "it has no offsets")
    return {partition: offset for partition, (_, offset) in offsets.items()}


def _rows(text: str, path: str) -> Iterator[_Row]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    first = lines[0].strip() if lines else ""
    if first.startswith(("{", "[")):
        yield from _of_json(text, path)
    elif first.count(",") + 1 in _COLUMNS:
        yield from _of_csv(text, path)
    elif _LISTED.fullmatch(first):
        yield from _of_csv(text, path, ":")
    else:
        yield from _of_map(_yaml(text, path), "", path)


def _of_csv(text: str, path: str, between: str = ",") -> Iterator[_Row]:
    reader = csv.reader(text.splitlines(), delimiter=between, skipinitialspace=True)
    is_first = True
    for fields in reader:
        if not fields or not "".join(fields).strip() or fields[0].startswith("#"):
            continue
        where = f"line {reader.line_num}"
        if len(fields) not in _COLUMNS:
            raise _refusal(path, f"{where}: {len(fields)} columns (got {between.join(fields)!r})")
        topic, partition, offset = (field.strip() for field in fields[-3:])
        is_names = is_first and partition.lower() == "partition"
        is_first = False
        if not is_names:
            yield _Row(where, topic, _number(partition), _number(offset))


def _of_json(text: str, path: str) -> Iterator[_Row]:
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise _refusal(path, f"line {error.lineno}: bad JSON: {error.msg}") from None
    except _TwiceError as error:
        raise _refusal(path, str(error)) from None
    except RecursionError:
        raise _refusal(path, "bad JSON: nested too deeply") from None
    if isinstance(value, dict):
        for key in ("offsets", "partitions"):
            if isinstance(value.get(key), list):
                yield from _of_list(value[key], key, path)
                return
        yield from _of_map(value, "", path)
    else:
        yield from _of_list(value, "", path)


def _of_list(items: Iterable[Any], key: str, path: str) -> Iterator[_Row]:
    for number, item in enumerate(items):
        where = f"{key}[{number}]"
        if not isinstance(item, dict):
            raise _refusal(path, f"{where}: must be a map (got {_shown(item)})")
        if isinstance(item.get("partition"), dict):
            yield _of_connect(item["partition"], item.get("offset"), where, path)
        else:
            yield _Row(where, item.get("topic"), item.get("partition"), item.get("offset"))


def _of_connect(partition: Mapping[str, Any], offset: Any, where: str, path: str) -> _Row:
    """Return a connector's position: of a sink, of MirrorMaker 2, of another that reads Kafka."""
    if not isinstance(offset, dict):
        raise _refusal(path, f"{where}.offset: must be a map (got {_shown(offset)})")
    if "kafka_topic" in partition:
        of, number, offset_key = "kafka_topic", "kafka_partition", "kafka_offset"
    else:
        of, number, offset_key = "topic", "partition", "offset"
    step = 1 if "cluster" in partition else 0
    return _Row(where, partition.get(of), partition.get(number), offset.get(offset_key), step)


def _of_map(value: Any, where: str, path: str) -> Iterator[_Row]:
    if not isinstance(value, dict):
        raise _refusal(path, f"must be a map of topics (got {_shown(value)})", _HINT)
    for topic, offsets in value.items():
        if not isinstance(offsets, dict):
            place = f"{where}{topic}"
            raise _refusal(
                path, f"{place}: must be a map of partitions (got {_shown(offsets)})", _HINT
            )
        for partition, offset in offsets.items():
            number = _number(partition) if isinstance(partition, str) else partition
            yield _Row(f"{where}{topic}.{partition}", str(topic), number, offset)


def _yaml(text: str, path: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        reason = getattr(error, "problem", None) or type(error).__name__
        raise _refusal(path, f"{line}bad YAML: {reason}", _HINT) from None


def _checked(row: _Row, path: str) -> tuple[TopicPartition, Offset]:
    if not isinstance(row.topic, str) or not row.topic:
        raise _refusal(path, f"{row.where}: topic: must be a name (got {_shown(row.topic)})")
    for name, value, limit in (
        ("partition", row.partition, PARTITION_LIMIT),
        ("offset", row.offset, OFFSET_LIMIT),
    ):
        if type(value) is not int or not 0 <= value < limit:
            raise _refusal(
                path, f"{row.where}: {name}: must be a whole number from 0 on (got {_shown(value)})"
            )
    partition = TopicPartition(TopicName(row.topic), PartitionId(row.partition))
    return partition, Offset(row.offset + row.step)


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


class _TwiceError(ValueError):
    """A key that is given twice: JSON's readers take the last one."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _TwiceError(f"{twice}: key given twice")
    return mapping


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refusal(path: str, why: str, hint: str | None = None) -> ConfigError:
    return ConfigError(f"{path}: {why}", hint=hint or _HINT)
