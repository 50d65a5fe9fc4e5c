"""A running link's schemas where the target gives ids of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from support.registry_contract import record, referring_to
from support.registry_server import RegistryServer
from support.schema_turns import BAR, FOO, Running
from typing_extensions import override
from unit.link.test_wanted_ids import report

from heliostat.errors import ConnectionLost
from heliostat.framed_ids import guid_number
from heliostat.names import TopicName
from heliostat.records.copier.lane import SchemaFrames
from heliostat.records.transport.schema_id_rows import schema_ids_of
from heliostat.schemas.registry.values import SchemaReference, Subject


class Rewriting(Running):
    """A part whose changes may be lost on their way to the link's state."""

    can_remember = True

    @override
    def _reframed(self, frames: Mapping[TopicName, SchemaFrames]) -> None:
        assert self.told, "the ids come first"
        if not self.can_remember:
            raise ConnectionLost("the state topic's broker is down")
        super()._reframed(frames)


@pytest.fixture
def servers() -> Iterator[tuple[RegistryServer, RegistryServer]]:
    with RegistryServer() as source, RegistryServer() as target:
        yield source, target


def test_ids_of_the_target_are_announced_where_they_are_its_own(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given a target that has schemas under the same ids / when strategy is rewrite / then each id

    is announced with the target's, and a reconciliation is asked for once a subject says that
    values have ids, not again.
    """
    running = Rewriting(*servers, strategy="rewrite")
    for number in range(3):
        running.register(f"local-{number}-value", at_target=True)
    names = ("foo-value", "lsst.sal.Foo")
    own = [running.register(name) for name in names]
    running.turn()
    # Independent subjects are registered side by side, so either may be the first.
    there = [running.target.double.subjects[name][1].schema_id for name in names]
    assert sorted(there) == [4, 5]
    assert running.told == [schema_ids_of(zip(own, there, strict=True), ())]
    assert running.part.frames(FOO) == SchemaFrames.VALUES | SchemaFrames.REPLACED
    assert running.part.frames(BAR) == SchemaFrames.MAYBE_VALUES | SchemaFrames.REPLACED
    running.turn()
    values = SchemaFrames.VALUES
    assert running.reframed == [{FOO: values}]
    running.register("foo-key")
    running.turn()
    assert running.reframed[1:] == [{FOO: values | SchemaFrames.KEYS}]
    running.part.close()


@pytest.mark.parametrize("strategy", ["rewrite", "preserve"])
def test_a_schema_whose_references_are_renamed_has_another_guid(
    servers: tuple[RegistryServer, RegistryServer], strategy: str
) -> None:
    """Given a mirror of another name, and a schema that refers to its subject / then the target's

    GUID is put into headers where ids are replaced; else its references keep their names.
    """
    running = Running(*servers, strategy=strategy)
    running.mirrors = {FOO: TopicName("summit.foo")}
    inner = record()
    outer = referring_to(inner, Subject("foo-value"))
    [used] = outer.references
    body = {"schema": outer.text, "references": [vars_of(used)]}
    running.source.double.register("foo-value", {"schema": inner.text})
    running.source.double.register("lsst.sal.Outer", body)
    there = running.target.double.subjects
    own = running.source.double.subjects["lsst.sal.Outer"][1].content.guid().bytes
    running.turn()
    running.part.wants(report(0, guid_number(own)))
    running.turn()
    new = there["lsst.sal.Outer"][1].content.guid().bytes
    assert (new == own) is (strategy == "preserve")
    assert running.told[-1] == schema_ids_of([(1, 1), (2, 2)], (), [(own, new)])
    assert running.part.is_readable(guid_number(own))
    running.part.close()


def vars_of(used: SchemaReference) -> dict[str, object]:
    return {"name": used.name, "subject": used.subject, "version": used.version}


def test_where_ids_stay_a_reconciliation_is_asked_for_once_as_well(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given a new subject / then lanes have to know that its topic's values have ids."""
    running = Running(*servers)
    running.register("foo-value")
    for _ in range(2):
        running.turn()
        assert running.reframed == [{FOO: SchemaFrames.VALUES}]
    running.part.close()


def test_what_an_earlier_driver_knew_of_topics_holds_until_registries_answer(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given a start while nothing was compared yet / then values of framed topics have ids; after

    that the subjects tell, and only a change is told on.
    """
    framed = {FOO: SchemaFrames.VALUES}
    running = Rewriting(*servers, strategy="rewrite", frames=framed)
    assert running.part.frames(FOO) == SchemaFrames.VALUES | SchemaFrames.REPLACED
    assert running.part.frames(BAR) == SchemaFrames.MAYBE_VALUES | SchemaFrames.REPLACED
    running.register("foo-value")
    running.turn()
    assert running.reframed == []
    running.source.double.delete_subject("foo-value", permanent=False)
    running.source.double.delete_subject("foo-value", permanent=True)
    running.turn()
    assert running.reframed == [{}]
    assert running.part.frames(FOO) == SchemaFrames.MAYBE_VALUES | SchemaFrames.REPLACED
    running.part.close()


def test_what_could_not_be_remembered_is_told_with_the_next_turn(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    running = Rewriting(*servers, strategy="rewrite")
    running.register("foo-value")
    running.can_remember = False
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            running.turn()
    running.can_remember = True
    running.turn()
    running.turn()
    assert running.reframed == [{FOO: SchemaFrames.VALUES}]
    running.part.close()
