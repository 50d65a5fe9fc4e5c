"""Rows of a rebuilt map, and which maps are rebuilt."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.config import LinkConfig
from heliostat.errors import Refused
from heliostat.gaps.ledger import CopiedTopic, CopyNote
from heliostat.names import ClusterId, PartitionId, TopicId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.marks import Marks, MirrorId
from heliostat.offsets.offset_map import Break, MapReader, MapRow
from heliostat.rebuild import offset_maps
from heliostat.rebuild.alignment import Contents
from heliostat.rebuild.offset_maps import (
    ROW_BREAKS,
    _Lost,
    _lost,
    _noted_end,
    map_rows,
    rebuild_maps,
)
from heliostat.slots import Slot
from heliostat.topics.values import MirrorRecord

ID = TopicId(int=7)
MIRROR = TopicPartition(TopicName("m"), PartitionId(0))
STAMP = Stamp(4, 2)


@pytest.mark.parametrize("breaks", [[], [Break(0, 4)], [Break(3, 5), Break(9, 20)]])
def test_rows_replace_whatever_was_left_of_a_map(breaks: list[Break]) -> None:
    """Also where nothing is needed: offsets are equal then."""
    reader = MapReader()
    for left in (Break(2, 90), Break(7, 400)):
        assert reader.take(MapRow(RowKey(MIRROR, "", left.target, STAMP), (left,)))
    rows = list(map_rows(MIRROR, "", breaks, STAMP))
    assert [reader.take(row) for row in rows] == [True] * len(rows)
    assert list(reader.of(MIRROR, "").breaks()) == breaks


@pytest.mark.parametrize(
    ("source_id", "end", "expected"), [(ID, 12, 40), (ID, 13, None), (TopicId(int=8), 12, None)]
)
def test_the_links_note_counts_while_the_mirror_still_ends_there(
    source_id: TopicId, end: int, expected: int | None
) -> None:
    """Given a note of copy progress / then it counts for that very topic, at that very end."""
    source = TopicPartition(TopicName("s"), PartitionId(0))
    record = MirrorRecord(
        source.topic, MIRROR.topic, source_id, ID, ClusterId("c"), "earliest", 2, (), Slot(0, 1)
    )
    noted = {PartitionId(0): CopyNote(40, 3, 12), PartitionId(1): CopyNote(50, 3, 13)}
    ledger: Any = SimpleNamespace(copied={source.topic: CopiedTopic(str(ID), noted)})
    assert _noted_end(ledger, _Lost(source, (MIRROR, str(ID)), record), end) == expected


def test_many_breaks_are_several_rows() -> None:
    breaks = [Break(number, 2 * number) for number in range(1, 2 * ROW_BREAKS + 1)]
    rows = list(map_rows(MIRROR, "", breaks, STAMP))
    assert [len(row.breaks) for row in rows] == [ROW_BREAKS, ROW_BREAKS, 1]
    reader = MapReader()
    for row in rows:
        reader.take(row)
    assert list(reader.of(MIRROR, "").breaks()) == breaks


def state(*lost: MirrorId) -> Any:
    records = {
        TopicName(name): MirrorRecord(
            TopicName(name), TopicName("m"), None, ID, ClusterId("c"), "earliest", 2, (), slot
        )
        for name, slot in (("one", Slot(0, 2)), ("two", Slot(1, 2)))
    }
    return SimpleNamespace(
        marks=SimpleNamespace(read=lambda: Marks(lost=dict.fromkeys(lost, "why"))),
        read=lambda: SimpleNamespace(mirrors=records),
        offsets=SimpleNamespace(begin=lambda *_: None),
    )


def asked(found: Any, *which: Any) -> list[str]:
    link = LinkConfig(name="l", source="a", target="b")  # type: ignore[arg-type]  # plain words
    topic, partition = [*which, None, None][:2]
    return [str(one.source) for one in _lost(found, link, topic, partition)]


def test_lost_maps_are_named_by_their_source() -> None:
    names = [(TopicPartition(TopicName("m"), PartitionId(n)), str(ID)) for n in range(4)]
    other = (names[0][0], "of a topic that is no more")
    assert asked(state(*names, other)) == ["one-0", "two-0", "one-1", "two-1"]
    assert asked(state(*names), TopicName("two")) == ["two-0", "two-1"]
    assert asked(state(*names), TopicName("two"), PartitionId(1)) == ["two-1"]
    for found, which in (
        (state(other), []),
        (state(*names[:2]), [TopicName("one"), PartitionId(1)]),
    ):
        with pytest.raises(Refused, match="no offset map"):
            asked(found, *which)


class OneReader:
    """Readers of which there is one for both sides."""

    def __init__(self, reader: Any) -> None:
        self._both = SimpleNamespace(source=reader, target=reader)

    def each(self, items: list[_Lost], work: Any, together: int) -> Any:
        assert together == 1, "each is told when it is durable"
        return work(self._both, items)

    def close(self) -> None: ...


@pytest.mark.parametrize(("end_after", "is_written"), [(12, True), (13, False)])
def test_a_map_is_not_rebuilt_of_a_mirror_that_moves(
    monkeypatch: pytest.MonkeyPatch, end_after: int, *, is_written: bool
) -> None:
    """Given a mirror whose log end is another one once all was read / then nothing is written: the

    map would lack what was appended meanwhile.
    """
    source = TopicPartition(TopicName("s"), PartitionId(0))
    record = MirrorRecord(source.topic, MIRROR.topic, ID, ID, ClusterId("c"), "earliest", 1)
    written: list[list[Break]] = []
    ends = iter([12, end_after])
    contents = Contents.of([])
    given: dict[str, Any] = {
        "LinkState": lambda *_: SimpleNamespace(close=lambda: None),
        "GapLedger": lambda *_: SimpleNamespace(close=lambda: None, read=lambda: None),
        "SeveralReaders": lambda *_: OneReader(
            SimpleNamespace(bounds=lambda _: {source: SimpleNamespace(start=0, end=0)})
        ),
        "ClusterAdmin": lambda *_: nullcontext(),
        "compared_rows": lambda *_: nullcontext(lambda _: SimpleNamespace(of_source=None)),
        "rows_of": lambda *_: [],
        "_lost": lambda *_: [_Lost(source, (MIRROR, str(ID)), record)],
        "_refuse_other_topics": lambda *_: None,
        "_is_compacted": lambda *_: False,
        "_end": lambda *_: next(ends),
        "_mirror_of": lambda *_: contents,
        "_noted_end": lambda *_: None,
        "align": lambda *_, **__: [Break(3, 5)],
        "_write": lambda _state, _name, breaks: written.append(breaks),
    }
    for name, made in given.items():
        monkeypatch.setattr(offset_maps, name, made)
    config: Any = SimpleNamespace(clusters={"a": Mock(), "b": Mock()})
    topics = SimpleNamespace(merges=False)
    link: Any = SimpleNamespace(name="l", source="a", target="b", topics=topics)
    (found,) = rebuild_maps(config, link, Mock())
    assert (found.why_not == "", written == [[Break(3, 5)]]) == (is_written, is_written)
