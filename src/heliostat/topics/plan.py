"""Decide what to do with topics at the target; pure: no clock, no network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from heliostat.clusters.retention import RETENTION_KEYS, kept_shorter
from heliostat.config import LinkConfig, is_plain_name
from heliostat.names import LinkName, TopicName
from heliostat.topics.begin import BEGUN, begin_of
from heliostat.topics.configs import MESSAGE_BYTES, WantedConfigs, config_changes, wanted_configs
from heliostat.topics.cycles import (
    Feeds,
    Stage,
    carried,
    cycle_refusal,
    left_out_words,
    stage_of,
)
from heliostat.topics.deletion_rule import DeletionRule, deletion_rule
from heliostat.topics.drift import MirrorDrift
from heliostat.topics.given_starts import elsewhere_note
from heliostat.topics.merged_ways import compacted_notes, missing_notes, wrong_into
from heliostat.topics.naming import collisions, naming_of
from heliostat.topics.preflight import Case, record_in_force, refusal_of
from heliostat.topics.select import selection_of
from heliostat.topics.topic_plan import (
    CreateTopic,
    GrowTopic,
    Mirror,
    RefusalCode,
    RefusedTopic,
    SetConfigs,
    TopicPlan,
)
from heliostat.topics.values import (
    ClusterTopic,
    MirrorRecord,
    SourceTopic,
    SourceTopics,
    TargetTopic,
    TargetTopics,
)


def plan_topics(
    link: LinkConfig,
    source: SourceTopics,
    target: TargetTopics,
    records: Mapping[TopicName, MirrorRecord],
    claimed: Mapping[TopicName, LinkName] | None = None,
    *,
    unsure: Mapping[TopicName, str] | None = None,
    begun: Collection[TopicName] = (),
    given_away: Mapping[TopicName, str] | None = None,
    unproven: Collection[TopicName] = (),
) -> TopicPlan:
    """Plan topics by comparing both sides with the link's records.

    Parameters
    ----------
    records
        The link's records of its mirrors, by source topic.
    claimed
        Target topics that other links write, each with its link.
    unsure, given_away
        Target topics that may be another link's, each with why that is not known; source topics
        whose mirrors were promoted, each with what to say of it.
    begun
        Those of `records` whose records may have been copied.
    unproven
        Source topics to be merged of which a lost state may have had rows.

    Returns
    -------
    TopicPlan
        Empty if both sides are in sync. Depends only on the arguments, not on their order.
    """
    naming, wrong = naming_of(link), wrong_into(link, source, target.cluster_id)
    draft, starts = _Draft(link, source, target), dict[TopicName, str]()
    clashes, wanted_of = collisions(naming, source.topics), _shared_wishes(link, target.inherited)
    drift = MirrorDrift(link.topics, target.broker_count)
    draft.begin(given_away or {})
    for name in sorted(source.topics.keys() - draft.left_out.keys()):
        topic, remembered = source.topics[name], records.get(name)
        wanted_name, slot = naming.target_name(name), naming.slot_of(name)
        record = record_in_force(remembered, target, wanted_name, slot)
        there = target.topics.get(wanted_name)
        if draft.runs_in_a_circle(topic, wanted_name, record, has_begun=name in begun):
            continue
        case = Case(
            *(link, source, target, topic),
            name=wanted_name,
            slot=slot,
            record=record,
            wanted=wanted_of(topic, there),
            clash=clashes.get(name),
            claimed_by=(claimed or {}).get(wanted_name),
            unsure=(unsure or {}).get(wanted_name),
            begin=begin_of(link, source, topic, remembered) if record is None else BEGUN,
            wrong_way=wrong.get(name, ""),
            is_unproven=record is None and name in unproven,
        )
        if (refusal := refusal_of(case)) is not None:
            draft.refuse[name] = refusal
            continue
        if remembered is not None and record is None:
            draft.notes.append(f"{wanted_name}: its mirror is gone, it is copied again")
        starts |= {name: case.begin.words} if case.begin.words else {}
        if there is None:
            draft.add_new(case)
        else:
            drift.compare(record, topic, there, case.wanted, draft.add_existing(case, there))
    draft.note_gone(records)
    return _with_deletions(link, source, replace(draft.plan(starts), drift=drift.found()))


def _with_deletions(link: LinkConfig, source: SourceTopics, plan: TopicPlan) -> TopicPlan:
    """Add mirrors in which deletions are followed, and notes on those where one may expect it."""
    rules: dict[TopicName, DeletionRule] = {}
    notes: list[str] = []
    for mirror in plan.mirrors:
        rule = deletion_rule(link.topics, source.topics[mirror.source], mirror.slot)
        if rule is not None and rule.follows:
            rules[mirror.source] = rule
        elif rule is not None:
            notes.append(f"{mirror.source}: its deletions are not followed: {rule.why}")
    return replace(plan, follow=rules, notes=(*plan.notes, *notes)) if rules or notes else plan


def _shared_wishes(
    link: LinkConfig, inherited: Mapping[str, str | None]
) -> Callable[[SourceTopic, TargetTopic | None], WantedConfigs]:
    """`wanted_configs`, computed once for topics that share their settings.

    Thousands of topics share a handful of settings, and each computation takes time.
    """
    wishes: dict[tuple[int, int], WantedConfigs] = {}

    def wanted_of(topic: SourceTopic, there: TargetTopic | None) -> WantedConfigs:
        # Their `id()` stays valid: the topics, which hold these mappings, outlive the plan.
        key = id(topic.configs), 0 if there is None else id(there.configs)
        wish = wishes.get(key)
        if wish is None:
            wish = wishes[key] = wanted_configs(link.topics, topic, there, inherited)
        return wish

    return wanted_of


class _Draft:
    """A plan under construction."""

    def __init__(self, link: LinkConfig, source: SourceTopics, target: TargetTopics) -> None:
        self.link = link
        self.source = source
        self.target = target
        self.create: list[CreateTopic] = []
        self.grow: list[GrowTopic] = []
        self.configure: list[SetConfigs] = []
        self.refuse: dict[TopicName, RefusedTopic] = {}
        self.mirrors: list[Mirror] = []
        self.remember: list[MirrorRecord] = []
        self.notes: list[str] = []
        self._shorter: list[str] = []
        """Mirrors with shorter retention than their sources, and by how much."""
        self.left_out: dict[TopicName, str] = {}
        self.let_go: list[TopicName] = []
        self.feeds = Feeds(carried(source.feeds, merges=link.topics.merges))
        self.through: dict[TopicName, tuple[ClusterTopic, ...]] = {}

    def plan(self, starts: Mapping[TopicName, str]) -> TopicPlan:
        """The finished plan, with where new mirrors begin by a group or a file."""
        if starts and (note := elsewhere_note(self.source.given)):
            self.notes.append(note)
        return TopicPlan(
            create=tuple(self.create),
            grow=tuple(self.grow),
            configure=tuple(self.configure),
            refuse=dict(sorted(self.refuse.items())),
            mirrors=tuple(self.mirrors),
            remember=tuple(self.remember),
            notes=(*self.notes, *self._note_shorter(), *self._note_missing()),
            left_out=dict(sorted(self.left_out.items())),
            let_go=tuple(self.let_go),
            starts=starts,
        )

    def runs_in_a_circle(
        self, topic: SourceTopic, target: TopicName, record: MirrorRecord | None, *, has_begun: bool
    ) -> bool:
        """Whether its records come from the target, or would return; if so, note it in the plan."""
        name = topic.name
        stage = stage_of(record, has_begun=has_begun)
        through = self.through[name] = self.feeds.through(name, stage)
        here, there = (
            ClusterTopic(self.source.cluster_id, name),
            ClusterTopic(self.target.cluster_id, target),
        )
        loop = self.feeds.loop_of(here, there, stage, made=self.target.topics.get(target))
        if loop is None:
            return False
        is_claim = stage is Stage.CLAIMED
        if loop.gives_way and (is_claim or (stage is Stage.BEGUN and there in loop.feed.places)):
            self.let_go.append(name)
        elif record is not None and record.through != through:
            self.remember.append(replace(record, through=through))  # shows others the cycle
        entries = self.link.topics.include
        is_named = any(entry == name and is_plain_name(entry) for entry in entries)
        if is_named or not loop.comes_back or stage is Stage.BEGUN or not loop.gives_way:
            self.refuse[name] = cycle_refusal(loop, self.link, target)
        else:
            self.left_out[name] = left_out_words(loop, self.link)
        return True

    def begin(self, given_away: Mapping[TopicName, str]) -> None:
        """Note what needs no look at both sides."""
        self.refuse_unreadable()
        self.note_unmatched()
        self.left_out.update(given_away)

    def note_unmatched(self) -> None:
        """Note include entries that match nothing: maybe a typing error."""
        names = {*self.source.names, *self.source.unreadable}
        for entry in selection_of(self.link).unmatched(names):
            self.notes.append(f"include {entry} matches no topic of the source")

    def refuse_unreadable(self) -> None:
        """Refuse topics that the source does not let us read."""
        for name, error in self.source.unreadable.items():
            text = f"the source: {error.text}"
            self.refuse[name] = RefusedTopic(RefusalCode.UNREADABLE, text, error.hint)

    def add_new(self, case: Case) -> None:
        """Add a mirror to create."""
        topic, name, wanted, slot = case.topic, case.name, case.wanted, case.slot
        chosen = self.link.topics.replication_factor
        replicas = chosen or min(topic.replication_factor, self.target.broker_count)
        if replicas < topic.replication_factor and chosen is None:
            self.notes.append(
                f"{name}: replication factor {replicas} instead of {topic.replication_factor}, "
                f"the target has {self.target.broker_count} brokers"
            )
        configs = wanted.of_new_topic(self.target.inherited)
        count = slot.target_partitions(topic.partitions)
        self.create.append(CreateTopic(topic.name, name, count, replicas, configs))
        self._note_unknown(name, wanted)
        self._compare_retention(topic, name, {**self.target.inherited, **configs})
        record = self._record(case)
        self.remember.append(record)
        self.mirrors.append(_mirror(topic, record, int(wanted.forced[MESSAGE_BYTES])))

    def add_existing(self, case: Case, there: TargetTopic) -> Mapping[str, str | None]:
        """Add a mirror whose topic exists: created by us, empty, or filled by several links.

        Returns
        -------
        Settings that are changed.
        """
        topic, wanted, record, slot = case.topic, case.wanted, case.record, case.slot
        wants = slot.target_partitions(topic.partitions)
        if there.partitions < wants:
            self.grow.append(GrowTopic(topic.name, there.name, there.partitions, wants))
            if record is not None:
                before = there.partitions // slot.of
                self.notes.append(
                    f"{there.name}: from now on the source may put a key into another partition "
                    f"than before: its partition count is {topic.partitions} instead of {before}"
                )
        elif there.partitions > wants and not slot.is_shared:
            self.notes.append(
                f"{there.name}: it has {there.partitions} partitions, the source has {wants}; the "
                "others are not part of this mirror, and Kafka can't remove partitions"
            )
        changes = config_changes(self.link.topics, wanted, there, record, leads=slot.leads)
        if changes:
            was = {key: there.configs[key].value for key in changes if key in there.configs}
            why = {key: wanted.why(key) for key in changes}
            self.configure.append(SetConfigs(topic.name, there.name, changes, was, why))
        self._note_unknown(there.name, wanted)
        now = {key: there.configs[key].value for key in RETENTION_KEYS if key in there.configs}
        self._compare_retention(topic, there.name, {**now, **changes})
        fresh = replace(self._record(case), target_id=there.topic_id)
        if record is not None:
            follows = self.link.topics.follows_configs and wanted.is_complete
            synced = fresh.synced_configs if follows else record.synced_configs
            fresh = replace(
                record,
                # An id that brokers no longer report is still the mirror's: maps are named by it.
                target_id=record.target_id if there.topic_id is None else there.topic_id,
                synced_configs=synced,
                through=fresh.through,
            )
        if fresh != record:
            self.remember.append(fresh)
        self.mirrors.append(_mirror(topic, fresh, int(wanted.forced[MESSAGE_BYTES])))
        return changes

    def note_gone(self, records: Mapping[TopicName, MirrorRecord]) -> None:
        """Note mirrors whose source topics are no longer selected, or were deleted."""
        for name, record in sorted(records.items()):
            if name in self.source.topics or name in self.source.unreadable:
                continue
            why = "is no longer selected" if name in self.source.names else "is gone at the source"
            mirror = "its mirror" if record.target == name else f"its mirror {record.target}"
            self.notes.append(f"{name} {why}; {mirror} stays as it is")

    def _record(self, case: Case) -> MirrorRecord:
        topic, wanted, begin = case.topic, case.wanted, case.begin
        synced = {*wanted.synced, *wanted.pinned} if case.slot.leads else set()
        return MirrorRecord(
            source=topic.name,
            target=case.name,
            source_id=topic.topic_id,
            target_id=None,
            source_cluster=self.source.cluster_id,
            start=begin.start,
            initial_partitions=topic.partitions,
            synced_configs=tuple(sorted(synced - _NEVER_UNSET)),
            slot=case.slot,
            through=self.through.get(topic.name, ()),
            given=begin.given,
            is_merged=self.link.topics.merges,
        )

    def _compare_retention(
        self, topic: SourceTopic, name: TopicName, mirror: Mapping[str, str | None]
    ) -> None:
        settings = topic.configs
        source = {key: settings[key].value for key in RETENTION_KEYS if key in settings}
        less = kept_shorter(source, mirror)
        if less is not None:
            self._shorter.append(f"{name} ({less})")

    def _note_shorter(self) -> list[str]:
        """Note shorter retention: records that expire on arrival look copied, but are gone."""
        if not self._shorter:
            return []
        more = f" and {len(self._shorter) - NAMED_MAX} more" if self._shorter[NAMED_MAX:] else ""
        named = ", ".join(self._shorter[:NAMED_MAX])
        text = f"the target deletes sooner than the source: {named}{more}"
        return [f"{text}; records that are older than that when copied do not stay there"]

    def _note_missing(self) -> list[str]:
        merged = [mirror.source for mirror in self.mirrors]
        missing = missing_notes(self.link, self.source, self.target.cluster_id, merged)
        return [*missing, *compacted_notes(self.link, self.mirrors)]

    def _note_unknown(self, name: TopicName, wanted: WantedConfigs) -> None:
        if wanted.unknown:
            self.notes.append(f"{name}: the target does not know {', '.join(wanted.unknown)}")


NAMED_MAX = 3
"""How many topics a note names."""
_NEVER_UNSET = frozenset({MESSAGE_BYTES})


def _mirror(topic: SourceTopic, record: MirrorRecord, message_bytes: int) -> Mirror:
    stamp = topic.configs.get("message.timestamp.type")
    return Mirror(
        source=topic.name,
        target=record.target,
        source_id=topic.topic_id,
        target_id=record.target_id,
        partitions=topic.partitions,
        initial_partitions=record.initial_partitions,
        start=record.start,
        target_max_message_bytes=message_bytes,
        is_compacted=topic.is_compacted,
        is_log_append_time=stamp is not None and stamp.value == "LogAppendTime",
        slot=record.slot,
        given=record.given,
    )
