"""A way back that is cut short at each of its steps, and called again: the same comes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from heliostat.clusters.acl import AclBinding, AclRule, Operation, Permission, ResourceKind
from heliostat.errors import ConnectionLost
from heliostat.fencing.authorizer import Authorizer
from heliostat.handover.promotion import PartitionPromotion, PromotedBy, Promotion
from heliostat.handover.recreation import Recreation
from heliostat.names import (
    ClusterId,
    GroupId,
    LinkName,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.operate import protection
from heliostat.operate import reverse as verb
from heliostat.operate.reverse import reverse
from heliostat.operate.reversing import written
from heliostat.operate.reversing.values import (
    Evidence,
    GroupSetBack,
    PartitionReturn,
    ReturnState,
    Reversal,
    Tail,
    TopicReturn,
)
from heliostat.state.claimed import DrivenElsewhere
from heliostat.topics.values import MirrorRecord

KEPT, ANEW = TopicName("kept"), TopicName("anew")
PURPOSES, TOPIC = ("switch", "rescue"), ResourceKind.TOPIC
USERS = ("app", "link")
GROUP = GroupId("readers")
AT = PartitionPromotion(Offset(5), Offset(5))
WRITTEN_SINCE = 9
"""What the group of the old source had committed, beyond the promotion."""
STEPS = (
    *("promotions", "look", "give way", "claim", "unchanged", "groups", "anew noted", "anew"),
    *("write", "let go", "fence", "registry", "note"),
)


class Killed(BaseException):
    """The process ends here."""


class World:
    """What lies at both sides, and a process that ends, or loses a cluster, at a step."""

    def __init__(self, fails_at: str = "", failure: BaseException | None = None) -> None:
        self.fails_at, self.failure = fails_at, failure
        self.is_before = False
        """Whether it ends before the step has its effect."""
        self.promotions = {
            name: Promotion(name, PromotedBy.FAILOVER, "ann", 1) for name in (KEPT, ANEW)
        }
        self.ids: dict[TopicName, TopicId] = {name: UUID(int=1) for name in (KEPT, ANEW)}
        self.mirrors: dict[TopicName, MirrorRecord] = {}
        self.offset = WRITTEN_SINCE
        self.is_claimed = self.has_given_way = False
        self.begins = 0
        """How often a driver begins that must give way as well."""
        self.fenced, self.open_subjects = {KEPT, ANEW}, {KEPT, ANEW}
        self.noted: set[TopicName] = set()
        self.made = 0

    def step(self, name: str, effect: Callable[[], Any] = lambda: None) -> Any:
        """Do a step, unless it is the one that fails."""
        failure = self.failure if name == self.fails_at else None
        if failure is not None and self.is_before:
            raise failure
        answer = effect()
        if failure is not None:
            raise failure
        return answer

    def look(self, promotions: Collection[TopicName]) -> Iterator[TopicReturn]:
        for name in promotions:
            is_anew = name == ANEW
            record = MirrorRecord(
                *(name, name, UUID(int=9), self.ids[name], ClusterId("new")), "earliest", 1
            )
            if name in self.mirrors and self.mirrors[name].target_id == self.ids[name]:
                yield TopicReturn(name, name, ReturnState.DONE, "it is a mirror")
                continue
            recreation = self.promotions[name].recreation or Recreation(self.ids[name], {}, {})
            part = PartitionReturn(PartitionId(0), AT, Offset(5), 0, Evidence.RECORDS)
            parts = () if is_anew else (part,)
            yield TopicReturn(
                *(name, name, ReturnState.READY, "", parts, record),
                recreation if is_anew else None,
            )

    def beyond(self, topics: Collection[TopicReturn]) -> tuple[GroupSetBack, ...]:
        if self.offset <= AT.source_end or KEPT not in {each.topic for each in topics}:
            return ()
        place = TopicPartition(KEPT, PartitionId(0))
        return (
            GroupSetBack(GROUP, place, Offset(self.offset), AT.source_end, "", has_members=False),
        )

    def set_back(self, groups: Collection[GroupSetBack]) -> tuple[GroupSetBack, ...]:
        def effect() -> None:
            assert self.is_claimed
            assert not self.mirrors, "it is set back before anything is copied"
            for each in groups:
                self.offset = each.until

        self.step("groups", effect)
        return tuple(groups)

    def keep(self, rows: Iterable[Promotion]) -> None:
        self.step("anew noted", lambda: self.promotions.update({r.topic: r for r in rows}))

    def make_anew(self, row: Promotion) -> TopicId:
        def effect() -> TopicId:
            assert row.recreation is not None
            assert self.promotions[row.topic].recreation is not None, "it was not noted before"
            if self.ids[row.topic] == row.recreation.former_id:
                self.ids[row.topic] = uuid4()
                self.made += 1
            return self.ids[row.topic]

        answer: TopicId = self.step("anew", effect)
        return answer

    def write(self, topics: Collection[TopicReturn]) -> None:
        def effect() -> None:
            assert self.is_claimed
            for each in topics:
                assert each.record is not None
                assert each.record.target_id == self.ids[each.topic]
                self.mirrors[each.topic] = each.record

        self.step("write", effect)

    def give_way(self) -> None:
        self.step("give way")
        self.has_given_way = True

    @contextmanager
    def owned(self) -> Iterator[Any]:
        assert self.has_given_way
        if self.begins:
            self.begins, self.has_given_way = self.begins - 1, False
            raise DrivenElsewhere("link back is driven by another instance", hint="stop it")
        self.step("claim")
        self.is_claimed = True
        try:
            yield None, SimpleNamespace(claim_number=3, hold=lambda _: None)
        finally:
            self.is_claimed = False

    def lift(self, topics: Collection[TopicName]) -> None:
        def effect() -> None:
            assert self.mirrors.keys() >= set(topics), "producers are let in before it is a mirror"
            self.fenced -= set(topics)

        self.step("fence", effect)

    def close(self, topics: Collection[TopicReturn]) -> tuple[str, ...]:
        self.step("registry", lambda: self.open_subjects.difference_update(t.topic for t in topics))
        return ()

    def note(self, rows: Collection[Promotion]) -> None:
        self.step("note", lambda: self.noted.update(each.topic for each in rows))


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Callable[[World], None]:
    """Let the verb see a world."""

    def in_place(world: World) -> None:
        @contextmanager
        def clusters(_: object, back: object) -> Iterator[Any]:
            yield SimpleNamespace(link=back, target=None)

        anew = SimpleNamespace(note=world.keep, make_anew=world.make_anew)
        seen = SimpleNamespace(topics=lambda p: world.step("look", lambda: [*world.look(p)]))
        places: dict[str, Any] = {
            "LinkClusters": clusters,
            "Recreating": lambda *_: anew,
            "Look": lambda *_: seen,
            "_promotions": lambda *_: world.step("promotions", lambda: dict(world.promotions)),
            "groups_beyond": lambda _, topics: world.beyond(topics),
            "ask_to_give_way": lambda *_: world.give_way(),
            "owned": lambda _: world.owned(),
            "_refuse_changed": lambda *_: world.step("unchanged"),
            "set_back": lambda _, groups: world.set_back(groups),
            "write": lambda *given: world.write(given[3]),
            "let_go": lambda *_: world.step("let go"),
            "other_claims_of": lambda *_: None,
            "open_source": lambda *given: world.lift(given[3]),
            "close_to_producers": lambda *given: world.close(given[3]),
            "note": lambda *given: world.note(given[2]),
        }
        for name, stand_in in places.items():
            monkeypatch.setattr(verb, name, stand_in)

    return in_place


def called(*, dry_run: bool = False, strategy: str = "preserve") -> Reversal:
    def link(name: str, source: str, target: str) -> Any:
        return SimpleNamespace(
            name=LinkName(name),
            source=source,
            target=target,
            topics=SimpleNamespace(merges=False, fan_in=None),
            pipelines=(),
            schemas=SimpleNamespace(strategy=strategy, context=None),
        )

    config: Any = None
    there, back = link("there", "east", "west"), link("back", "west", "east")
    return reverse(config, there, back, tail=Tail.RECREATE, dry_run=dry_run, by="ann")


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize(
    "failure", [Killed(), ConnectionLost("no broker answers")], ids=["killed", "no broker"]
)
@pytest.mark.parametrize("step", STEPS)
def test_a_way_back_that_ends_at_a_step_goes_on_when_it_is_called_again(
    put: Callable[[World], None], step: str, failure: BaseException, *, is_before: bool
) -> None:
    """Given a run that ends before or behind a step / when another is called / then all is done:

    the group is set back, the topic made anew once, both are mirrors, let in, closed and noted.
    """
    world = World(step, failure)
    world.is_before = is_before
    put(world)
    with pytest.raises(type(failure)):
        called()
    assert not world.is_claimed
    world.failure = None
    again = called()
    assert {each.state for each in again.topics} <= {ReturnState.READY, ReturnState.DONE}
    assert world.mirrors.keys() == {KEPT, ANEW}
    assert (world.offset, world.made) == (AT.source_end, 1)
    assert not world.fenced, "the link that leads back is kept out"
    assert not world.open_subjects
    assert world.noted == {KEPT, ANEW}
    third = called()
    assert {each.state for each in third.topics} == {ReturnState.DONE}
    assert world.made == 1


def test_a_driver_that_begins_meanwhile_gives_way_as_well(put: Callable[[World], None]) -> None:
    """Given a driver that takes the link over while its leases are waited out / when reversed /

    then it is asked as well; who goes on to begin is named.
    """
    world = World()
    world.begins = 1
    put(world)
    assert called().is_written
    again = World()
    again.begins = 2
    put(again)
    with pytest.raises(DrivenElsewhere):
        called()
    assert not again.mirrors


def test_a_dry_run_changes_nothing(put: Callable[[World], None]) -> None:
    """Given a way back, new or done in part / when it is only tried / then nothing is changed."""
    world = World()
    put(world)
    assert {each.state for each in called(dry_run=True).topics} == {ReturnState.READY}
    assert (world.fenced, world.noted, world.mirrors) == ({KEPT, ANEW}, set(), {})
    world.fails_at, world.failure = "write", Killed()
    with pytest.raises(Killed):
        called()
    assert {each.state for each in called(dry_run=True).topics} == {ReturnState.DONE}
    assert (world.fenced, world.noted) == ({KEPT, ANEW}, set())


def test_schemas_that_no_link_takes_back_are_told(put: Callable[[World], None]) -> None:
    """Given a link whose schemas are in a context at the new primary / when it is reversed / then

    it is said that what was registered there since stays there, in a dry run and afterwards too.
    """
    put(World())
    assert called(dry_run=True).open_subjects == ()
    for dry_run in (True, False, False):
        [line] = called(dry_run=dry_run, strategy="isolate").open_subjects
        assert "in context .east at west since are not taken back" in line


class OldSource:
    """Fences of a switch and a rescue, and an application that may write but for these."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.is_silent = False
        self.fences = {
            each: AclBinding(AclRule("User:*", Operation.WRITE, TOPIC, each)) for each in PURPOSES
        }

    def fence(self, *given: Any) -> Any:
        purpose = given[-1]

        def lift(topics: Collection[TopicName], others: Collection[TopicName]) -> None:
            assert (set(topics), set(others)) == ({KEPT}, {ANEW})
            self.done.append(f"{purpose} lifted")

        return SimpleNamespace(laid=lambda: frozenset({self.fences[purpose]}), open=lift)

    def rules(self, _: object) -> Any:
        users = [AclBinding(AclRule(f"User:{who}", Operation.WRITE, TOPIC, KEPT)) for who in USERS]
        shown = frozenset({*self.fences.values(), *users})
        return SimpleNamespace(
            all_rules=lambda: {1: shown},
            may_alter=lambda: True,
            authorizer=lambda: Authorizer("Standard", frozenset(), opens_without_rules=False),
            topics=lambda: frozenset({KEPT}),
        )

    def protection(self, *_: object) -> Any:
        def put_up(wanted: Collection[AclBinding]) -> Any:
            [rule] = wanted
            assert (rule.rule.principal, rule.permission) == ("User:app", Permission.DENY)
            self.done.append("protected")
            missing = {1: "silent"} if self.is_silent else {}
            return SimpleNamespace(missing=missing, text=lambda: "broker 1: silent")

        return SimpleNamespace(laid=frozenset(), put_up=put_up)


