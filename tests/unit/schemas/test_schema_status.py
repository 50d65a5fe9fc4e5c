"""What people are told about schemas: a row a version, and ids that are not what they should be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.mirrored_schemas import USED, fill, mirror, planned
from support.registry_contract import V1, fresh_subject, record
from support.registry_server import RegistryServer, Reply, Trouble

from heliostat.access import RegistryAccess
from heliostat.schemas import (
    HttpRegistry,
    SchemaRules,
    Strategy,
    SubjectNaming,
    observe_registry,
    schema_rows,
    verify_ids,
)
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.values import Context, Mode, SchemaId, Subject, SubjectVersion
from heliostat.schemas.schema_plan import SchemaRefusal
from heliostat.schemas.status import SchemaRow, SchemaState

PRESERVE, REWRITE = SchemaRules(Strategy.PRESERVE), SchemaRules(Strategy.REWRITE)
ISOLATE = SchemaRules(Strategy.ISOLATE, SubjectNaming(context=Context(".summit")))


def only(reply: Reply, path: str) -> Trouble:
    return lambda asked: reply if asked.target.partition("?")[0] == path else None


def told(source: HttpRegistry, target: HttpRegistry, rules: SchemaRules) -> list[SchemaRow]:
    plan = planned(source, target, rules)
    return list(schema_rows(observe_registry(source), plan, rules))


def test_a_row_says_where_a_version_is() -> None:
    """Given schemas that cross / then they are missing, then mapped, or mirrored with their id."""
    with (
        RegistryServer() as one,
        RegistryServer() as other,
        HttpRegistry(RegistryAccess((one.url,))) as source,
        HttpRegistry(RegistryAccess((other.url,))) as target,
    ):
        fill(source)
        rows = told(source, target, REWRITE)
        assert {row.state for row in rows} == {SchemaState.MISSING}
        assert len(rows) == 8
        for _ in range(10):  # so that no id is the same by chance
            target.ask(calls.register(fresh_subject(), record()))
        mirror(source, target, REWRITE)
        rows = told(source, target, REWRITE)
        assert {row.state for row in rows} == {SchemaState.MAPPED}
        assert [row.of for row in rows if row.is_deleted] == [
            SubjectVersion(Subject("chg-value"), V1),
            SubjectVersion(Subject("gone-value"), V1),
        ]
        (used,) = [row for row in rows if row.of.subject == USED]
        assert (used.schema_id, used.names) == (1, (USED,))
        assert used.target_id == target.ask(calls.version(USED)).schema_id
        assert told(target, target, REWRITE)[0].state is SchemaState.MIRRORED


def test_a_row_says_why_a_version_is_not_there() -> None:
    with (
        RegistryServer() as one,
        RegistryServer() as other,
        HttpRegistry(RegistryAccess((one.url,))) as source,
        HttpRegistry(RegistryAccess((other.url,))) as target,
    ):
        back = Subject("base.a-value")
        for subject in (USED, back, Subject(":.c:x-value"), Subject("unselected-value")):
            source.ask(calls.register(subject, record()))
        target.ask(calls.set_mode(Mode.READONLY))
        rules = replace(REWRITE, mirrored={back: "link base"}, selected=frozenset({USED, back}))
        refused, left_out = sorted(told(source, target, rules), key=lambda row: row.state.value)[
            ::-1
        ]
        assert (refused.of.subject, refused.state) == (USED, SchemaState.REFUSED)
        assert refused.code == SchemaRefusal.MODE.value
        assert "READONLY" in refused.reason
        assert (left_out.of.subject, left_out.state) == (back, SchemaState.LEFT_OUT)
        assert left_out.reason == "link base"


@pytest.mark.parametrize("rules", [PRESERVE, ISOLATE, REWRITE])
def test_each_id_is_compared_at_each_address(rules: SchemaRules) -> None:
    """Given two nodes / when one lacks an id and one has another content / then both are told."""
    with (
        RegistryServer() as one,
        RegistryServer() as other,
        RegistryServer(other.double) as second,
        HttpRegistry(RegistryAccess((one.url,))) as source,
        HttpRegistry(RegistryAccess((other.url, second.url))) as target,
    ):
        fill(source)
        done = mirror(source, target, rules)
        assert list(verify_ids(done.ids, source, target, rules)) == []
        lacking, foreign = done.ids[SchemaId(3)], done.ids[SchemaId(4)]
        missing = Reply(404, b'{"error_code":40403,"message":"Schema not found"}')
        other_content = Reply(200, b'{"schema":"\\"int\\""}')
        for reply, schema_id in ((missing, lacking), (other_content, foreign)):
            second.troubles.append(only(reply, f"/schemas/ids/{schema_id}"))
        unread, another = verify_ids(done.ids, source, target, rules)
        assert (unread.schema_id, unread.address) == (3, second.url)
        assert "SCHEMA_NOT_FOUND" in unread.what
        assert (another.schema_id, another.target_id, another.address) == (4, foreign, second.url)
        assert another.what == "it means another schema there"
