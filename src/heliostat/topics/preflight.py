"""Refuses what would make a mirror wrong or its appends fail, before any change; pure."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.config import LinkConfig
from heliostat.names import LinkName, TopicName, is_another
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.begin import BEGUN, Begin
from heliostat.topics.configs import (
    MESSAGE_BYTES,
    WantedConfigs,
    goal_at_mirror,
    source_message_bytes,
)
from heliostat.topics.naming import name_problem
from heliostat.topics.topic_plan import RefusalCode, RefusedTopic
from heliostat.topics.values import (
    MirrorRecord,
    SourceTopic,
    SourceTopics,
    TargetTopic,
    TargetTopics,
)

_ANEW = "rename or delete the target topic to mirror it again from the start"


def _choices(case: Case) -> str:
    """Return the hint for what an operator decides: nothing need be deleted by hand."""
    return f"heliostat resolve {case.topic.name} shows each choice, and what it would cost"


@dataclass(frozen=True, slots=True)
class Case:
    """One source topic with all that the decision on its mirror depends on.

    Parameters
    ----------
    name
        Name of its mirror.
    slot
        Which partitions of that topic would be the mirror's.
    clash
        Another source topic whose mirror has a name that Kafka can't distinguish from `name`.
    claimed_by
        Another link that writes into a topic of that name.
    unsure
        Why it is not known whether another link does.
    begin
        Where it begins, if it is new.
    wrong_way
        Of a merged topic: which link copies into it without merging; empty: none does.
    is_unproven
        Of a merged topic: whether its row was lost with the link's state.
    """

    link: LinkConfig
    source: SourceTopics
    target: TargetTopics
    topic: SourceTopic
    name: TopicName
    slot: Slot
    record: MirrorRecord | None
    wanted: WantedConfigs
    clash: TopicName | None
    claimed_by: LinkName | None
    unsure: str | None = None
    begin: Begin = BEGUN
    wrong_way: str = ""
    is_unproven: bool = False

    @property
    def there(self) -> TargetTopic | None:
        """The target topic of that name, if it exists."""
        return self.target.topics.get(self.name)

    def value(self, key: str) -> str:
        """Value of a mirror's setting once the plan is applied; empty if not known."""
        there, wanted = self.there, self.wanted
        goal = wanted.all()
        if there is not None:
            config, leads = self.link.topics, self.slot.leads
            goal = goal_at_mirror(config, wanted, self.record, leads=leads)
        if key in goal:
            return goal[key]
        if there is None:
            return self.target.inherited.get(key) or ""
        return (there.configs[key].value or "") if key in there.configs else ""


def record_in_force(
    record: MirrorRecord | None, target: TargetTopics, name: TopicName, slot: Slot = WHOLE_TOPIC
) -> MirrorRecord | None:
    """Return the link's record of a mirror; None if that mirror is gone.

    If the target topic was deleted, or recreated and never written to, nothing is left of the
    mirror and it starts again: this can't lose or duplicate any record.
    """
    if record is None or record.target != name or name in target.unreadable:
        return record
    there = target.topics.get(name)
    if there is None:
        return None
    replaced = is_another(record.target_id, there.topic_id)
    return None if replaced and not there.was_written(slot) else record


def refusal_of(case: Case) -> RefusedTopic | None:
    """Return the first reason not to mirror a topic; None if there is none."""
    checks = (
        _internal,
        _bad_name,
        _clash,
        _two_links,
        _maybe_two_links,
        _source_changed,
        _renamed,
        _merged,
        _other_slot,
        _source_recreated,
        _target_unreadable,
        _target_recreated,
        _target_not_ours,
        _target_partitions,
        _message_bytes,
        _replicas,
        _compaction,
        _fixed_configs,
        _start,
    )
    return next((refusal for check in checks if (refusal := check(case)) is not None), None)


def _internal(case: Case) -> RefusedTopic | None:
    if not case.topic.is_internal:
        return None
    return RefusedTopic(
        RefusalCode.INTERNAL,
        "it is an internal topic of the source's brokers",
        "exclude it: each cluster writes its own",
    )


def _bad_name(case: Case) -> RefusedTopic | None:
    problem = name_problem(case.name)
    if problem is None:
        return None
    return RefusedTopic(
        RefusalCode.NAME, f"{case.name} cannot be its name: {problem}", "choose another naming"
    )


