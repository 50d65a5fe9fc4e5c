"""What is in the way of a switch: all of it at once, and what it means for the run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import pytest

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.admin.right_calls import May, Right
from heliostat.config import Config, LinkConfig
from heliostat.fencing import Cannot, DenyRules, Why
from heliostat.handover.desk import Copied, GroupsSeen, OpenTransactions, Problem, Weight
from heliostat.handover.promotion import PromotedBy, Promotion
from heliostat.names import ClusterId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.switching.preflight import all_problems
from heliostat.operate.switching.rights import for_switch, missing_rights
from heliostat.operate.verb_acls import grants_of_verbs
from heliostat.slots import Slot
from heliostat.state.link_state import Stored
from heliostat.state.promotions import PromotedMirror
from heliostat.status.board import StatusBoard
from heliostat.status.values import LinkStatus, PartitionProblem
from heliostat.topics.values import MirrorRecord

ORDERS, PAYMENTS = TopicName("orders"), TopicName("payments")
CLUSTERS = {alias: {"bootstrap": [f"{alias}:9092"]} for alias in ("a", "b")}
LINK = LinkConfig.model_validate({"name": "l", "source": "a", "target": "b"})


def status(**changes: Any) -> LinkStatus:
    return replace(StatusBoard(LinkName("l")).status(0), state="running", **changes)


def record(topic: TopicName, slot: Slot) -> MirrorRecord:
    return MirrorRecord(topic, topic, None, None, ClusterId("c"), "earliest", 1, slot=slot)


def problems(link: LinkConfig = LINK, **changes: Any) -> list[Problem]:
    known: dict[str, Any] = {
        "status": status(),
        "stored": Stored(),
        "copied": Copied(),
        "transactions": OpenTransactions(),
        "deny": DenyRules(),
        "groups": GroupsSeen(is_synced=True),
        "missing": (),
        **changes,
    }
    return all_problems(link, (ORDERS, PAYMENTS), **known)


def test_nothing_is_in_the_way_of_a_link_that_is_well() -> None:
    assert problems() == []


def test_all_problems_are_told_at_once_those_that_stop_it_first() -> None:
    told = problems(
        status=replace(status(), state="no_owner"),
        copied=Copied(unknown={TopicPartition(ORDERS, PartitionId(0)): "not reported"}),
        transactions=OpenTransactions(
            ("orders-0: a transaction is open",), ("payments-0: no right",)
        ),
        deny=DenyRules(cannot=(Cannot(Why.NO_AUTHORIZER),)),
        groups=GroupsSeen(
            is_synced=True,
            reading=("billing (app at 10.0.0.7)",),
            apart=("audit",),
            rereads={"billing": 1204},
        ),
    )
    assert [(each.code, each.weight) for each in told] == [
        ("not_running", Weight.STOPS),
        ("lag_unknown", Weight.STOPS),
        ("transactions_unknown", Weight.ASKS),
        ("open_transactions", Weight.TOLD),
        ("not_fenced", Weight.TOLD),
        ("groups_reading", Weight.TOLD),
        ("groups_read_again", Weight.TOLD),
        ("groups_apart", Weight.TOLD),
    ]
    assert all(each.text and each.hint for each in told)


@pytest.mark.parametrize("place", ["orders", "orders-3"])
def test_what_rests_is_not_switched(place: str) -> None:
    [told] = problems(status=status(paused=[{"place": place}]))
    assert (told.code, told.weight) == ("paused", Weight.STOPS)
    assert place in told.text
    assert problems(status=status(paused=[{"place": "others-3"}])) == []


def test_what_is_stopped_or_refused_is_named_with_its_reason() -> None:
    stopped = PartitionProblem(
        "orders", 1, "stopped", "RECORD_TOO_LARGE", "a record is too large", 0, 7, True
    )
    other = replace(stopped, source="others")
    told = problems(status=status(problems=[stopped, other], refused={"payments": "it is foreign"}))
    assert [each.code for each in told] == ["refused", "RECORD_TOO_LARGE"]
    assert "orders-1 is stopped: a record is too large" in told[1].text


def test_mirrors_that_cannot_be_turned_back_are_to_be_accepted() -> None:
    piped = LinkConfig.model_validate(
        {
            "name": "l",
            "source": "a",
            "target": "b",
            "pipelines": [
                {"name": "p", "topics": ["orders"], "steps": [{"where": "value IS NOT NULL"}]}
            ],
        }
    )
    stored = Stored(mirrors={PAYMENTS: record(PAYMENTS, Slot(0, 2))})
    told = problems(piped, stored=stored)
    assert [(each.code, each.weight) for each in told] == [("one_way", Weight.ASKS)] * 2
    assert "orders" in told[0].text
    assert "payments" in told[1].text


def test_what_was_given_away_is_not_switched_again() -> None:
    former = PromotedMirror(Promotion(ORDERS, PromotedBy.SWITCH, "x", 0), None)
    [told] = problems(stored=Stored(promoted={ORDERS: former}))
    assert (told.code, told.weight) == ("promoted", Weight.STOPS)


def test_groups_that_are_not_synced_are_told() -> None:
    told, read = problems(groups=GroupsSeen(is_synced=False, apart=("audit (app at 10.0.0.9)",)))
    assert (told.code, told.weight) == ("groups_not_synced", Weight.TOLD)
    assert (read.code, read.weight) == ("groups_apart", Weight.TOLD)
    assert "audit (app at 10.0.0.9)" in read.text
    assert "--accept groups_apart" in read.hint


def test_ids_of_the_targets_own_are_told() -> None:
    """Given a link that rewrites schema ids / when it is to be switched / then only a way back that

    does so, too, turns its mirrors round: it is told. No way turns merged topics round.
    """
    settings: dict[str, Any] = {"name": "l", "source": "a", "target": "b"}
    settings["schemas"] = {"strategy": "rewrite"}
    [told] = problems(LinkConfig.model_validate(settings))
    assert (told.code, told.weight) == ("other_ids", Weight.TOLD)
    settings["topics"] = {"naming": "merge"}
    assert not problems(LinkConfig.model_validate(settings))


class Brokers:
    """Answers for one side: what is refused, by name."""

    def __init__(self, *refused: str) -> None:
        self._refused = refused

    def may(self, rights: Collection[Right]) -> May:
        return {right: right.name not in self._refused for right in rights}


def test_rights_that_are_missing_are_named_at_both_sides() -> None:
    link = {**LINK.model_dump(), "topics": {"include": [ORDERS, PAYMENTS]}}
    config = Config.model_validate({"clusters": CLUSTERS, "links": [link]})
    brokers = Brokers(ORDERS), Brokers("heliostat.l.run")
    source, target = (cast("ClusterAdmin", each) for each in brokers)
    mirrors = {ORDERS: ORDERS, PAYMENTS: PAYMENTS}
    missing = missing_rights(config, config.links[0], mirrors, source, target)
    run, own = problems(missing=missing)
    assert (run.code, run.weight) == ("right_missing", Weight.STOPS)
    assert "Write on transactional-id heliostat.l.run at the target" in run.text
    assert (own.code, own.weight) == ("right_missing", Weight.TOLD)
    assert "Read on topic orders at the source" in own.text
    assert "payments" not in own.text


@pytest.mark.parametrize("sees_all", [True, False])
def test_groups_that_can_not_be_seen_are_missed_unless_they_may_read_on(*, sees_all: bool) -> None:
    config = Config.model_validate({"clusters": CLUSTERS, "links": [LINK.model_dump()]})
    source, target = (
        cast("ClusterAdmin", each) for each in (Brokers("heliostat.probe"), Brokers())
    )
    missing = missing_rights(config, LINK, {}, source, target, sees_all=sees_all)
    named = ["Describe on group * at the source"] if sees_all else []
    assert [text for _, text in missing] == named


def test_what_a_drill_or_a_way_back_needs_is_not_missed_by_a_switch() -> None:
    config = Config.model_validate({"clusters": CLUSTERS, "links": [LINK.model_dump()]})
    for side in map(for_switch, grants_of_verbs(config, LINK)):
        assert {grant.verb for grant in side.grants} <= {"", "switch"}
        assert not any("drill" in grant.rule.name for grant in side.grants)
