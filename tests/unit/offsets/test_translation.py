"""Translation of offsets by given maps: exact, or with the reason why not."""

from __future__ import annotations

import json
import random
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.links import write_config

from heliostat.cli.main import run
from heliostat.errors import Refused
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.offsets.translation import (
    OffsetTranslator,
    Question,
    Side,
    TranslatedMirrors,
    TranslatedPartition,
    Untranslatable,
    Why,
)

ORDERS, COPY = TopicName("orders"), TopicName("east.orders")
P0, P1 = PartitionId(0), PartitionId(1)


def partition(
    breaks: list[Break],
    start: int,
    end: int,
    *,
    begin: int = 0,
    passed: int = 0,
    number: PartitionId = P0,
) -> TranslatedPartition:
    return TranslatedPartition(
        source=TopicPartition(ORDERS, number),
        target=TopicPartition(COPY, number),
        offsets=OffsetMap.of(breaks),
        start=Offset(start),
        end=Offset(end),
        begin=Offset(begin),
        passed=Offset(passed),
    )


def translator(*partitions: TranslatedPartition, **known: Any) -> OffsetTranslator:
    names = {one.source.topic: one.target.topic for one in partitions}
    names.update(known.pop("names", {}))
    return OffsetTranslator(TranslatedMirrors(list(partitions), names=names, **known))


HOLED = partition([Break(10, 12), Break(20, 25)], 3, 30)
"""Source offsets 10, 11 and 22 to 24 hold no record; 35 comes next."""


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (2, None, Why.BELOW_START),
        (3, 3, None),
        (9, 9, None),
        (10, 10, Why.HOLE),
        (11, 10, Why.HOLE),
        (12, 10, None),
        (21, 19, None),
        (22, 20, Why.HOLE),
        (24, 20, Why.HOLE),
        (25, 20, None),
        (34, 29, None),
        (35, 30, None),  # the record that comes next: its place is known
        (36, None, Why.BEYOND),
    ],
)
def test_from_the_source(source: int, target: int | None, why: Why | None) -> None:
    answer = translator(HOLED).to_target(ORDERS, P0, Offset(source))
    assert (answer.to_offset, answer.why) == (target, why)
    assert answer.to_topic == COPY
    assert answer.is_exact == (why is None) == (not answer.text)


def test_reasons_name_the_offsets_that_matter() -> None:
    known = translator(HOLED)
    assert "the next is source offset 25" in known.to_target(ORDERS, P0, Offset(23)).text
    beyond = known.to_target(ORDERS, P0, Offset(99)).text
    assert "source offset 35, target offset 30" in beyond
    below = known.to_target(ORDERS, P0, Offset(0)).text
    assert "source offset 3, target offset 3" in below


@pytest.mark.parametrize(
    ("target", "source", "why"),
    [
        (2, None, Why.BELOW_START),
        (3, 3, None),
        (10, 12, None),
        (20, 25, None),
        (30, 35, None),
        (31, None, Why.BEYOND),
    ],
)
def test_from_the_target(target: int, source: int | None, why: Why | None) -> None:
    answer = translator(HOLED).to_source(COPY, P0, Offset(target))
    assert (answer.to_offset, answer.why) == (source, why)
    assert answer.to_topic == ORDERS


def test_filler_records_before_the_begin_are_no_records() -> None:
    """Filler records align a mirror's start; until they are deleted they are in its log."""
    known = translator(partition([], 0, 500, begin=500))
    assert known.to_target(ORDERS, P0, Offset(499)).why is Why.BELOW_START
    assert known.to_source(COPY, P0, Offset(499)).why is Why.BELOW_START
    assert known.to_target(ORDERS, P0, Offset(500)).to_offset == 500