def _clash(case: Case) -> RefusedTopic | None:
    there = case.target.colliding.get(case.name)
    if there is not None:
        return RefusedTopic(
            RefusalCode.NAME_COLLISION,
            f"{case.name} differs from the target's topic {there} only in . and _, and Kafka "
            "refuses such names",
            "choose another naming, exclude it, or delete that topic if nobody needs it",
        )
    if case.clash is None:
        return None
    return RefusedTopic(
        RefusalCode.NAME_COLLISION,
        f"its mirror {case.name} and that of {case.clash} have names that Kafka cannot tell apart",
        "choose another naming, or exclude one of them",
    )


def _two_links(case: Case) -> RefusedTopic | None:
    if case.claimed_by is None:
        return None
    return RefusedTopic(
        RefusalCode.TWO_LINKS,
        f"link {case.claimed_by} writes into {case.name} as well",
        "exclude it in one of the links, give one of them a naming, or each a slot of its own "
        "(topics.fan_in); a retired link gives "
        f"up its mirrors when heliostat.{case.claimed_by}.state is deleted at the target",
    )


def _maybe_two_links(case: Case) -> RefusedTopic | None:
    if case.unsure is None:
        return None
    return RefusedTopic(
        RefusalCode.MAYBE_TWO_LINKS,
        case.unsure,
        "it continues by itself once that is known; exclude it in one of the links, or give one "
        "of them a naming of its own",
    )


def _source_changed(case: Case) -> RefusedTopic | None:
    record, now = case.record, case.source.cluster_id
    if record is None or record.source_cluster == now:
        return None
    return RefusedTopic(
        RefusalCode.SOURCE_CHANGED,
        f"{record.target} was copied from another cluster (cluster id "
        f"{record.source_cluster}, now {now})",
        "check the source's bootstrap addresses; " + _ANEW,
    )


def _renamed(case: Case) -> RefusedTopic | None:
    if case.record is None or case.record.target == case.name:
        return None
    return RefusedTopic(
        RefusalCode.RENAMED,
        f"its mirror is {case.record.target}, the naming now gives {case.name}",
        "put the naming back, or use a new link for the new names",
    )


def _merged(case: Case) -> RefusedTopic | None:
    merges, record = case.link.topics.merges, case.record
    if record is not None and record.is_merged != merges:
        was, now = ("merged", "a mirror") if record.is_merged else ("a mirror", "merged")
        return RefusedTopic(
            RefusalCode.MERGE,
            f"{case.name} was begun as {was}, and is to be {now}",
            "put topics.naming back, or use a new link"
            + (f"; `heliostat switch {case.link.name} --rolling` merges it in place" * merges),
        )
    if case.is_unproven and merges:
        return RefusedTopic(
            RefusalCode.MERGE,
            "the link's state was lost, and what it had appended here is not proven: it might "
            "append it again",
            f"`heliostat state rebuild {case.link.name}` says why; docs/merge.md what can be done",
        )
    if case.wrong_way:
        return RefusedTopic(
            RefusalCode.MERGE,
            case.wrong_way,
            "let that link merge as well, or leave the topic out of it",
        )
    there = case.there
    policy = None if there is None else there.configs.get("cleanup.policy")
    is_compacted = case.topic.is_compacted or "compact" in ((policy and policy.value) or "")
    if not merges or not is_compacted or case.link.topics.merge_compacted:
        return None
    return RefusedTopic(
        RefusalCode.MERGE,
        "it is compacted: of a key that both sites write, each might keep another last value",
        "let one site write it, and mirror it (topics.naming: same); or set "
        "topics.merge_compacted: true, if no key is written at several sites or any value will do",
    )


def _other_slot(case: Case) -> RefusedTopic | None:
    if case.record is None or case.record.slot == case.slot:
        return None
    was, now = case.record.slot, case.slot
    return RefusedTopic(
        RefusalCode.FAN_IN_CHANGED,
        f"{case.name} was created with slot {was.number} of {was.of}, topics.fan_in now says "
        f"{now.number} of {now.of}: other partitions would be used",
        "put topics.fan_in back, or use a new link and another name",
    )


def _source_recreated(case: Case) -> RefusedTopic | None:
    was = None if case.record is None else case.record.source_id
    if not is_another(was, case.topic.topic_id):
        return None
    return RefusedTopic(
        RefusalCode.SOURCE_RECREATED,
        "it was deleted and created again at the source, its offsets start again",
        _choices(case),
    )


def _target_unreadable(case: Case) -> RefusedTopic | None:
    error = case.target.unreadable.get(case.name)
    return (
        None
        if error is None
        else RefusedTopic(RefusalCode.UNREADABLE, f"the target: {error.text}", error.hint)
    )


