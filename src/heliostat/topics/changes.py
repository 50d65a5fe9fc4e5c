"""A plan for topics as changes, one for each item; and the plan without what deletes; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from heliostat.changes import Change
from heliostat.names import TopicName
from heliostat.topics.topic_plan import SetConfigs, TopicPlan, created_text
from heliostat.topics.values import MirrorRecord

CREATE, GROW, SET, UNSET = "create_topic", "grow_topic", "set_config", "unset_config"
REMEMBER, LET_GO = "remember_mirror", "let_go_mirror"


def topic_changes(plan: TopicPlan) -> tuple[Change, ...]:
    """Return what a plan changes, in the order of execution."""
    return tuple(_changes(plan))


def _changes(plan: TopicPlan) -> Iterator[Change]:
    for new in plan.create:
        why = f"{new.source} is selected, and has no mirror"
        yield Change(CREATE, new.target, created_text(new), why)
    for grown in plan.grow:
        what = f"grow {grown.target}: {grown.has} → {grown.wants} partitions"
        yield Change(GROW, grown.target, what, f"{grown.source} has more")
    for configured in plan.configure:
        yield from _settings(configured)
    targets = {topic.target for topic in plan.create} | {topic.target for topic in plan.configure}
    for record in plan.remember:
        if record.target not in targets:
            what = f"remember {record.target} as the mirror of {record.source}"
            yield Change(
                REMEMBER, record.target, what, "the link's state says otherwise, or nothing"
            )
    for name in plan.let_go:
        what = f"let go of the mirror of {name}"
        yield Change(LET_GO, name, what, "another link has it", is_deletion=True)


def _settings(configured: SetConfigs) -> Iterator[Change]:
    for key, value in configured.changes.items():
        was, why = configured.was.get(key), configured.why.get(key, "")
        item = f"{configured.target}: {key}"
        if value is None:
            what = f"unset {key} (was {was}) of {configured.target}"
            yield Change(UNSET, item, what, why, is_deletion=True)
        else:
            yield Change(SET, item, f"set {key}={value} (was {was}) of {configured.target}", why)


def without_deletions(plan: TopicPlan, records: Mapping[TopicName, MirrorRecord]) -> TopicPlan:
    """Return the plan without settings to unset and mirrors to let go.

    A setting that stays is still known as set by the link, so that it can be unset later.
    """
    kept: dict[TopicName, set[str]] = {}
    configure: list[SetConfigs] = []
    for change in plan.configure:
        unset = {key for key, value in change.changes.items() if value is None}
        if unset:
            kept[change.source] = unset
        changes = {key: value for key, value in change.changes.items() if value is not None}
        if changes:
            configure.append(replace(change, changes=changes))
    remember = []
    for record in plan.remember:
        before = records.get(record.source)
        still = kept.get(record.source, set()) & set(
            () if before is None else before.synced_configs
        )
        synced = tuple(sorted({*record.synced_configs, *still}))
        fresh = replace(record, synced_configs=synced) if still else record
        if fresh != before:
            remember.append(fresh)
    return replace(plan, configure=tuple(configure), remember=tuple(remember), let_go=())