def test_a_break_without_records_yet_is_no_place() -> None:
    """I3: a break is durable before its records, which may yet land elsewhere."""
    one = partition([Break(10, 12), Break(40, 50)], 0, 20)
    known = translator(one)
    assert known.to_target(ORDERS, P0, Offset(50)).why is Why.BEYOND
    assert one.extents() == [(0, 0, 10), (12, 10, 10)]
    at_the_end = partition([Break(20, 30)], 0, 20)
    assert at_the_end.extents() == [(0, 0, 20)]
    assert translator(at_the_end).to_target(ORDERS, P0, Offset(25)).to_offset == 20


def test_holes_after_the_last_record_are_skipped_as_the_link_reports() -> None:
    """The map has a break only once a record follows; a group may have passed a marker before."""
    known = translator(partition([Break(10, 12)], 0, 20, passed=25))
    assert known.to_target(ORDERS, P0, Offset(22)).is_exact
    for source in (23, 25):
        answer = known.to_target(ORDERS, P0, Offset(source))
        assert (answer.to_offset, answer.why) == (20, Why.HOLE)
        assert "between 22 and 25" in answer.text
    assert known.to_target(ORDERS, P0, Offset(26)).why is Why.BEYOND
    assert known.summaries()[0].position == 25


@pytest.mark.parametrize(
    ("known", "topic", "number", "why"),
    [
        ({}, ORDERS, 7, Why.NO_SUCH_PARTITION),
        ({}, "elsewhere", 0, Why.NOT_MIRRORED),
        ({"source_topics": frozenset({ORDERS})}, "elsewhere", 0, Why.NO_SUCH_TOPIC),
        ({"source_topics": frozenset({"elsewhere"})}, "elsewhere", 0, Why.NOT_MIRRORED),
        ({"not_known": {TopicPartition(COPY, P1): "no leader"}}, ORDERS, 1, Why.NOT_TOLD),
        ({"source_troubles": {ORDERS: Untranslatable(Why.REMADE, "anew")}}, ORDERS, 0, Why.REMADE),
    ],
)
def test_unknown_offsets_have_a_reason(known: Any, topic: str, number: int, why: Why) -> None:
    answer = translator(HOLED, **known).to_target(TopicName(topic), PartitionId(number), Offset(5))
    assert (answer.to_offset, answer.why) == (None, why)
    assert answer.text


def test_a_target_topic_of_two_sources_is_translated_from_the_source() -> None:
    known = translator(HOLED, names={TopicName("more"): COPY})
    assert known.to_source(COPY, P0, Offset(5)).why is Why.SEVERAL_SOURCES
    assert known.to_target(ORDERS, P0, Offset(5)).to_offset == 5
    assert known.to_source(TopicName("who"), P0, Offset(5)).why is Why.NOT_MIRRORED


def test_summaries_distinguish_exact_from_mapped() -> None:
    known = translator(HOLED, partition([], 0, 9, number=P1))
    mapped, exact = known.summaries()
    assert (mapped.kind, mapped.extents, mapped.position) == ("mapped", 3, 35)
    assert (exact.kind, exact.extents, exact.map_bytes) == ("exact", 1, 0)
    assert 0 < mapped.map_bytes < 12
    assert [one.partition for one in known.summaries(ORDERS, P1)] == [1]
    with pytest.raises(Refused, match="no mirror of elsewhere"):
        known.summaries(TopicName("elsewhere"))


HOLES = st.lists(st.booleans(), max_size=60)
"""Whether each source offset holds a record."""


@given(HOLES)
def test_both_ways_agree_with_the_log(has_record: list[bool]) -> None:
    """Every record is found at its place from both sides; a hole gives the next record's."""
    places = [offset for offset, there in enumerate(has_record) if there]
    breaks = [Break(t, s) for t, s in enumerate(places)]
    known = translator(partition(breaks, 0, len(places)))
    for target, source in enumerate(places):
        assert known.to_target(ORDERS, P0, Offset(source)).to_offset == target
        assert known.to_target(ORDERS, P0, Offset(source)).is_exact
        assert known.to_source(COPY, P0, Offset(target)).to_offset == source
    last = places[-1] if places else -1
    for source in range(last + 1):
        answer = known.to_target(ORDERS, P0, Offset(source))
        following = next(place for place in places if place >= source)
        assert answer.to_offset == places.index(following)
        assert answer.is_exact == has_record[source]


