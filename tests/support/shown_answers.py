"""Invented answers of clusters for the shown links; of other links the clusters do not answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from heliostat.config import Config, LinkConfig
from heliostat.gaps.choices import Cause, GapChoice
from heliostat.gaps.dead_letters import DeadLetter
from heliostat.gaps.ledger import GapRow
from heliostat.groups.plan import GroupDecision
from heliostat.groups.values import CommitDecision, Reason, Skip
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate import schemas
from heliostat.operate.gaps import GapReport, PendingDecision
from heliostat.operate.groups import GroupView, LinkGroups
from heliostat.serve import gaps_routes, groups_routes, plans_routes
from heliostat.topics.topic_plan import CreateTopic, GrowTopic, RefusedTopic, TopicPlan

ANSWERED = "summit-to-usdf"
TOPICS = [TopicName(f"lsst.sal.{name}") for name in ("ATCamera.elevation", "ESS.airFlow", "X.y")]
WHY = {
    Reason.SYNCED: "the target has the offset",
    Reason.NOT_LANDED: "the record is not at the target yet; published up to the mirror's end",
    Reason.ACTIVE_AT_TARGET: "the group has members at the target",
    Reason.NOT_MIRRORED: "the topic has no mirror of this link",
}
HOUR_MS = 3_600_000


def install() -> None:
    """Put them in place of the verbs, for one link."""
    for module, name, invented in (
        (groups_routes, "group_views", groups),
        (gaps_routes, "gap_reports", _gaps),
        (gaps_routes, "letters_of", _letters),
        (plans_routes, "plan_link", _plan),
        (schemas, "link_schemas", _schemas),
    ):
        setattr(module, name, for_one(getattr(module, name), invented))


def for_one(verb: Callable[..., Any], invented: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verb that has invented answers for the shown link, and its own for others."""

    def ask(config: Config, link: LinkConfig | str, *more: Any, **words: Any) -> Any:
        name = link if isinstance(link, str) else link.name
        return invented(*more, **words) if name == ANSWERED else verb(config, link, *more, **words)

    return ask


def groups(group: str | None = None) -> list[LinkGroups]:
    kinds = (
        ("archiver", (Reason.SYNCED, Reason.NOT_LANDED)),
        ("telegraf-ESS", (Reason.ACTIVE_AT_TARGET, Reason.SYNCED, Reason.NOT_MIRRORED)),
        *((f"telegraf-{n:03}", (Reason.SYNCED,)) for n in range(250)),
    )
    views = [
        GroupView(GroupId(name), None, "include .*", _decided(name, why)) for name, why in kinds
    ]
    views.append(
        GroupView(GroupId("console-consumer-4711"), Skip.EXCLUDED, "exclude console-.*", None)
    )
    some = tuple(view for view in views if group in {None, view.group})
    return [LinkGroups(LinkName(ANSWERED), True, some, {})]


def _decided(name: str, reasons: tuple[Reason, ...]) -> GroupDecision:
    rows = []
    for topic, reason in zip(TOPICS, reasons, strict=False):
        there = TopicPartition(topic, PartitionId(0))
        again = (
            120
            if reason is Reason.NOT_LANDED
            else 4_096
            if reason is Reason.ACTIVE_AT_TARGET
            else 0
        )
        target = None if reason is Reason.NOT_MIRRORED else there
        offsets = Offset(81_204), Offset(81_204 - again), Offset(81_204)
        row = CommitDecision(there, target, *offsets, again, reason, WHY[reason])
        rows.append(replace(row, reread_now=None if target is None else again))
    return GroupDecision(GroupId(name), None, None, tuple(rows))


def _gaps(*_: str) -> list[GapReport]:
    now_ms = int(time.time() * 1000)
    rows = tuple(
        GapRow(
            *(TOPICS[n % 3], PartitionId(0), Offset(8_804), Offset(10_003 + n), 1_200 + n),
            *(
                Cause.SOURCE_OVERTOOK,
                now_ms - n * HOUR_MS,
                GapChoice.CONTINUE,
                "user ops",
                TOPICS[0],
            ),
        )
        for n in range(4)
    )
    partition, text = PartitionId(0), "records 8804 to 10003 are gone at the source"
    since_ms, code = now_ms - 240_000, "SOURCE_OVERTOOK"
    stop = PendingDecision(TOPICS[0], partition, "gap", code, text, since_ms, None, Offset(8_804))
    refused = "the topic was deleted and created again at the source"
    whole = PendingDecision(TOPICS[1], None, "refused", "source_recreated", refused, None, None)
    return [GapReport(LinkName(ANSWERED), "stop", rows, (stop, whole))]


def _letters(*where: Any) -> list[DeadLetter]:
    value = b'{"temperature": 12.4, "unit": "\xc2\xb0C"}', bytes(range(64))
    put_ms = int(time.time() * 1000) - HOUR_MS
    letters = [
        DeadLetter(
            source=TopicPartition(TOPICS[n], PartitionId(0)),
            offset=Offset(41_022 + n),
            last=Offset(41_022 + n),
            is_batch=False,
            timestamp_ms=put_ms,
            key=b"ESS:1",
            value=value[n],
            headers=(("source", b"ESS"),),
            cause=Cause.RECORD_TOO_LARGE,
            reason="it has 1,310,720 bytes, the target accepts 1,048,588",
            mirror=TOPICS[n],
            decided_by="policy",
            at_ms=put_ms,
        )
        for n in range(2)
    ]
    return [
        each
        for each in letters
        if not where or (each.source.topic, each.source.partition, each.offset) == where
    ]


def _plan() -> TopicPlan:
    hint = "heliostat resolve decides what becomes of the mirror"
    return TopicPlan(
        create=(CreateTopic(TOPICS[0], TOPICS[0], 4, 3, {"retention.ms": "604800000"}),),
        grow=(GrowTopic(TOPICS[1], TOPICS[1], 4, 8),),
        refuse={TOPICS[2]: RefusedTopic("source_recreated", "it was created again", hint)},
        notes=("lsst.sal.Test.ackcmd is gone at the source; its mirror stays",),
    )


def _schemas() -> list[Any]:
    states = ("mirrored", "mirrored", "mapped", "missing", "refused")
    versions = [
        {
            "subject": f"{TOPICS[n % 3]}-value",
            "version": n + 1,
            "id": 40 + n,
            "is_deleted": n == 1,
            "state": state,
            "target_subjects": []
            if state in {"missing", "refused"}
            else [f"{TOPICS[n % 3]}-value"],
            "target_id": None if state in {"missing", "refused"} else 40 + n,
            "code": "INCOMPATIBLE" if state == "refused" else "",
            "reason": "the target's registry does not accept it" if state == "refused" else "",
            "hint": "",
        }
        for n, state in enumerate(states)
    ]
    answer = {"strategy": "preserve", "in_sync": False, "versions": versions, "derived": []}
    return [SimpleNamespace(to_json=lambda: answer)]
