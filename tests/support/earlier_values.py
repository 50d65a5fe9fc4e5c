"""Values that each version of a link writes to its own topics, and the books that write them.

`tools/written_rows.py` runs this with the code of an earlier version, a test with today's: so only
names that both have stand here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch
from uuid import UUID

from heliostat.clusters.keyed_topic import Change, KeyedReader, KeyedTopic
from heliostat.config import ClusterConfig, LinkConfig
from heliostat.gaps.choices import Cause, GapChoice
from heliostat.gaps.ledger import CopiedTopic, CopyNote, GapDecision, GapLedger, GapRow
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.values import Published, Sent
from heliostat.handover.promotion import PromotedBy, Promotion
from heliostat.names import (
    Alias,
    ClusterId,
    GroupId,
    LinkName,
    Offset,
    PartitionId,
    ProducerId,
    TopicName,
    TopicPartition,
)
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.marks import Mapped, MapTopic
from heliostat.offsets.offset_map import Break, MapRow
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.state.link_state import LinkState, Starts
from heliostat.state.ownership import Owner
from heliostat.topics.values import MirrorRecord
from heliostat.wishes.levels import Limit, Said
from heliostat.wishes.order import Order, OrderVerb
from heliostat.wishes.restarts import RestartMemory
from heliostat.wishes.wish import Place, Wish, WishedState
from heliostat.wishes.wish_book import WishBook

AT_MS = 1_790_000_000_000
ZERO, ONE = PartitionId(0), PartitionId(1)
SOURCE_ID, TARGET_ID = UUID(int=11), UUID(int=22)
PLAIN, MAPPED, GIVEN, MAKING = (TopicName(f"ESS-{name}") for name in ("a", "b", "c", "d"))
GROUP = GroupId("readers")
ORDER_ID = "0123456789abcdef" * 2
LINK = LinkConfig(name=LinkName("east-to-west"), source=Alias("east"), target=Alias("west"))
TARGET = ClusterConfig(bootstrap=("127.0.0.1:1",))


def mirror(name: TopicName) -> MirrorRecord:
    """Return a mirror's record."""
    settings = ("retention.ms",)
    cluster = ClusterId("c")
    return MirrorRecord(name, name, SOURCE_ID, TARGET_ID, cluster, "earliest", 2, settings)


OWNER = Owner("a" * 32, "host", 7, 3, 9, AT_MS, 20_000, resigned=False)
PRODUCER, FORMER = ProducerId(4001), ProducerId(4000)
STARTS = Starts(TARGET_ID, {ZERO: Offset(0), ONE: Offset(120)}, {ONE: Offset(7)})
TOPIC_OF_MAPS = MapTopic(str(TARGET_ID), 0, 12, 1)
MAPS = Mapped(MAPPED, str(TARGET_ID), frozenset({ZERO}))
LOST_MAP = (TopicPartition(MAPPED, ONE), str(TARGET_ID))
PROMOTION = Promotion(GIVEN, PromotedBy.SWITCH, "ops", AT_MS, "moved")
STOP = PartitionReport(
    TopicPartition(PLAIN, ONE),
    TopicPartition(PLAIN, ONE),
    PartitionState.GAP,
    *(100, -1, 0, 0, -1, -1, AT_MS, "SOURCE_OVERTOOK", "records are gone"),
)
GAP = GapRow(
    *(PLAIN, ZERO, Offset(100), Offset(119), 20, Cause.SOURCE_OVERTOOK, AT_MS),
    *(GapChoice.CONTINUE, "policy", PLAIN, str(SOURCE_ID), str(TARGET_ID), ZERO),
    jump=Break(100, 120),
    text="expired",
)
DECISION = GapDecision(PLAIN, ONE, "SOURCE_OVERTOOK", GapChoice.WAIT, "ops", AT_MS, str(SOURCE_ID))
COPIED = CopiedTopic(str(SOURCE_ID), {ZERO: CopyNote(120, 3, 100)})
PUBLISHED = Published({TopicPartition(PLAIN, ZERO): Sent(Offset(25), Offset(20))}, AT_MS)
WISH = Wish(Place(PLAIN, ONE), WishedState.PAUSED, "ops", AT_MS, "disk")
LIMIT = Limit(PLAIN, 20_000_000, Said("ops", AT_MS, "line"))
ORDER = Order(ORDER_ID, Place(MAPPED), "ops", AT_MS, "again", OrderVerb.RESTART)
RESTARTS = RestartMemory(count=2, limit=7, total=3, code="STATE_INCOMPLETE", host="host")
MAP_ROW = MapRow(
    RowKey(TopicPartition(MAPPED, ZERO), str(TARGET_ID), 4, Stamp(3, 1)),
    (Break(4, 8), Break(9, 21)),
)


@dataclass(slots=True)
class Topics:
    """Stand for compacted topics: rows by topic and key."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def write(self, topic: str, values: Mapping[str, Any]) -> dict[str, Offset]:
        """Take rows."""
        kept = self.rows.setdefault(topic, {})
        for key, value in values.items():
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = value
        return dict.fromkeys(values, Offset(0))

    def changes(self, topic: str) -> list[Change]:
        """Return the rows as changes."""
        found = self.rows.get(topic, {}).items()
        return [Change(key, value, Offset(at), AT_MS) for at, (key, value) in enumerate(found)]


@contextmanager
def books_over(topics: Topics) -> Iterator[None]:
    """Have all books of a link read and write these."""
    with (
        patch.object(KeyedTopic, "write_many", lambda own, rows: topics.write(own.topic, rows)),
        patch.object(
            KeyedTopic, "write", lambda own, key, row: topics.write(own.topic, {key: row})[key]
        ),
        patch.object(KeyedTopic, "ensure", lambda *_: None),
        patch.object(KeyedTopic, "read_all", lambda own, *_: dict(topics.rows.get(own.topic, {}))),
        patch.object(KeyedReader, "read_all", lambda own, *_: dict(topics.rows.get(own.topic, {}))),
        patch.object(KeyedReader, "read_changes", lambda own, *_: topics.changes(own.topic)),
    ):
        yield


def write_all() -> None:
    """Write each value as a link does; within `books_over`."""
    state = LinkState(LINK, TARGET)
    state.put_producer(PRODUCER, [FORMER])
    state.put_mirrors({name: mirror(name) for name in (PLAIN, MAPPED, GIVEN)})
    state.promotions.promote([PROMOTION])
    state.put_making([mirror(MAKING)])
    state.put_starts({PLAIN: STARTS})
    state.put_beginning([PLAIN, MAPPED, GIVEN])
    state.stops.keep([STOP], lambda _: True)
    state.marks.put_topic(TOPIC_OF_MAPS)
    state.marks.put_mapped({MAPPED: MAPS})
    state.marks.put_lost({LOST_MAP: "rows were deleted"})
    KeyedTopic(TARGET.access(), f"heliostat.{LINK.name}.state").write("owner", OWNER.to_json())
    ledger = GapLedger(LINK.name, TARGET.access())
    ledger.record([GAP])
    ledger.decide(DECISION)
    ledger.put_copied({PLAIN: COPIED})
    PublishedOffsets(TARGET.access(), LINK.name).remember({GROUP: PUBLISHED})
    wishes = WishBook(LINK.name, TARGET.access())
    wishes.write([WISH, LIMIT, PROMOTION])
    wishes.order([ORDER])
    wishes.remember(RESTARTS)
