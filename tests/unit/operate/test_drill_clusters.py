"""What a drill asks of clusters and removes there: rights, names, groups, topics; stand-ins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from unit.operate.test_drill_parts import note_of, written

from heliostat.access import ClusterAccess
from heliostat.clusters.acl import ResourceKind
from heliostat.clusters.admin import ClusterAdmin, GroupListing
from heliostat.clusters.admin.right_calls import May, Right
from heliostat.config import Config
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.handover.drill import DrillNote, Part, Way
from heliostat.names import Alias, GroupId, TopicName
from heliostat.operate.drilling import cleaning, rights
from heliostat.operate.drilling.drill_links import drill_config

TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED = 29, 30, 31
NOT_THERE, MOVING, MEMBERS, NO_GROUP = 3, 15, 68, 69
READ, DELETE = 3, 6


@dataclass
class Cluster:
    """One cluster, and what it lets us do."""

    topics: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    refuses: set[str] = field(default_factory=set)
    """`create PREFIX`, `delete PREFIX`."""
    group_operations: frozenset[int] = frozenset({READ, DELETE})
    may_alter: bool = True
    moving: int = 0
    """Answers about groups until there is a coordinator."""
    leaving: int = 0
    """The same until groups are empty."""
    stays: bool = False


class Admin(ClusterAdmin):
    """Stands for an admin client of it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        pass

    def _refuses(self, verb: str, name: str) -> bool:
        refused = sorted(each for each in self._cluster.refuses if each.startswith(verb))
        return any(name.startswith(each.removeprefix(f"{verb} ")) for each in refused)

    def describe_topics(self, names: Iterable[TopicName] | None = None) -> Any:
        assert names is None
        return dict.fromkeys(map(TopicName, self._cluster.topics))

    def list_groups(self, **_: object) -> GroupListing:
        groups: Any = dict.fromkeys(map(GroupId, self._cluster.groups))
        return GroupListing(groups, {})

    def may(self, rights: Iterable[Right]) -> May:
        return {
            right: not self._refuses(
                right.operation.value.lower()
                if right.kind is ResourceKind.TOPIC
                else right.kind.value,
                TopicName(right.name),
            )
            for right in rights
        }

    def delete_topics(self, topics: Iterable[TopicName]) -> Any:
        answers: dict[TopicName, BrokerError | None] = {}
        for name in topics:
            answers[name] = None
            if self._refuses("delete", name):
                answers[name] = BrokerError("no", kafka_code=TOPIC_REFUSED)
            elif name not in self._cluster.topics:
                answers[name] = BrokerError("not there", kafka_code=NOT_THERE)
            elif not self._cluster.stays:
                self._cluster.topics.remove(name)
        return answers

    def group_operations(self, groups: Iterable[GroupId]) -> Any:
        if self._cluster.moving:
            self._cluster.moving -= 1
            return dict.fromkeys(groups, BrokerError("soon", kafka_code=MOVING))
        may = self._cluster.group_operations
        refused = BrokerError("no", kafka_code=GROUP_REFUSED)
        return dict.fromkeys(groups, may or refused)

    def delete_groups(self, groups: Iterable[GroupId]) -> Any:
        answers: dict[GroupId, BrokerError | None] = {}
        for name in groups:
            answers[name] = None
            if name not in self._cluster.groups:
                answers[name] = BrokerError("not there", kafka_code=NO_GROUP)
            elif self._cluster.leaving:
                self._cluster.leaving -= 1
                answers[name] = BrokerError("has members", kafka_code=MEMBERS)
            elif self._refuses("delete", name):
                answers[name] = BrokerError("no", kafka_code=GROUP_REFUSED)
            else:
                self._cluster.groups.remove(name)
        return answers

    def may_alter_cluster(self) -> Any:
        return self._cluster.may_alter or BrokerError("no", kafka_code=CLUSTER_REFUSED)


class Scene:
    """Both clusters after a drill has crashed, beside others' things."""

    def __init__(self, folder: Path) -> None:
        file = written(folder, topics={"include": [".*"]})
        self.note: DrillNote = note_of()
        self.config: Config = drill_config(file, file.config.links[0], self.note)[0]
        state = f"heliostat.{self.note.links[Way.BACK]}.state"
        self.theirs = {"orders", "drill-orders", f"{state}x".replace(".state", "y.state")}
        own = {*self.note.topics, state}
        self.east = Cluster({*self.theirs, *own}, {"readers", *self.note.groups})
        self.west = Cluster({*self.theirs, *self.note.topics}, {"readers"})

    def admin(self, access: ClusterAccess, _client_id: str = "") -> Admin:
        return Admin(self.east if access.bootstrap == ("e:1",) else self.west)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene(tmp_path)
    monkeypatch.setattr(cleaning, "ClusterAdmin", made.admin)
    for module in (cleaning, rights):
        monkeypatch.setattr(module, "LOOK_S", 0.0)
    return made


