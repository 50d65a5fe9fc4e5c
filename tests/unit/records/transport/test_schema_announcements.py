"""How a lane hears which schema ids can be read at the target: the newest, of its registries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from unit.records.transport.test_control_channel import LANE, VERSION, frame_of

from heliostat.records.copier.lane import NO_IDS, SchemaIds
from heliostat.records.transport.announcements import Announcements, Heard
from heliostat.records.transport.schema_id_rows import SCHEMAS_KEY, encode_schema_ids

OLD, NEW = SchemaIds(((1, 9),)), SchemaIds(((1, 4), (6, 9)), ((77, 77),))


@pytest.fixture
def hearing() -> tuple[Announcements, Heard]:
    """Over a line that leads nowhere."""
    lane: Any = SimpleNamespace(**vars(LANE), registries="here")
    conn: Any = SimpleNamespace(worked=lambda: None)
    heard = Heard()
    return Announcements(lane, conn, heard), heard


def answer(
    base: int, high_watermark: int, *announced: SchemaIds, registries: str = "here"
) -> memoryview:
    """A frame with announcements of schema ids from offset `base` on."""
    values = [encode_schema_ids(registries, each) for each in announced]
    return frame_of(base, high_watermark, SCHEMAS_KEY, values)


def test_ids_count_once_all_announcements_are_read(hearing: tuple[Announcements, Heard]) -> None:
    """Given older announcements before the newest / when they are read first / then ids that were

    taken back since never pass.
    """
    announcements, heard = hearing
    announcements._take(answer(0, 2, OLD), VERSION)
    assert heard.schema_ids == NO_IDS
    announcements._take(answer(1, 2, NEW), VERSION)
    assert heard.schema_ids == NEW


def test_the_newest_of_one_answer_counts(hearing: tuple[Announcements, Heard]) -> None:
    announcements, heard = hearing
    announcements._take(answer(0, 2, OLD, NEW), VERSION)
    assert heard.schema_ids == NEW


def test_ids_of_other_registries_are_none(hearing: tuple[Announcements, Heard]) -> None:
    """Given a link that has other registries now / then ids announced for the former don't pass."""
    announcements, heard = hearing
    announcements._take(answer(0, 1, OLD, registries="there"), VERSION)
    assert heard.schema_ids == NO_IDS
    announcements._take(answer(1, 2, NEW), VERSION)
    assert heard.schema_ids == NEW