def _target_recreated(case: Case) -> RefusedTopic | None:
    was = None if case.record is None else case.record.target_id
    now = None if case.there is None else case.there.topic_id
    if not is_another(was, now):
        return None
    return RefusedTopic(
        RefusalCode.TARGET_RECREATED,
        f"{case.name} was deleted and created again at the target and has been written to; this "
        "link's state only has a row for the earlier topic",
        _choices(case),
    )


def _target_not_ours(case: Case) -> RefusedTopic | None:
    slot = case.slot
    is_ours = case.record is not None or case.link.topics.merges
    if is_ours or case.there is None or not case.there.was_written(slot):
        return None
    if not case.there.is_known(slot):
        return RefusedTopic(
            RefusalCode.UNREADABLE,
            f"{case.name} exists at the target, but whether it has records is not known",
            "check whether all its partitions have a leader; it then continues by itself",
        )
    return RefusedTopic(
        RefusalCode.TARGET_NOT_OURS,
        f"{case.name} exists at the target and has been written to, and this link's state has no "
        "row of it as a mirror",
        f"if its records came from this source, `heliostat state rebuild {case.link.name}` proves "
        "that by contents and continues it (`heliostat adopt` if another tool copied them); "
        "else choose a naming such as {prefix: ...}, or delete the target topic",
    )


def _target_partitions(case: Case) -> RefusedTopic | None:
    if case.slot.is_shared:  # another source may have more; `two_links` checks the slots
        return None
    if case.link.topics.merges:  # the link from there adds them here
        return None
    if case.record is not None:  # its own partitions continue: nothing was copied into the others
        return None
    if case.there is None or case.there.partitions <= case.topic.partitions:
        return None
    return RefusedTopic(
        RefusalCode.TARGET_HAS_MORE_PARTITIONS,
        f"{case.name} has {case.there.partitions} partitions, the source has "
        f"{case.topic.partitions}",
        "Kafka cannot remove partitions: " + _ANEW,
    )


def _message_bytes(case: Case) -> RefusedTopic | None:
    pinned, needed = case.wanted.pinned.get(MESSAGE_BYTES), source_message_bytes(case.topic)
    if pinned is None or int(pinned) >= needed:
        return None
    return RefusedTopic(
        RefusalCode.CONFIGS,
        f"config_set pins {MESSAGE_BYTES} to {pinned}, the source's batches may have {needed}",
        f"raise it to {needed} or more",
    )


def _replicas(case: Case) -> RefusedTopic | None:
    there, brokers = case.there, case.target.broker_count
    asked = case.link.topics.replication_factor
    planned = asked or min(case.topic.replication_factor, brokers)
    replicas = planned if there is None else there.replication_factor
    if there is None and replicas > brokers:
        return RefusedTopic(
            RefusalCode.REPLICATION_FACTOR,
            f"replication factor {replicas} is more than the target's {brokers} brokers",
            "lower topics.replication_factor, or set it to null",
        )
    minimum = int(case.value("min.insync.replicas") or 1)
    if minimum <= replicas:
        return None
    return RefusedTopic(
        RefusalCode.CONFIGS,
        f"{case.name} would have {replicas} replicas and min.insync.replicas={minimum}: each "
        "append would fail",
        "pin min.insync.replicas in topics.config_set, or raise topics.replication_factor",
    )


def _compaction(case: Case) -> RefusedTopic | None:
    own = case.topic.configs.get("cleanup.policy")
    source_compacts = own is None or "compact" in (own.value or "")
    if source_compacts or "compact" not in case.value("cleanup.policy"):
        return None
    return RefusedTopic(
        RefusalCode.CONFIGS,
        f"{case.name} is compacted, the source is not: records without a key would be refused, "
        "others would vanish",
        "let cleanup.policy be synced, or set it to delete at the target",
    )


def _fixed_configs(case: Case) -> RefusedTopic | None:
    there = case.there
    for key, value in sorted(case.wanted.forced.items()):
        entry = None if there is None else there.configs.get(key)
        if entry is not None and entry.is_read_only and entry.value != value:
            return RefusedTopic(
                RefusalCode.CONFIGS,
                f"{key} is {entry.value} and may not be changed, appends need {value}",
                "ask the target's administrators to change it",
            )
    return None


def _start(case: Case) -> RefusedTopic | None:
    problem = case.begin.by.problem(case.topic.name, case.topic.partitions)
    return None if problem is None else RefusedTopic(RefusalCode.START, *problem)
