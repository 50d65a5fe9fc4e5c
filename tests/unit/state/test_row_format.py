"""Rows of a later version: what an older one leaves alone, and what it refuses with a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat import __version__
from heliostat.clusters.keyed_topic import Change
from heliostat.errors import ProtocolError, Refused
from heliostat.gaps.ledger import GapRow
from heliostat.names import Offset, ProducerId, TopicName
from heliostat.offsets.marks import Marks
from heliostat.state import row_format
from heliostat.state.link_state import Stored
from heliostat.state.owner_record import OwnerRecord
from heliostat.state.ownership import Owner
from heliostat.state.row_format import FORMAT, FORMAT_KEY, MERGED, check_format

TOPIC = "heliostat.east-to-west.state"
LATER = {"format": FORMAT + 1, "version": "0.9.0"}
OWNER = Owner("a" * 32, "host", 1, 3, 7, 0, 20_000, resigned=False).to_json()


def test_rows_without_a_format_and_of_this_one_are_read() -> None:
    check_format(TOPIC, {"owner": OWNER})
    check_format(TOPIC, {FORMAT_KEY: {"format": FORMAT, "version": "0.9.0", "more": 1}})


def test_a_later_format_is_refused_with_both_versions_and_what_to_do() -> None:
    with pytest.raises(Refused) as refused:
        check_format(TOPIC, {FORMAT_KEY: LATER})

    assert f"Heliostat 0.9.0, in format {FORMAT + 1}" in refused.value.text
    assert f"{__version__} reads formats up to {FORMAT}" in refused.value.text
    assert refused.value.hint.startswith("install 0.9.0 or later")


def test_rows_of_merged_topics_are_refused_by_versions_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_format(TOPIC, {FORMAT_KEY: MERGED})
    first, this = (tuple(map(int, each.split("."))) for each in (MERGED["version"], __version__))
    assert first <= this, "it names the first version that reads this format"
    monkeypatch.setattr(row_format, "FORMAT", 1)
    with pytest.raises(Refused, match=r"are of Heliostat 0\.3\.0, in format 2"):
        check_format(TOPIC, {FORMAT_KEY: MERGED})


class Topic:
    """Stands for the state topic and its reader."""

    topic = TOPIC

    def __init__(self, rows: Mapping[str, Mapping[str, Any]], *later: Change) -> None:
        self._rows, self._later = rows, list(later)

    def reader(self) -> Topic:
        return self

    def close(self) -> None:
        pass

    def read_all(self, _: float = 0) -> Mapping[str, Mapping[str, Any]]:
        return self._rows

    def poll(self, _: float) -> list[Change]:
        return self._later


def record_of(topic: Topic) -> OwnerRecord:
    return OwnerRecord(topic, Mock(), Mock())  # type: ignore[arg-type]  # a stand-in


def test_who_would_take_over_looks_before_it_fences() -> None:
    record = record_of(Topic({"owner": OWNER, FORMAT_KEY: LATER}))

    with pytest.raises(Refused):
        record.watch_owner(anew=True)
    with pytest.raises(Refused):
        record.read_owner()


def test_a_standby_sees_that_its_owner_was_upgraded() -> None:
    record = record_of(Topic({"owner": OWNER}, Change(FORMAT_KEY, LATER, Offset(9), 0)))

    assert record.watch_owner(anew=True) == Owner.from_json(OWNER)
    with pytest.raises(Refused):
        record.watch_owner(anew=False)


def test_a_format_that_is_no_number_is_somebody_elses() -> None:
    record = record_of(Topic({FORMAT_KEY: {"format": "new"}}))

    with pytest.raises(ProtocolError, match="not a row of ours"):
        record.watch_owner(anew=True)


def test_unknown_keys_and_fields_of_the_state_are_left_alone() -> None:
    stored, marks = Stored(), Marks()
    rows: dict[str, dict[str, Any]] = {
        "owner": {**OWNER, "zone": "a"},
        "producer": {"producer_id": 5, "epoch": 0},
        "later/thing": {"is": "unknown"},
    }
    for key, value in rows.items():
        stored.take(key, value)
    marks.take("maps", {"topic_id": "x", "start": 0, "end": 4, "epoch": 1, "checksum": "y"})

    assert stored.owner == Owner.from_json(OWNER)
    assert stored.producer_id == ProducerId(5)
    assert marks.topic is not None
    assert marks.topic.end == 4


def test_unknown_fields_of_the_ledger_are_left_alone() -> None:
    row = {
        "topic": "t",
        "partition": 0,
        "first": 1,
        "last": 2,
        "count": 2,
        "at_ms": 0,
        "cause": "source_overtook",
        "choice": "continue",
        "decided_by": "policy",
        "mirror": "t",
        "source_id": "",
        "target_id": "",
        "jump": None,
        "is_done": True,
        "text": "",
        "later": 1,
    }

    assert GapRow.from_json(row).topic == TopicName("t")
