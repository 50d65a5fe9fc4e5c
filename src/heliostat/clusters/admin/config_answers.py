"""DescribeConfigs answers, v4 (`DescribeConfigsResponse.json`), decoded with equal parts shared.

Most topics have the same settings: if the bytes of a topic's settings equal those of an earlier
topic, they are not decoded, and both topics share one mapping.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from heliostat.clusters.admin.values import ConfigEntry, ConfigSource
from heliostat.clusters.wire.primitives import read_compact_string, read_uvarint, skip_tagged_fields

VERSION = 4
BLOCKS_MAX = 64
"""Different settings remembered within one answer; each costs a topic at most one comparison."""
_RESULTS_AT = 4  # after `throttle_time_ms`
_SOURCES = {source.value: source for source in ConfigSource}

Configs = Mapping[str, ConfigEntry]


@dataclass(frozen=True, slots=True)
class ConfigAnswer:
    """One topic's or broker's row."""

    name: str
    error_code: int
    error_message: str | None
    configs: Configs


def decode_configs(body: bytes) -> list[ConfigAnswer]:
    """The rows of an answer; equal settings share one mapping.

    Raises
    ------
    IndexError, struct.error, ValueError
        The bytes do not follow the format.
    """
    rows: list[ConfigAnswer] = []
    blocks: list[tuple[bytes, Configs]] = []
    entries: dict[tuple[str | None, bytes], ConfigEntry] = {}
    count, position = read_uvarint(body, _RESULTS_AT)
    for _ in range(count - 1):
        error_code = struct.unpack_from(">h", body, position)[0]
        message, position = read_compact_string(body, position + 2)
        name, position = read_compact_string(body, position + 1)
        for number, (block, block_configs) in enumerate(blocks):
            # A block begins with its number of settings, so equal bytes are all of them.
            if body.startswith(block, position):
                configs = block_configs
                position += len(block)
                if number:
                    blocks.insert(0, blocks.pop(number))
                break
        else:
            start = position
            configs, position = _configs(body, position, entries)
            blocks.insert(0, (body[start:position], configs))
            del blocks[BLOCKS_MAX:]
        position = skip_tagged_fields(body, position)
        rows.append(ConfigAnswer(name or "", error_code, message, configs))
    if position >= len(body):  # the tagged fields of the answer follow
        raise ValueError("the answer is shorter than it says")
    return rows


def _configs(
    body: bytes, position: int, entries: dict[tuple[str | None, bytes], ConfigEntry]
) -> tuple[Configs, int]:
    configs: dict[str, ConfigEntry] = {}
    count, position = read_uvarint(body, position)
    for _ in range(count - 1):
        name, position = read_compact_string(body, position)
        value, position = read_compact_string(body, position)
        flags = body[position : position + 3]  # read-only, source, sensitive
        entry = entries.get((value, flags))
        if entry is None:
            source = _SOURCES.get(flags[1], ConfigSource.OTHER)
            entry = entries[value, flags] = ConfigEntry(
                value=value,
                source=source,
                is_default=source is ConfigSource.DEFAULT,
                is_read_only=bool(flags[0]),
                is_sensitive=bool(flags[2]),
            )
        configs[name or ""] = entry
        position = _after_synonyms(body, position + 3)
        _, position = read_compact_string(body, position + 1)  # after the type: the documentation
        position = skip_tagged_fields(body, position)
    return configs, position


def _after_synonyms(body: bytes, position: int) -> int:
    count, position = read_uvarint(body, position)
    for _ in range(count - 1):
        _, position = read_compact_string(body, position)
        _, position = read_compact_string(body, position)
        position = skip_tagged_fields(body, position + 1)
    return position
