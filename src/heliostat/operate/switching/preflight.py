"""All that may be in the way of a switch, at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from heliostat.config import LinkConfig
from heliostat.fencing import DenyRules
from heliostat.handover.desk import (
    GROUPS_APART,
    TRANSACTIONS_UNKNOWN,
    Copied,
    GroupsSeen,
    OpenTransactions,
    Problem,
    Weight,
)
from heliostat.handover.steps import first_of
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.names import TopicName
from heliostat.operate.acls import Grant
from heliostat.operate.switching.rights import problems_of_rights
from heliostat.state.link_state import Stored
from heliostat.status.values import LinkStatus, PartitionProblem, state_words

STOPPED_HINT = "`heliostat explain` and `heliostat gaps` say what to do"


def all_problems(
    link: LinkConfig,
    topics: Collection[TopicName],
    *,
    status: LinkStatus,
    stored: Stored,
    copied: Copied,
    transactions: OpenTransactions,
    deny: DenyRules,
    groups: GroupsSeen,
    missing: Collection[tuple[Grant, str]],
) -> list[Problem]:
    """Return all problems, those that stop a switch first."""
    every = [
        *_promoted(stored, topics),
        *link_problems(status, topics),
        *(partition_problem(each) for each in status.problems if each.source in topics),
        *_unknown(copied),
        *_one_way(link, stored, topics),
        *_of_schemas(link),
        *_of_transactions(transactions),
        *problems_of_rights(missing),
        *_of_fence(deny),
        *_of_groups(groups),
    ]
    order = list(Weight)
    return sorted(every, key=lambda each: order.index(each.weight))


def _promoted(stored: Stored, topics: Collection[TopicName]) -> Iterator[Problem]:
    if given := sorted(set(topics) & stored.promoted.keys()):
        yield Problem(
            "promoted",
            f"no mirrors any more: {', '.join(given)}",
            "leave these topics out",
            Weight.STOPS,
        )


def link_problems(status: LinkStatus, topics: Collection[TopicName]) -> Iterator[Problem]:
    """Yield why nothing of these topics is copied at all: by the link, a wish, or a refusal."""
    if status.state != "running":
        hint = "the last records are to be copied: `heliostat run`, `start` or `resume` the link; "
        hint += "with a source that is gone, `heliostat failover`"
        yield Problem("not_running", status.state_in_words(), hint, Weight.STOPS)
    paused = [
        str(each["place"])
        for each in status.paused
        if str(each["place"]) in topics or str(each["place"]).rpartition("-")[0] in topics
    ]
    if paused:
        text = f"paused: {', '.join(paused)}"
        yield Problem("paused", text, "`heliostat resume` them", Weight.STOPS)
    for topic, why in status.refused.items():
        if topic in topics:
            hint = "solve it, or leave the topic out"
            yield Problem("refused", f"the link refuses {topic}: {why}", hint, Weight.STOPS)


def partition_problem(found: PartitionProblem) -> Problem:
    """Return that a partition is not copied as it should be, with the code of it."""
    text = f"{found.source}-{found.partition} is {state_words(found.state)}: {found.reason}"
    return Problem(found.code or "not_copied", text, STOPPED_HINT, Weight.STOPS)


def _unknown(copied: Copied) -> Iterator[Problem]:
    if copied.unknown:
        lines = [f"{partition}: {why}" for partition, why in sorted(copied.unknown.items())]
        hint = "`heliostat status` shows them; a link that has just begun reports within seconds"
        yield Problem("lag_unknown", f"lag unknown: {first_of(lines)}", hint, Weight.STOPS)


def _one_way(link: LinkConfig, stored: Stored, topics: Collection[TopicName]) -> Iterator[Problem]:
    piped = [topic for topic in sorted(topics) if pipeline_of(link, topic)]
    shared = [
        topic
        for topic in sorted(topics)
        if topic in stored.mirrors and stored.mirrors[topic].slot.is_shared
    ]
    hint = "`heliostat reverse` can't turn them back; go on with --accept one_way"
    if piped:
        text = f"rewritten or filtered by pipelines: {', '.join(piped)}"
        yield Problem("one_way", text, hint, Weight.ASKS)
    if shared:
        text = f"in a slot of a topic that several sources share: {', '.join(shared)}"
        yield Problem("one_way", text, hint, Weight.ASKS)


def _of_schemas(link: LinkConfig) -> Iterator[Problem]:
    if link.schemas.strategy == "rewrite" and not link.topics.merges:  # no way back to tell of
        yield Problem(
            "other_ids",
            "records have schema ids of the target's own (schemas.strategy: rewrite)",
            "only a way back with rewrite gives them the source's again; any other is refused",
            Weight.TOLD,
        )


def _of_transactions(seen: OpenTransactions) -> Iterator[Problem]:
    if seen.unknown:
        yield Problem(
            TRANSACTIONS_UNKNOWN,
            f"open transactions can't be told: {first_of(seen.unknown)}",
            "grant Read on these topics; brokers before 2.8 don't tell, then end transactional "
            "producers by hand and go on with --accept transactions_unknown",
            Weight.ASKS,
        )
    if seen.lines:
        hint = "they are waited for; end or abort those that hang (kafka-transactions.sh)"
        yield Problem("open_transactions", first_of(seen.lines), hint, Weight.TOLD)


def _of_fence(deny: DenyRules) -> Iterator[Problem]:
    for each in deny.cannot:
        text = f"can't be fenced by rules: {each.text()}"
        hint = "stop these producers when the run says so; their ends must stand still"
        yield Problem("not_fenced", text, hint, Weight.TOLD)


def _of_groups(groups: GroupsSeen) -> Iterator[Problem]:
    if not groups.is_synced:
        hint = "set groups.sync, or move their offsets with `heliostat offsets`"
        yield Problem("groups_not_synced", "groups are not synced", hint, Weight.TOLD)
    if groups.reading:
        text = f"groups read at the source: {first_of(groups.reading)}"
        yield Problem("groups_reading", text, "stop them when the run says so", Weight.TOLD)
    if again := groups.reread_lines():
        text = f"groups read records again at the target: {first_of(again)}"
        hint = "the other site's records lie between theirs; nothing is skipped"
        yield Problem("groups_read_again", text, hint, Weight.TOLD)
    if groups.apart:
        text = f"groups that the link does not sync read at the source: {first_of(groups.apart)}"
        hint = "stop them, too, when the run says so; it does not wait for them with --accept "
        yield Problem(GROUPS_APART, text, hint + GROUPS_APART, Weight.TOLD)
