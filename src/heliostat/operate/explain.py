"""`heliostat explain`: gathers what is known of what is asked, by the verbs that there are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.plain_records import LogBounds
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, HeliostatError
from heliostat.explaining.explain import explain
from heliostat.explaining.values import Evidence, Explanation, GroupKnown, Question, read_question
from heliostat.gaps.choices import CAUSE_OF_CODE, Facts
from heliostat.gaps.ledger import GapRow
from heliostat.groups.values import Skip
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.log_bounds import bounds_of
from heliostat.offsets.values import Answer, Why
from heliostat.operate import resolve
from heliostat.operate.gaps import ledger_of
from heliostat.operate.groups import group_views
from heliostat.operate.history import DAY_S, copied_between, link_past
from heliostat.operate.links import link_of
from heliostat.operate.plan import plan_link
from heliostat.operate.status import LinkPicture, link_picture
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.records.copier.lane import PartitionState
from heliostat.status.copied_when import read_copied_between
from heliostat.topics.deletion_rule import FOLLOWED, may_follow
from heliostat.topics.select import selection_of
from heliostat.topics.topic_plan import TopicPlan

WITHIN_S = 20.0
"""A cluster that says nothing for so long does not answer."""
STOPS_MAX = 1
"""Partitions of which both logs are looked at: of more, the words of one would not be those of all.
"""
STOPPED_STATES = frozenset(state.value for state in PartitionState if state.is_stopped)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the caller knows already.

    Parameters
    ----------
    picture
        The link and its partitions; None: they are read.
    level_in_s
        Seconds until the link is level; None: not known.
    """

    picture: LinkPicture | None = None
    level_in_s: float | None = None


NOTHING_SEEN = Seen()


def explain_link(
    config: Config, link_name: str, asked: str, snapshot: Seen = NOTHING_SEEN
) -> Explanation:
    """Return why a link, a topic, a partition, a record or a group is as it is; changes nothing.

    A cluster that does not answer makes the explanation say less; it does not fail.

    Parameters
    ----------
    asked
        `TOPIC`, `TOPIC-P`, `TOPIC-P@OFFSET`, `group G`; empty: the link.

    Raises
    ------
    ConfigError
        There is no such link.
    """
    link = link_of(config, link_name)
    picture = snapshot.picture or link_picture(config, link)
    status = picture.status
    names = {topic.source for topic in status.topics} | set(status.refused)
    question = read_question(asked, names)
    evidence = Evidence(link, status, SystemClock().wall_ms(), level_in_s=snapshot.level_in_s)
    look = _Look(config, link, evidence)
    if question.group is not None:
        look.read_group(question.group)
    elif question.topic is not None:
        question = look.read_topic(asked, question, picture)
        if question.offset is not None and question.place is not None:
            look.read_record(question.place, question.offset)
    return explain(question, look.evidence)


