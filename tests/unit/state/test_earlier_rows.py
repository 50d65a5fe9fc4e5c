"""Rows as 0.1.0 wrote them are read by today's readers, to equal values.

`tools/written_rows.py` and, on brokers, `tools/earlier_rows.py` made them, with the code of that
version.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import earlier_values as given

from heliostat.access import ClusterAccess
from heliostat.gaps.ledger import GapLedger
from heliostat.groups.published import PublishedOffsets
from heliostat.names import PartitionId, TopicName
from heliostat.offsets.map_rows import RowKey
from heliostat.offsets.offset_map import Break, MapRow
from heliostat.records.transport.progress_reports import decode_progress
from heliostat.state.link_state import LinkState
from heliostat.wishes.wish_book import WishBook

KEPT = json.loads(Path(__file__).with_name("rows_of_0.1.0.json").read_text(encoding="utf-8"))
LINK = given.LINK.name


@pytest.fixture
def target() -> Iterator[ClusterAccess]:
    with given.books_over(given.Topics(KEPT["topics"])):
        yield given.TARGET.access()


@pytest.mark.usefixtures("target")
def test_the_state() -> None:
    state = LinkState(given.LINK, given.TARGET)
    stored = state.read()

    assert (stored.producer_id, stored.owner) == (given.PRODUCER, given.OWNER)
    assert stored.producers == {given.PRODUCER, given.FORMER}
    assert stored.mirrors == {name: given.mirror(name) for name in (given.PLAIN, given.MAPPED)}
    assert stored.promoted[given.GIVEN].promotion == given.PROMOTION
    assert stored.promoted[given.GIVEN].record == given.mirror(given.GIVEN)
    assert stored.starts == {given.PLAIN: given.STARTS}
    assert stored.at_beginning == {given.PLAIN, given.MAPPED, given.GIVEN}
    assert stored.making == {given.MAKING}
    assert stored.stops == {given.STOP.source: given.STOP}
    assert state.owner.read_owner() == given.OWNER


@pytest.mark.usefixtures("target")
def test_the_marks_of_maps() -> None:
    marks = LinkState(given.LINK, given.TARGET).marks.read()

    assert marks.topic == given.TOPIC_OF_MAPS
    assert marks.mapped == {given.MAPPED: given.MAPS}
    assert marks.lost == {given.LOST_MAP: "rows were deleted"}


def test_a_row_of_a_map() -> None:
    key = RowKey.decode(KEPT["map_row"]["key"].encode())

    assert MapRow.decode(key, bytes.fromhex(KEPT["map_row"]["value"])) == given.MAP_ROW


def test_gaps_and_decisions(target: ClusterAccess) -> None:
    ledger = GapLedger(LINK, target)
    ledger.read()

    assert list(ledger.rows.values()) == [given.GAP]
    assert list(ledger.decisions.values()) == [given.DECISION]
    assert ledger.copied == {given.PLAIN: given.COPIED}


def test_what_was_published_for_groups(target: ClusterAccess) -> None:
    published = PublishedOffsets(target, LINK)
    published.read()

    assert published.rows == {given.GROUP: given.PUBLISHED}


def test_wishes_and_orders(target: ClusterAccess) -> None:
    book = WishBook(LINK, target)
    book.read()

    assert book.wishes.last_of(given.WISH.place) == given.WISH
    assert list(book.wishes.levels.limits()) == [given.LIMIT]
    assert book.wishes.promotions == {given.GIVEN: given.PROMOTION}
    assert [each.order for each in book.orders.standings()] == [given.ORDER]
    assert book.restarts == given.RESTARTS


def test_todays_rows_are_the_same_but_for_new_fields() -> None:
    """So 0.1.0 reads them: each field that it reads is there, with the same value."""
    topics = given.Topics()
    with given.books_over(topics):
        given.write_all()

    for topic, rows in KEPT["topics"].items():
        assert topics.rows[topic].keys() == rows.keys()
        for key, row in rows.items():
            today = json.loads(json.dumps(topics.rows[topic][key]))
            assert {name: today[name] for name in row} == row, key
    assert given.MAP_ROW.encode().hex() == KEPT["map_row"]["value"]


def broker_rows() -> dict[str, dict[str | bytes, Any]]:
    """Rows that a link of 0.1.0 left on a broker, as `tools/earlier_rows.py` made them."""
    found: dict[str, dict[str | bytes, Any]] = {}
    lines = Path(__file__).with_name("rows_of_0.1.0.jsonl").read_text(encoding="utf-8")
    for line in lines.splitlines():
        row = json.loads(line)
        if "key" in row and row["value"] is not None:
            found.setdefault(row["topic"].rpartition(".")[2], {})[row["key"]] = row["value"]
    return found


LEFT = broker_rows()
FROM_BROKER = {
    f"heliostat.{LINK}.{kind}": {str(key): json.loads(value) for key, value in LEFT[kind].items()}
    for kind in ("state", "gaps", "wishes", "control")
}


@pytest.fixture
def left() -> Iterator[ClusterAccess]:
    with given.books_over(given.Topics(FROM_BROKER)):
        yield given.TARGET.access()


def test_what_a_killed_link_left_is_read(left: ClusterAccess) -> None:
    state, ledger, book = (
        LinkState(given.LINK, given.TARGET),
        GapLedger(LINK, left),
        WishBook(LINK, left),
    )
    ledger.read()
    book.read()
    stored, marks = state.read(), state.marks.read()

    names = {f"earlier.{name}" for name in ("plain", "mapped", "expired", "paused")}
    assert stored.mirrors.keys() == stored.starts.keys() == names
    assert (stored.producer_id, stored.producers) == (2, {2})
    assert (stored.owner and stored.owner.claim, state.owner.last_claim()) == (2, 2)
    assert not stored.making
    assert marks.mapped.keys() == {"earlier.mapped", "earlier.expired"}
    (gap,) = ledger.rows.values()
    assert (gap.topic, gap.first, gap.last, gap.count) == ("earlier.expired", 100, 119, 20)
    assert {
        name: topic.partitions[PartitionId(0)].offset for name, topic in ledger.copied.items()
    } == {
        "earlier.plain": 40,
        "earlier.mapped": 40,
        "earlier.expired": 200,
        "earlier.paused": 100,
    }
    (pause,) = book.wishes.pauses()
    assert (pause.place.topic, pause.why) == ("earlier.paused", "kept as a row")


def test_maps_and_reports_that_a_killed_link_left_are_read() -> None:
    maps = {}
    for text, value in LEFT["offsets"].items():
        key = RowKey.decode(str(text).encode())
        content = base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()
        maps[key.mirror.topic] = MapRow.decode(key, content).breaks
    report = decode_progress(json.loads(LEFT["progress"]["lane/0"])).report

    assert maps[TopicName("earlier.expired")] == (Break(100, 120),)
    assert [(each.target, each.source) for each in maps[TopicName("earlier.mapped")]] == [
        (number, 2 * number) for number in range(1, 20)
    ]
    assert report.lane == 0
    assert report.partitions
