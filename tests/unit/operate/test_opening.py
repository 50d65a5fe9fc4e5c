"""Rights and registry of a target, opened to producers by a failover whose source is dead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from heliostat.clusters.acl import AclBinding, AclRule, Operation, ResourceKind
from heliostat.errors import BrokerError, ConnectionLost, RegistryUnreachable
from heliostat.handover.failover import NOT_OPEN, FailoverReport
from heliostat.handover.fence_forecast import FenceForecast
from heliostat.handover.opening import Part
from heliostat.handover.promotion import (
    FencedBy,
    MirrorEnds,
    PartitionPromotion,
    PromotedBy,
    Promotion,
)
from heliostat.handover.still_open import StillOpen
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate import failover as verb
from heliostat.operate import opening
from heliostat.operate import schemas as registries
from heliostat.operate import subject_modes as modes
from heliostat.operate.promotion import Promoted
from heliostat.schemas.opening import ModeChange, NotChanged, OpeningPlan
from heliostat.schemas.registry.values import Mode, Subject
from heliostat.security.granting import Granted
from heliostat.state.promotions import PromotedMirror
from heliostat.topics.values import MirrorRecord

MOVED, KEPT = TopicName("moved"), TopicName("kept")
WRITE = AclBinding(AclRule("User:app", Operation.WRITE, ResourceKind.TOPIC, "moved"))
DENIED = BrokerError("CreateAcls was refused", kafka_code=31, kafka_name="CLUSTER_AUTHORIZATION")
UNREACHABLE = RegistryUnreachable("no address answers")
AT = PartitionPromotion(Offset(5), Offset(5))
ENDS = MirrorEnds(MOVED, ClusterId("a"), ClusterId("b"), None, None, {PartitionId(0): AT})


def record(name: TopicName) -> MirrorRecord:
    return MirrorRecord(name, name, UUID(int=1), UUID(int=2), ClusterId("a"), "earliest", 1)


class Target:
    """What lies at the target, and what fails there."""

    def __init__(self) -> None:
        self.rows: dict[TopicName, Promotion] = {}
        self.mirrors = {name: record(name) for name in (MOVED, KEPT)}
        self.is_given_up = True
        """Whether the link's state says so: a silent driver's does not."""
        self.granted = 0
        self.denied: dict[AclBinding, BrokerError] = {}
        self.down: dict[Part, Exception] = {}
        self.closed: set[Subject] = {Subject("moved-value")}
        self.is_locked = False
        self.held: dict[TopicPartition, int] = {}

    def stored(self) -> Any:
        given = self.rows if self.is_given_up else {}
        former = {name: PromotedMirror(each, record(name)) for name, each in given.items()}
        mirrors = {name: each for name, each in self.mirrors.items() if name not in former}
        return SimpleNamespace(mirrors=mirrors, promoted=former)

    def promote(self, *_: object, still_open: Mapping[TopicName, StillOpen], **__: Any) -> Promoted:
        found = still_open.get(MOVED, StillOpen())
        new = Promotion(MOVED, PromotedBy.FAILOVER, "ann", 1, "", ENDS, still_open=found)
        row = self.rows.get(MOVED) or new
        self.rows[MOVED] = row
        return Promoted((row,), FencedBy.OWNER, {})

    def grant(self, _config: object, _link: object, topics: Collection[TopicName]) -> Granted:
        assert self.rows.keys() >= set(topics), "it is granted before the mirror is given away"
        if Part.RIGHTS in self.down:
            raise self.down[Part.RIGHTS]
        self.granted += 1
        return Granted([] if self.denied else [WRITE], self.denied)

    def plan(self, _link: object, mirrors: Collection[TopicName], *_: object) -> OpeningPlan:
        assert MOVED in mirrors
        if Part.REGISTRY in self.down:
            raise self.down[Part.REGISTRY]
        return OpeningPlan(tuple(ModeChange(e, Mode.IMPORT, Mode.READWRITE) for e in self.closed))

    def change(self, plan: OpeningPlan, _: object) -> OpeningPlan:
        if self.is_locked:
            kept = [NotChanged(each.scope, each.was, "locked", "ask") for each in plan.changes]
            return OpeningPlan((), tuple(kept))
        self.closed -= {each.scope for each in plan.changes}
        return plan


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    there = Target()
    book = SimpleNamespace(
        read=lambda: None,
        wishes=SimpleNamespace(promotions=there.rows),
        write=lambda rows: there.rows.update({each.topic: each for each in rows}),
    )
    board = SimpleNamespace(held=lambda: there.held)
    reader = SimpleNamespace(board=board, seen_at_ms=lambda _: 0)

    @contextmanager
    def desk(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(
            link=LinkName("l"), book=book, reader=reader, clock=None, target=None, is_reported=False
        )

    @contextmanager
    def both(*_: object) -> Iterator[Any]:
        yield None, None

    state = SimpleNamespace(read=there.stored, close=lambda: None)
    admin = SimpleNamespace(describe_topics=lambda: [MOVED, KEPT], close=lambda: None)
    status = SimpleNamespace(
        state="running", held_back=[], failover_fence=FenceForecast(FencedBy.OWNER, 5.0)
    )
    places: dict[tuple[Any, str], Any] = {
        (verb, "wish_desk"): desk,
        (verb, "LinkState"): lambda *_: state,
        (verb, "ClusterAdmin"): lambda *_: admin,
        (verb, "_status"): lambda *_: status,
        (verb, "_groups"): lambda *_: (),
        (verb, "ends_now"): lambda *_: {MOVED: ENDS},
        (verb, "promote"): there.promote,
        (opening, "grant_rights"): there.grant,
        (opening, "rights_to_grant"): lambda *_: [WRITE],
        (registries, "registries_of"): both,
        (modes, "planned_modes"): there.plan,
        (modes, "change_modes"): there.change,
    }
    for (module, name), stand_in in places.items():
        monkeypatch.setattr(module, name, stand_in)
    return there


def called(*, dry_run: bool = False, sync_acls: bool = True, strategy: str = "preserve") -> Any:
    config: Any = None
    link: Any = SimpleNamespace(
        name="l",
        access=SimpleNamespace(sync_acls=sync_acls),
        schemas=SimpleNamespace(strategy=strategy),
        groups=SimpleNamespace(sync=False),
        topics=SimpleNamespace(merges=False),
    )
    return verb.failover(config, link, [MOVED], by="ann", dry_run=dry_run)


def codes(report: FailoverReport) -> dict[str, str | None]:
    return {each["part"]: each["code"] for each in report.to_json()["opening"]}


def test_a_failover_opens_rights_and_registry_each_time_it_is_called(target: Target) -> None:
    """Given what was held back and closed / when it is tried, called, and called again / then it is

    told, done, done once more, and noted with the promotion.
    """
    tried = called(dry_run=True)
    texts = [each.text for each in tried.opening]
    assert texts == ["1 rules would be granted", "1 subjects would be opened"]
    assert (target.granted, len(target.closed), target.rows) == (0, 1, {})
    assert not tried.is_target_open
    done = called()
    texts = [each.text for each in done.opening]
    assert texts == ["1 rules granted", "1 subjects opened"]
    assert (target.granted, target.closed) == (1, set())
    assert done.is_target_open
    assert target.rows[MOVED].is_target_open
    target.closed = {Subject("moved-key")}
    assert called().is_target_open
    assert (target.granted, target.closed) == (2, set())


@pytest.mark.parametrize(
    ("part", "fails", "code"),
    [
        (Part.RIGHTS, lambda t: t.down.update({Part.RIGHTS: ConnectionLost("gone")}), None),
        (Part.RIGHTS, lambda t: t.denied.update({WRITE: DENIED}), DENIED.kafka_name),
        (Part.REGISTRY, lambda t: t.down.update({Part.REGISTRY: UNREACHABLE}), None),
        (Part.REGISTRY, lambda t: setattr(t, "is_locked", True), opening.REFUSED),
    ],
    ids=["broker gone", "denied", "registry gone", "mode refused"],
)
def test_a_part_that_fails_undoes_nothing_and_is_told(
    target: Target, part: Part, fails: Callable[[Target], object], code: str | None
) -> None:
    """Given a part that can't be opened / when failed over / then the mirror is given away, the

    other part is open, the report says so with code and hint, and the next call does what is left.
    """
    fails(target)
    report = called()
    down = target.down.get(part)
    expected = code or getattr(down, "code", "")
    assert codes(report) == {part.value: expected, (set(Part) - {part}).pop().value: None}
    assert not report.is_target_open
    assert opening.AGAIN in "\n".join(report.lines())
    assert NOT_OPEN in report.markdown()
    assert target.rows[MOVED].ends == ENDS
    assert not target.rows[MOVED].is_target_open
    target.down.clear()
    target.denied.clear()
    target.is_locked = False
    assert called().is_target_open
    assert (bool(target.granted), target.closed) == (True, set())


def test_mirrors_that_a_silent_driver_has_not_given_up_yet_are_opened(target: Target) -> None:
    """Given a link that rules keep out, whose state has the mirror still / then it is opened."""
    target.is_given_up = False
    assert called().is_target_open
    assert not target.closed


def test_what_is_not_configured_is_told(target: Target) -> None:
    report = called(sync_acls=False, strategy="off")
    assert report.is_target_open
    assert all(each.text.startswith(opening.NOT_CONFIGURED) for each in report.opening)
    assert (target.granted, len(target.closed)) == (0, 1)


def test_what_was_open_at_the_source_is_told_each_time(target: Target) -> None:
    """Given records that a transaction holds back / when failed over, twice, and asked / then it is

    told, though the link's lanes have nothing to report any more.
    """
    target.held = {
        TopicPartition(MOVED, PartitionId(0)): 9,
        TopicPartition(KEPT, PartitionId(0)): 1,
    }
    assert called(dry_run=True).transactions == StillOpen((), 1)
    assert called().transactions == StillOpen((), 1)
    target.held = {}
    config: Any = None
    link: Any = SimpleNamespace(groups=SimpleNamespace(sync=False))
    for report in (called(), called(dry_run=True), verb.last_failover(config, link)):
        assert report.transactions == StillOpen((), 1)
        assert "hold back records" in report.markdown()