class _Look:
    """Reads what is missing, and notes what could not be read."""

    def __init__(self, config: Config, link: LinkConfig, evidence: Evidence) -> None:
        self._config = config
        self._link = link
        self.evidence = evidence

    def read_group(self, group: GroupId) -> None:
        """Read a group at both sides."""
        ask = partial(group_views, self._config, self._link.name, group)
        views = self._ask(f"the group {group}", ask)
        if views is None:
            return
        by_name = {group_view.target_group: group_view for group_view in views[0].groups}
        by_name |= {group_view.group: group_view for group_view in views[0].groups}
        view = by_name.get(group)
        if view is None:
            group_facts = GroupKnown(is_there=False)
        else:
            is_selected = not isinstance(view.skip, Skip)
            group_facts = GroupKnown(
                is_there=True,
                is_selected=is_selected,
                why=view.why,
                is_synced=self._link.groups.sync,
                decided=view.decided,
            )
        self._add(group=group_facts)

    def read_topic(self, asked: str, question: Question, picture: LinkPicture) -> Question:
        """Read what reports don't tell of a topic; return the question in the source's names."""
        question = _at_the_source(question, picture)
        rows = tuple(row for row in picture.partitions if row.source == question.topic)
        if not rows:
            names = self._ask(f"the topics of {self._link.source}", self._source_topics)
            if names is not None:
                question = read_question(asked, names)
                rows = tuple(row for row in picture.partitions if row.source == question.topic)
                self._add(source_topics=names)
        topic = question.topic
        if topic is None:
            return question
        self._add(partitions=rows)
        if not rows:
            self._read_plan(topic)
        stopped = [
            row
            for row in rows
            if row.state in STOPPED_STATES
            and row.code in CAUSE_OF_CODE
            and question.partition in {None, row.partition}
        ]
        is_asked = 0 < len(stopped) <= STOPS_MAX and picture.error is None
        refusal = self.evidence.refusal
        is_refused = refusal is not None and refusal.code in CAUSE_OF_CODE
        if question.offset is None and (is_refused or is_asked):
            self._read_stops(topic, question.partition)
        return question

    def read_record(self, place: TopicPartition, offset: Offset) -> None:
        """Read where a record is."""
        translated = self._ask("the offset map", partial(self._translated, place, offset))
        if translated is not None:
            answer, landed_to = translated
            self._add(translated=answer, landed_to=landed_to)
            if answer.to_offset is not None and (landed_to is None or offset < landed_to):
                self._read_times(place, offset)
            if answer.why is Why.BELOW_START and may_follow(self._link.topics, place.topic):
                self._read_deletions(place.topic)
        bounds = self._ask(f"the log of {self._link.source}", partial(self._bounds, place))
        self._add(source_bounds=bounds)
        gaps = self._ask("the ledger of gaps", partial(self._gaps, place))
        self._add(gaps=gaps or ())

    def _read_times(self, place: TopicPartition, offset: Offset) -> None:
        """Read when it was copied: by the reports of the last hour, else by the history."""
        target = self._config.clusters[self._link.target].access()
        link = LinkName(self._link.name)
        ask = partial(read_copied_between, link, target, place, offset)
        by_reports = self._ask("the reports of the last hour", ask)
        if by_reports is None or by_reports[0] <= 0:
            ask = partial(copied_between, self._link, target, place, offset)
            by_reports = self._ask("the link's history", ask) or by_reports
        self._add(copied_s=by_reports)

    def _read_deletions(self, topic: TopicName) -> None:
        """Read when deletions of the source were followed, as far back as the history goes."""
        target = self._config.clusters[self._link.target].access()
        past = self._ask("the link's history", partial(link_past, self._link, target, None, DAY_S))
        events = () if past is None else past.events
        said = (event for event in events if event.topic == topic and FOLLOWED in event.text)
        self._add(followed=tuple(said))

    def _read_plan(self, topic: TopicName) -> None:
        names = self.evidence.source_topics
        is_there = names is not None and topic in names
        if not is_there or not selection_of(self._link).selects(topic):
            return
        plan: TopicPlan | None = self._ask(
            "a new plan", partial(plan_link, self._config, self._link)
        )
        if plan is not None:
            self._add(refusal=plan.refuse.get(topic), left_out=plan.left_out.get(topic, ""))

    def _read_stops(self, topic: TopicName, partition: PartitionId | None) -> None:
        ask = partial(resolve.explain, self._config, self._link, topic, partition)
        options = self._ask("what each choice would do", ask)
        stops: tuple[Facts, ...] = tuple(option.facts for option in options or ())
        self._add(stops=stops)

    # -- what is read --------------------------------------------------------------------------

    def _source_topics(self) -> frozenset[str]:
        with ClusterAdmin(self._config.clusters[self._link.source].access()) as admin:
            return frozenset(admin.describe_topics())

    def _bounds(self, place: TopicPartition) -> LogBounds:
        with ClusterAdmin(self._config.clusters[self._link.source].access()) as admin:
            bounds = bounds_of(admin, [place])[place]
        if isinstance(bounds, BrokerError):
            raise bounds
        return bounds

    def _translated(self, place: TopicPartition, offset: Offset) -> tuple[Answer, Offset | None]:
        # Only here: it loads numpy.
        from heliostat.operate.translators import open_translator

        with open_translator(self._config, self._link, {place.topic}) as translator:
            answer = translator.to_target(place.topic, place.partition, offset)
            if answer.to_topic is None or answer.to_partition is None:
                return answer, None
            [partition] = translator.partitions(place.topic, place.partition)
            return answer, translator.position_of(partition)

    def _gaps(self, place: TopicPartition) -> tuple[GapRow, ...]:
        with closing(ledger_of(self._config, self._link)) as ledger:
            ledger.read()
            return tuple(row for row in ledger.rows.values() if row.source == place)

    def _ask(self, what: str, ask: Callable[[], _T]) -> _T | None:
        """Return an answer; None, and a note, if there is none."""
        try:
            return PendingAnswer(ask, f"{LinkName(self._link.name)} explain").answer(WITHIN_S)
        except (HeliostatError, NoAnswerYet) as error:
            why = str(error) if isinstance(error, HeliostatError) else "no answer in time"
            note = f"{what} could not be read: {why}"
            self._add(unread=(*self.evidence.unread, note))
            return None

    def _add(self, **read: Any) -> None:
        self.evidence = replace(self.evidence, **read)


def _at_the_source(question: Question, picture: LinkPicture) -> Question:
    """Return the question with the source's name of its topic: people know either."""
    topics = picture.status.topics
    if any(topic.source == question.topic for topic in topics):
        return question
    source = next((topic.source for topic in topics if topic.target == question.topic), None)
    return question if source is None else replace(question, topic=TopicName(source))
