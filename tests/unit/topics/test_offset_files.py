"""Files of offsets as people have them, and what is said of those that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliostat.errors import ConfigError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.topics.offset_files import parse_offsets, read_offsets

EXPORTED = """\
orders,0,57
"orders",1,12
clicks,0,0
"""
OF_GROUPS = """\
billing,orders,0,57
billing,orders,1,12
billing,clicks,0,0
"""
NAMED = """\
# of the cut-over of 2026-11-28
TOPIC, PARTITION, OFFSET

orders, 0, 57
orders, 1, 12
clicks, 0, 0
"""
MIRROR_MAKER = """
{"offsets": [
  {"partition": {"cluster": "A", "partition": 0, "topic": "orders"}, "offset": {"offset": 56}},
  {"partition": {"cluster": "A", "partition": 1, "topic": "orders"}, "offset": {"offset": 11}}
]}
"""
SINK = """
{"offsets": [
  {"partition": {"kafka_topic": "orders", "kafka_partition": 0}, "offset": {"kafka_offset": 57}},
  {"partition": {"kafka_topic": "orders", "kafka_partition": 1}, "offset": {"kafka_offset": 12}}
]}
"""
TO_DELETE = """
{"partitions": [{"topic": "orders", "partition": 0, "offset": 57},
                {"topic": "orders", "partition": 1, "offset": 12}], "version": 1}
"""
LISTED = "orders:0:57\norders:1:12\n"
MAP = '{"orders": {"0": 57, "1": 12}}'
YAML = """
orders:
  0: 57
  1: 12
"""


def offsets(**topics: dict[int, int]) -> dict[TopicPartition, Offset]:
    return {
        TopicPartition(TopicName(topic), PartitionId(number)): Offset(offset)
        for topic, listed in topics.items()
        for number, offset in listed.items()
    }


@pytest.mark.parametrize("text", [EXPORTED, OF_GROUPS, NAMED, EXPORTED.replace("\n", "\r\n")])
def test_exported_offsets_are_read(text: str) -> None:
    assert parse_offsets(text, "f") == offsets(orders={0: 57, 1: 12}, clicks={0: 0})


@pytest.mark.parametrize("text", [MIRROR_MAKER, SINK, TO_DELETE, LISTED, MAP, YAML])
def test_other_tools_offsets_are_read(text: str) -> None:
    assert parse_offsets(text, "f") == offsets(orders={0: 57, 1: 12})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a map of topics (got nothing)"),
        ("t,0,1\nt,0\n", "line 2: 2 columns (got 't,0')"),
        ("t,0,1\nt,0,2\n", "line 2: t-0 is at 2, and at 1 in line 1"),
        ("t,0,-1", "line 1: offset: must be a whole number from 0 on (got '-1')"),
        ("t,x,1\nt,1,1", "line 1: partition: must be a whole number from 0 on (got 'x')"),
        (",0,1", "line 1: topic: must be a name (got '')"),
        ("topic,partition,offset", "it has no offsets"),
        ('{"t": {"0": 1}', "line 1: bad JSON"),
        ('{"t":\n{"0": 1, "0": 2}}', "0: key given twice"),
        ('{"t": 5}', "t: must be a map of partitions (got 5)"),
        ('{"t": {"0": 1.5}}', "t.0: offset: must be a whole number from 0 on (got 1.5)"),
        ('{"t": {"0": true}}', "t.0: offset: must be a whole number"),
        ('{"t": {"zero": 1}}', "t.zero: partition: must be a whole number from 0 on (got 'zero')"),
        ('{"offsets": [7]}', "offsets[0]: must be a map (got 7)"),
        ('{"offsets": [{"partition": {"topic": "t"}, "offset": null}]}', "offsets[0].offset: must"),
        (
            '{"offsets": [{"partition": {"filename": "/x"}, "offset": {"position": 1}}]}',
            "offsets[0]: topic: must be a name (got nothing)",
        ),
        (
            '[{"topic": "t", "partition": 0}]',
            "[0]: offset: must be a whole number from 0 on (got n",
        ),
        ("t:\n  0: [\n", "line 3: bad YAML"),
        ("GROUP TOPIC\nbilling t", "must be a map of topics"),
        (f"t,0,{1 << 63}", "line 1: offset: must be"),
    ],
)
def test_what_is_no_offset_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_offsets(text, "/f")
    assert words in raised.value.text
    assert raised.value.text.startswith("/f: ")
    assert "kafka-consumer-groups" in raised.value.hint


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_offsets(str(tmp_path / "none"))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00t")
    with pytest.raises(ConfigError, match="no text in UTF-8"):
        read_offsets(str(binary))