def test_ten_thousand_translations_are_fast() -> None:
    """Ten times the documented time would still be a second; a slow machine is no failure."""
    chance = random.Random(1)
    breaks = [Break(10 * n, 11 * n + 1) for n in range(1, 100_000)]
    known = translator(partition(breaks, 0, 10_000_000))
    questions = [Question(ORDERS, P0, Offset(chance.randrange(11 * 90_000))) for _ in range(10_000)]
    began_s = time.process_time()
    answers = list(known.translate(questions, Side.SOURCE))
    took_s = time.process_time() - began_s
    assert len(answers) == 10_000
    assert {one.why for one in answers} == {None, Why.HOLE}
    assert took_s < 1.0


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command on a hand-made translator; no cluster is asked."""
    made = translator(HOLED, source_topics=frozenset({ORDERS}))
    for module in ("operate.offsets", "cli.offsets"):
        name = f"heliostat.{module}.open_translator"
        monkeypatch.setattr(name, lambda *_: nullcontext(made))
    return ["-c", str(write_config(tmp_path, "127.0.0.1:1", "127.0.0.1:2"))]


def test_the_command_translates_one_offset(config: list[str], capsys: Any) -> None:
    assert run(["offsets", "translate", *config, "orders", "0", "23"]) == 0
    line = capsys.readouterr().out.splitlines()[-1].split()
    assert line[:7] == ["orders", "0", "23", "east.orders", "0", "20", "hole:"]
    assert run(["offsets", "translate", *config, "orders", "0", "99"]) == 1
    assert run(["offsets", "translate", *config, "--to", "source", "east.orders", "0", "20"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[3:6] == ["orders", "0", "25"]


def test_the_command_translates_a_file_in_json(
    config: list[str], tmp_path: Path, capsys: Any
) -> None:
    file = tmp_path / "questions"
    file.write_text(
        'orders 0 5\n\n{"topic": "orders", "partition": 0, "offset": 12}\n'
        '[{"topic": "elsewhere", "partition": 0, "offset": 1}]\n'
    )
    assert run(["offsets", "translate", *config, "--file", str(file), "--json"]) == 1
    answers = json.loads(capsys.readouterr().out)
    assert [(one["to_offset"], one["exact"], one["why"]) for one in answers] == [
        (5, True, None),
        (10, True, None),
        (None, False, "no_such_topic"),
    ]


@pytest.mark.parametrize(
    "line", ["orders 0", "orders zero 1", '{"topic": "orders"}', "orders 0 -1", "[1]", "{"]
)
def test_an_invalid_line_is_refused(
    config: list[str], tmp_path: Path, capsys: Any, line: str
) -> None:
    file = tmp_path / "questions"
    file.write_text(f"orders 0 5\n{line}\n")
    assert run(["offsets", "translate", *config, "--file", str(file)]) == 2
    assert "line 2" in capsys.readouterr().err


def test_the_command_requires_offsets_or_a_file(config: list[str], capsys: Any) -> None:
    assert run(["offsets", "translate", *config]) == 2
    assert "--file" in capsys.readouterr().err


def test_the_command_shows_maps(config: list[str], capsys: Any) -> None:
    assert run(["offsets", "show", *config]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == [
        "orders",
        "east.orders",
        "1",
        "1",
    ]
    assert run(["offsets", "show", *config, "orders", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:][0].split() == ["0", "0", "10"]
    assert run(["offsets", "show", *config, "orders", "0", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["kind"], row["extents"]) == ("mapped", 3)
    assert row["extent_list"] == [[0, 0, 10], [12, 10, 10], [25, 20, 10]]
    assert run(["offsets", "show", *config, "orders", "4"]) == 1
