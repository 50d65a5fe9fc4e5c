"""What is known of ids and GUIDs after a comparison of both registries."""

from __future__ import annotations

import pytest

from heliostat.framed_ids import guid_number
from heliostat.link.known_ids import known_ids
from heliostat.records.transport.schema_id_rows import schema_ids_of
from heliostat.schemas.content import RegistryContent, VersionContent
from heliostat.schemas.mirroring import MirroredSchemas
from heliostat.schemas.registry.values import (
    Schema,
    SchemaId,
    SchemaVersion,
    Subject,
    SubjectVersion,
)
from heliostat.schemas.schema_plan import SchemaPlan, SchemaRules, Strategy

SAME, MOVED, NEW, REFUSED = (bytes([each]) * 16 for each in (1, 0xF2, 3, 4))
NUMBERS = {each: guid_number(each) for each in (SAME, MOVED, NEW, REFUSED)}


def compared(strategy: Strategy, *guids: bytes) -> MirroredSchemas:
    """Three schemas, of which the third can't be read at the target."""
    content = RegistryContent(
        {
            SubjectVersion(Subject(f"s{at}"), SchemaVersion(1)): VersionContent(
                SchemaId(at), Schema(f'"{at}"'), guid=guid
            )
            for at, guid in enumerate(guids, 1)
        }
    )
    ids = {SchemaId(each): SchemaId(each) for each in (1, 2)}
    both = {SAME: SAME, MOVED: NEW} if any(guids) else {}
    return MirroredSchemas(content, SchemaRules(strategy), SchemaPlan(), {}, ids, guids=both)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_guid_that_is_another_at_the_target_is_readable_where_it_is_replaced(
    strategy: Strategy,
) -> None:
    """Given GUIDs of which one is another there / then that is told, or waited for."""
    wanted = set(NUMBERS.values())
    known = known_ids(compared(strategy, SAME, MOVED, REFUSED), wanted, wanted)
    guids = [(SAME, SAME), *([(MOVED, NEW)] if strategy is Strategy.REWRITE else [])]
    assert known.readable == {1, 2, *(NUMBERS[own] for own, _ in guids)}
    assert known.at_source == {1, 2, 3, NUMBERS[SAME], NUMBERS[MOVED], NUMBERS[REFUSED]}
    told = sorted(guids, key=lambda each: NUMBERS[each[0]])
    assert known.announced == schema_ids_of([(1, 1), (2, 2)], [NUMBERS[NEW]], told)


def test_guids_that_no_lane_has_asked_for_are_not_told() -> None:
    known = known_ids(compared(Strategy.REWRITE, SAME, MOVED, REFUSED), (), ())
    assert known.announced == schema_ids_of([(1, 1), (2, 2)], ())
    assert NUMBERS[SAME] in known.readable


def test_where_the_source_gives_no_guids_none_is_waited_for() -> None:
    """Given an older registry, or Apicurio / then GUIDs pass; an empty registry says nothing."""
    wanted = {NUMBERS[SAME], 7}
    known = known_ids(compared(Strategy.PRESERVE, b"", b"", b""), wanted, {7, NUMBERS[SAME]})
    same = [(number, number) for number in (1, 2, NUMBERS[SAME])]
    assert known.announced == schema_ids_of(same, [7])
    empty = MirroredSchemas(RegistryContent(), SchemaRules(Strategy.PRESERVE), SchemaPlan(), {}, {})
    assert known_ids(empty, wanted, ()).announced == schema_ids_of([], ())