def test_what_is_the_drills_goes_and_what_is_not_stays(scene: Scene) -> None:
    there = cleaning.existing(scene.config, scene.note)
    assert {*scene.note.topics, *scene.note.groups} < set(there)
    assert not scene.theirs & set(there)
    scene.east.leaving = 2
    for _ in range(2):
        cleaning.delete_groups(scene.config, scene.note)
        cleaning.delete_topics(scene.config, scene.note)
    assert (scene.east.topics, scene.west.topics) == (scene.theirs, scene.theirs)
    assert (scene.east.groups, scene.west.groups) == ({"readers"}, {"readers"})
    assert cleaning.existing(scene.config, scene.note) == []


def test_what_can_not_be_removed_is_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.west.refuses = {"delete drill-one"}
    with pytest.raises(BrokerError, match=r"topic drill-one-0a1b2c3d-1 can't be deleted at west"):
        cleaning.delete_topics(scene.config, scene.note)
    scene.east.refuses = {"delete drill-one"}
    with pytest.raises(BrokerError, match=r"group drill-one-0a1b2c3d-readers-1 can't be deleted"):
        cleaning.delete_groups(scene.config, scene.note)
    scene.east.refuses, scene.west.refuses, scene.east.leaving = set(), set(), 99
    monkeypatch.setattr(cleaning, "EMPTY_WITHIN_S", -1.0)
    with pytest.raises(BrokerError, match="has members"):
        cleaning.delete_groups(scene.config, scene.note)
    scene.west.stays = True
    monkeypatch.setattr(cleaning, "GONE_WITHIN_S", -1.0)
    with pytest.raises(ConnectionLost, match="is still there at west"):
        cleaning.delete_topics(scene.config, scene.note)


def missing(source: Cluster, target: Cluster, *, syncs_groups: bool = True) -> set[tuple[str, ...]]:
    both = (Alias("east"), Admin(source)), (Alias("west"), Admin(target))
    found = rights.missing_rights(*both, "0a1b2c3d", syncs_groups=syncs_groups)
    return {(each.cluster, each.text.partition(":")[0], each.part.value) for each in found}


def test_rights_that_are_missing_are_named_with_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rights, "LOOK_S", 0.0)
    assert missing(Cluster(moving=2), Cluster()) == set()
    alter = "Alter on the cluster"
    assert missing(Cluster(may_alter=False), Cluster()) == {("east", alter, Part.RULES)}
    create, delete = "create drill-", "delete heliostat.drill-"
    assert missing(Cluster(refuses={delete}), Cluster(refuses={create, delete})) == {
        ("east", "Delete on topics heliostat.drill-*", Part.WAY_BACK),
        ("west", "Create on topics drill-*", Part.ALL),
        ("west", "Delete on topics heliostat.drill-*", Part.ALL),
    }
    write, own = "write drill-", "transactional-id heliostat.drill-"
    assert missing(Cluster(refuses={write, own}), Cluster(refuses={own})) == {
        ("east", "Write on topics drill-*", Part.ALL),
        ("east", "Write on transactional ids heliostat.drill-*", Part.WAY_BACK),
        ("west", "Write on transactional ids heliostat.drill-*", Part.ALL),
    }
    alter = "alter drill-"
    assert missing(Cluster(refuses={alter}), Cluster(refuses={alter})) == {
        ("east", "Alter on topics drill-*", Part.NOTHING),
        ("west", "Alter on topics drill-*", Part.NOTHING),
    }
    nobody, reader = (
        Cluster(group_operations=frozenset()),
        Cluster(group_operations=frozenset({READ})),
    )
    assert missing(nobody, reader) == {
        ("east", "Read on groups drill-*", Part.GROUPS),
        ("east", "Delete on groups drill-*", Part.GROUPS),
        ("west", "Delete on groups drill-*", Part.GROUPS),
    }
    assert missing(nobody, reader, syncs_groups=False) == set()
