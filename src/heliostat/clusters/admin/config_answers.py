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
    count, at = read_uvarint(body, _RESULTS_AT)
    for _ in range(count - 1):
        error_code = struct.unpack_from(">h", body, at)[0]
        message, at = read_compact_string(body, at + 2)
        name, at = read_compact_string(body, at + 1)
        for number, (block, known) in enumerate(blocks):
            # A block begins with its number of settings, so equal bytes are all of them.
            if body.startswith(block, at):
                configs = known
                at += len(block)
                if number:
                    blocks.insert(0, blocks.pop(number))
                break
        else:
            start = at
            configs, at = _configs(body, at, entries)
            blocks.insert(0, (body[start:at], configs))
            del blocks[BLOCKS_MAX:]
        at = skip_tagged_fields(body, at)
        rows.append(ConfigAnswer(name or "", error_code, message, configs))
    if at >= len(body):  # the tagged fields of the answer follow
        raise ValueError("the answer is shorter than it says")
    return rows


def _configs(
    body: bytes, at: int, entries: dict[tuple[str | None, bytes], ConfigEntry]
) -> tuple[Configs, int]:
    configs: dict[str, ConfigEntry] = {}
    count, at = read_uvarint(body, at)
    for _ in range(count - 1):
        name, at = read_compact_string(body, at)
        value, at = read_compact_string(body, at)
        flags = body[at : at + 3]  # read-only, source, sensitive
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
        at = _after_synonyms(body, at + 3)
        _, at = read_compact_string(body, at + 1)  # after the type: the documentation
        at = skip_tagged_fields(body, at)
    return configs, at


def _after_synonyms(body: bytes, at: int) -> int:
    count, at = read_uvarint(body, at)
    for _ in range(count - 1):
        _, at = read_compact_string(body, at)
        _, at = read_compact_string(body, at)
        at = skip_tagged_fields(body, at + 1)
    return at