@pytest.mark.parametrize("protects", [True, False])
def test_mirrors_are_protected_before_the_fence_goes(
    monkeypatch: pytest.MonkeyPatch, *, protects: bool
) -> None:
    """Given a way back that protects its mirrors / when the source is opened / then its rules are

    laid first, as if the fences' were not there; while a broker does not show them both stay.
    """
    source = OldSource()
    book = SimpleNamespace(
        read=lambda: None,
        close=lambda: None,
        wishes=SimpleNamespace(promotions={KEPT: None, ANEW: None}),
        others=lambda _: frozenset(),
    )
    for module, name, stand_in in (
        (written, "SourceFence", source.fence),
        (written, "WishBook", lambda *_: book),
        (protection, "RuleBook", lambda *_: book),
        (protection, "ClusterRules", source.rules),
        (protection, "Fence", source.protection),
        (protection, "naming_of", lambda _: SimpleNamespace(rule="${topic}")),
    ):
        monkeypatch.setattr(module, name, stand_in)
    topics, state = SimpleNamespace(protect=protects), SimpleNamespace(replication_factor=1)
    back = SimpleNamespace(name="back", target="east", topics=topics, state=state)
    security = SimpleNamespace(known_principal="User:link")
    config: Any = SimpleNamespace(clusters={"east": SimpleNamespace(security=security)})
    admin = SimpleNamespace(cluster_id=lambda: "old")
    clusters: Any = SimpleNamespace(link=back, target=admin, target_access=None, source_access=None)
    there: Any = SimpleNamespace(name="there")
    written.open_source(config, there, clusters, [KEPT])
    first = ["protected"] if protects else []
    assert source.done == [*first, "switch lifted", "rescue lifted"]
    if protects:
        source.done.clear()
        source.is_silent = True
        with pytest.raises(ConnectionLost):
            written.open_source(config, there, clusters, [KEPT])
        assert source.done == ["protected"]
