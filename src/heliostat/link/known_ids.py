"""What a comparison of both registries says about the ids and GUIDs that records have."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from heliostat.framed_ids import guid_number
from heliostat.records.copier.lane import SchemaIds
from heliostat.records.transport.schema_id_rows import schema_ids_of
from heliostat.schemas.mirroring import MirroredSchemas
from heliostat.schemas.schema_plan import Strategy


class KnownIds(NamedTuple):
    """Ids, and what GUIDs are known by (`heliostat.framed_ids`)."""

    readable: frozenset[int]
    """What can be read at the target."""
    at_source: frozenset[int]
    """What the source's registry has."""
    announced: SchemaIds
    """What lanes are told."""


def known_ids(done: MirroredSchemas, wanted: Collection[int], sure: Collection[int]) -> KnownIds:
    """Return what is known by now.

    A GUID is readable where the same stands for the schema at the target; where ids are replaced,
    it may be another one: a schema whose references were renamed has another. If the source's
    registry gives no GUIDs, nobody could tell what they stand for, and none is waited for.

    Parameters
    ----------
    done
        The comparison.
    wanted
        What lanes have waited for. Of GUIDs only these are announced: they follow no order that
        would make thousands of them short.
    sure
        See `SureIds`.
    """
    context = done.rules.source_context
    given = done.source.guids(context).values()
    replaces = done.rules.strategy is Strategy.REWRITE
    at_source = frozenset((*done.source.ids(context), *map(guid_number, given)))
    numbers = {
        guid_number(own): (own, there)
        for own, there in done.guids.items()
        if replaces or own == there
    }
    ids: dict[int, int] = {int(own): int(there) for own, there in done.ids.items()}
    if done.source.versions and not given:
        ids |= {each: each for each in wanted if each < 0}
    announced = schema_ids_of(
        ids.items(),
        (each for each in sure if each in wanted and each not in at_source and each not in ids),
        (numbers[each] for each in sorted(wanted) if each in numbers),
    )
    return KnownIds(frozenset((*ids, *numbers)), at_source, announced)
