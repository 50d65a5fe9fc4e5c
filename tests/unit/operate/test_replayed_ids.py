"""A dead letter is replayed to a topic of the target only with ids that mean the same there."""

from __future__ import annotations

from typing import Any

import pytest

from heliostat.config import Config
from heliostat.errors import Refused
from heliostat.framed_ids import guid_number
from heliostat.gaps.choices import Cause
from heliostat.gaps.dead_letters import DeadLetter
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate import replayed_ids
from heliostat.operate.replayed_ids import SameIds, check_ids, other_id
from heliostat.operate.schemas import SeenRegistries
from heliostat.records.copier.lane import NO_FRAMES, SchemaFrames
from heliostat.schemas import RegistryContent, SchemaPlan
from heliostat.schemas.content import VersionContent
from heliostat.schemas.naming import SubjectNaming
from heliostat.schemas.registry.values import (
    Schema,
    SchemaId,
    SchemaVersion,
    Subject,
    SubjectVersion,
)
from heliostat.schemas.schema_plan import SchemaRules, Strategy

GUID = bytes(range(16))
VALUES, KEYS, MAYBE = SchemaFrames.VALUES, SchemaFrames.KEYS, SchemaFrames.MAYBE_VALUES
IDS = SameIds(frozenset({1}), frozenset({1, 2}))


def framed(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + b"body"


def letter(
    value: bytes | None = None, key: bytes | None = None, *headers: tuple[str, bytes | None]
) -> DeadLetter:
    at = TopicPartition(TopicName("orders"), PartitionId(3))
    place = (at, Offset(7), Offset(7))
    fields = (Cause.RECORD_FAILED, "why", TopicName("orders"), "policy", 9)
    return DeadLetter(*place, False, 5, key, value, headers, *fields)


@pytest.mark.parametrize(
    ("of", "frames", "number"),
    [
        (letter(framed(1), framed(1)), VALUES | KEYS, None),
        (letter(framed(2)), VALUES, 2),
        (letter(framed(9)), VALUES, 9),
        (letter(b"text"), VALUES, None),
        (letter(None), VALUES, None),
        (letter(framed(2)), MAYBE, 2),
        (letter(framed(9)), MAYBE, None),  # the source's registry has no such id: it is none
        (letter(framed(2)), NO_FRAMES, None),
        (letter(b"", framed(2)), VALUES, None),  # keys of the topic have no ids
        (letter(b"", framed(2)), KEYS, 2),
        (letter(framed(1), None, ("__value_schema_id", framed(2))), MAYBE, 2),
        (letter(b"", None, ("__value_schema_id", b"\1" + GUID)), MAYBE, guid_number(GUID)),
    ],
)
def test_an_id_of_another_schema_is_found(
    of: DeadLetter, frames: SchemaFrames, number: int | None
) -> None:
    assert other_id(of, frames, IDS) == number


def test_where_a_registry_gives_no_guids_none_is_refused() -> None:
    """Given a registry without GUIDs / then nobody can tell what one stands for, as at the gate."""
    of = letter(b"", None, ("__value_schema_id", b"\1" + GUID))
    assert other_id(of, MAYBE, SameIds(frozenset(), frozenset(), has_guids=False)) is None


def config(strategy: str) -> Config:
    registry = {"urls": ["http://127.0.0.1:1"]}
    return Config.model_validate(
        {
            "clusters": {
                "a": {"bootstrap": ["127.0.0.1:1"], "schema_registry": registry},
                "b": {"bootstrap": ["127.0.0.1:2"], "schema_registry": registry},
            },
            "links": [
                {"name": "l", "source": "a", "target": "b", "schemas": {"strategy": strategy}}
            ],
        }
    )


def seen(strategy: Strategy, **ids: int) -> SeenRegistries:
    """A source with `Order` as 1 and `Salary` as 2, for values of `orders`."""
    versions = {
        SubjectVersion(Subject("orders-value"), SchemaVersion(number)): VersionContent(
            SchemaId(number), Schema(text)
        )
        for number, text in ((1, '"int"'), (2, '"string"'))
    }
    content = RegistryContent(versions)
    plan = SchemaPlan(ids={SchemaId(int(own[1:])): SchemaId(to) for own, to in ids.items()})
    mirrors = {TopicName("orders"): TopicName("orders")}
    rules = SchemaRules(strategy, SubjectNaming(mirrors), frozenset())
    return SeenRegistries(content, content, mirrors, rules, plan)


@pytest.mark.parametrize(
    ("strategy", "ids", "is_refused"),
    [
        ("rewrite", {"_1": 2}, True),  # Order would be read as Salary
        ("rewrite", {"_1": 1}, False),
        ("preserve", {"_1": 1}, False),
        ("preserve", {}, True),  # not at the target
    ],
)
def test_a_letter_is_refused_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, strategy: str, ids: dict[str, int], *, is_refused: bool
) -> None:
    """Given a record of schema 1 / then it is written to a topic only if 1 is that schema there."""
    found = seen(Strategy(strategy), **ids)
    monkeypatch.setattr(replayed_ids, "seen_registries", lambda *_: found)
    made = config(strategy)
    if is_refused:
        with pytest.raises(Refused, match="schema id 1") as caught:
            check_ids(made, made.links[0], [letter(b""), letter(framed(1))])
        assert "--to-source" in caught.value.hint
    else:
        check_ids(made, made.links[0], [letter(framed(1))])


def test_registries_are_asked_only_for_records_with_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(replayed_ids, "seen_registries", asked)
    made, off = config("rewrite"), config("off")
    check_ids(made, made.links[0], [letter(b"text")])
    check_ids(off, off.links[0], [letter(framed(1))])
