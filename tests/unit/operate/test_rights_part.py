"""Rights as a part of `plan` and `apply`: what would change and why, and what goes if allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from support.access_world import World, acl

from heliostat.clusters.acl import AclBinding, Operation
from heliostat.clusters.client_quota import QuotaEntity
from heliostat.config import Config
from heliostat.errors import BrokerError
from heliostat.names import BrokerId, ClusterId, TopicName
from heliostat.operate import apply_parts
from heliostat.operate.apply_parts import RightsPart, _OpenRights

A = QuotaEntity.of({"user": "a"})
CONFIG = {
    "clusters": {"a": {"bootstrap": "a:1"}, "b": {"bootstrap": "b:1"}},
    "links": [{"name": "l", "source": "a", "target": "b", "access": {"sync_acls": True}}],
}


class Rights:
    """The part, over clusters in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = World()
        self.stored: Any = SimpleNamespace(mirrors={}, promoted={})
        config = Config.model_validate(CONFIG)
        self.part = RightsPart(config, config.links[0])
        monkeypatch.setattr(RightsPart, "_opened", self.opened)

    @contextmanager
    def opened(self, *_: object) -> Iterator[_OpenRights]:
        admin: Any = Mock()
        admin.describe_topics.return_value = self.world.topics

        def sync(guard: Callable[[], None] = lambda: None) -> Any:
            guard()
            return self.world.sync()

        yield _OpenRights((admin, admin), self.stored, sync)

    def carry_out(self, *, allow_delete: bool = False) -> dict[str, str]:
        return dict(self.part.carry_out(Mock(), lambda: None, allow_delete=allow_delete))


@pytest.fixture
def rights(monkeypatch: pytest.MonkeyPatch) -> Rights:
    return Rights(monkeypatch)


def many(count: int) -> set[AclBinding]:
    return {acl(user=f"u{n}") for n in range(count)}


def test_what_would_change_and_why(rights: Rights) -> None:
    world = rights.world
    world.source.acls = {acl(), acl(Operation.WRITE)}
    world.source.quotas = {A: {"producer_byte_rate": 5.0}}
    changes = rights.part.look().changes
    assert [each.kind for each in changes] == ["make_acl", "set_quota", "keep_ready"]
    assert not any(each.is_deletion for each in changes)
    assert changes[0].why == "the source has it"
    assert rights.carry_out() == {}
    assert rights.part.look().changes == ()
    assert world.target.acls == {acl()}
    assert world.target.quotas == world.source.quotas


def test_nothing_goes_unless_it_is_allowed_and_was_shown(rights: Rights) -> None:
    world = rights.world
    world.source.acls = many(10)
    rights.carry_out()
    world.source.acls = many(2)
    gone = [each for each in rights.part.look().changes if each.is_deletion]
    assert len(gone) == 8
    assert rights.carry_out() == {}
    assert len(world.target.acls) == 10, "not allowed"
    world.source.acls = many(1)
    left = rights.carry_out(allow_delete=True)
    assert len(world.target.acls) == 10, "another one would go by now"
    assert set(left.values()) == {"9 of 10 would go at once"}
    rights.part.look()
    assert rights.carry_out(allow_delete=True) == {}
    assert world.target.acls == many(1)


def test_another_cluster_is_not_followed_without_a_person(rights: Rights) -> None:
    world = rights.world
    world.source.acls = many(1)
    rights.carry_out()
    world.source_id, world.source.acls = ClusterId("another"), many(2)
    look = rights.part.look()
    assert "another cluster" in look.refused["rights of l"]
    failed = rights.carry_out()
    assert len(world.target.acls) == 1
    assert all("another cluster" in why for why in failed.values())
    assert failed.keys() == {each.item for each in look.changes}


def test_what_brokers_refuse_is_named_by_item(rights: Rights) -> None:
    world = rights.world
    world.source.acls = {acl()}
    world.target.refuses = {acl()}
    [change] = rights.part.look().changes
    assert set(rights.carry_out()) == {change.item}
    world.target.refuses = set()
    rights.carry_out()
    world.source.acls = set()
    world.source.others = {BrokerId(2): BrokerError("hangs", kafka_code=13)}
    look = rights.part.look()
    assert any("nothing is removed" in line for line in look.drift)
    failed = rights.carry_out(allow_delete=True)
    assert acl() in world.target.acls
    assert all(failed.values())


def test_a_running_link_is_told_what_is_allowed(
    rights: Rights, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed: list[Any] = []
    monkeypatch.setattr(apply_parts, "link_access", lambda *_, **words: confirmed.append(words))
    rights.world.source.acls = many(10)
    rights.carry_out()
    rights.part.look()
    rights.part.allow("ann")
    assert confirmed == [], "nothing asks"
    rights.world.source.acls = many(1)
    rights.part.look()
    rights.part.allow("ann")
    shown = rights.world.look().confirmation
    assert confirmed == [{"allow_delete_by": "ann", "shown": shown}]


def test_after_the_last_promotion_there_is_nothing_to_apply(rights: Rights) -> None:
    rights.world.source.acls = many(3)
    rights.stored.promoted = {TopicName("t.1"): object()}
    assert rights.part.look().changes == ()
    assert rights.carry_out() == {}
    assert not rights.world.target.acls
