"""What the finish of a rolling switch asks and does besides: two links copy, and both end.

Others write a merged topic at its target, so only the link's reports say what is there. And what
the link back appends at the source would look like the work of a producer that is still there: it
rests from before the fence, and is the first to end (docs/adr/0061).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing

from typing_extensions import override

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.producer_rows import ProducerRows
from heliostat.clusters.recent_records import RecentRecords
from heliostat.errors import BrokerError, Refused
from heliostat.handover.desk import Answer, Copied, Problem, Weight
from heliostat.handover.promotion import PromotedBy
from heliostat.handover.steps import first_of
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.crossing import Crossed, Stage, wait_until_crossed
from heliostat.operate.source_writers import source_writers
from heliostat.operate.status import link_picture
from heliostat.operate.switching.desk import LinkDesk, Order, switch_desk
from heliostat.operate.switching.link_back import LinkBack, link_back_of
from heliostat.other_links.at_target import target_states
from heliostat.state.connections import LinkConnections
from heliostat.state.link_state import Stored, feeds_in
from heliostat.state_topics import state_topic
from heliostat.topics.select import selection_of

REPORTED_WITHIN_S = 45.0
"""A lane of very many partitions reports one that is quiet each half minute."""


class FinishDesk(LinkDesk):
    """The `SwitchDesk` of the finish of a rolling switch. For one thread.

    Parameters
    ----------
    order, both, source, target, progress
        As of `LinkDesk`.

    Raises
    ------
    Refused
        Several links lead back.
    """

    how = PromotedBy.FINISH

    def __init__(
        self,
        order: Order,
        both: LinkConnections,
        source: ClusterAdmin,
        target: ClusterAdmin,
        progress: RecentRecords,
    ) -> None:
        super().__init__(order, both, source, target, progress)
        self._back = _back_of(order)

    @override
    def problems(self) -> Sequence[Problem]:
        """Return all that is in the way, at once."""
        with closing(self._both.state()) as state:
            stored = state.read()
        every = [
            *super().problems(),
            *_of_mirrors(stored, self._order),
            *self._of_others(),
            *self._of_writers(),
            *self._of_back(),
        ]
        order = list(Weight)
        return sorted(every, key=lambda each: order.index(each.weight))

    @override
    def copied(self) -> Copied:
        """Return how far the topics are copied; that nothing is missing, later reports say."""
        copied = super().copied()
        if copied.missing or copied.unknown:
            return copied
        order = self._order
        try:
            crossed = wait_until_crossed(order.config, order.link, order.topics, REPORTED_WITHIN_S)
        except Refused as error:  # one is not merged, or given away
            return Copied(unknown=_of_all(order.topics, error.text))
        return copied_by(crossed, order.topics)

    def _of_others(self) -> Iterator[Problem]:
        """Yield links, of any configuration, that write these topics at the source as well."""
        topics = set(self._order.topics)
        but = None if self._back is None else LinkName(self._back.link.name)
        try:
            seen = target_states(self._both.source, self._source, but)
        except BrokerError as error:
            yield _feeds_unknown(error.text)
            return
        hidden = [f"{name} has no leader" for name in sorted(seen.leaderless - {_state_of(but)})]
        if unread := [*hidden, *(each.why_odd for each in seen.states if each.why_odd)]:
            yield _feeds_unknown(first_of(unread))
        for state in seen.states:
            there = {feed.record.target for feed in feeds_in(state.link, state.rows)}
            if names := sorted(topics & there):
                text = f"link {state.link} writes {first_of(names)} at the source as well"
                hint = "stop it and remove its state there; a link back belongs into this file"
                yield Problem("fed_by_others", text, hint, Weight.STOPS)

    def _of_writers(self) -> Iterator[Problem]:
        """Yield who has written at the source lately: a producer that is silent may not be done."""
        with closing(ProducerRows(self._both.source, self._source)) as rows:
            answer = source_writers(self._source, rows.read, self._order.topics)
        if answer.writers:
            names = first_of(each.text() for each in answer.writers)
            text = f"wrote at the source lately: {names}"
            hint = "what has not moved to the target yet is kept out, or to be stopped"
            yield Problem("wrote_lately", text, hint, Weight.TOLD)
        if answer.refused:
            text = f"who wrote at the source lately is not all known: {first_of(answer.refused)}"
            yield Problem("writers_unknown", text, "producers may be missing here", Weight.TOLD)

    def _of_back(self) -> Iterator[Problem]:
        order, back = self._order, self._back
        left = sorted(set(order.topics) - set(back.topics if back else ()))
        if left:
            text = f"no link of this configuration brings back {first_of(left)}"
            hint = f"only {order.link.name} will end for them"
            yield Problem("no_link_back", text, hint, Weight.TOLD)
        if back is None:
            return
        stored = back.stored()
        if new := sorted(set(back.topics) - stored.mirrors.keys() - stored.promoted.keys()):
            text = f"link {back.link.name} is to bring back {first_of(new)}, and never has"
            hint = "take them out of its configuration before it is run, else it begins"
            yield Problem("back_not_begun", text, hint, Weight.TOLD)
        status = link_picture(order.config, back.link).status
        if status.state != "running":
            text = f"link {back.link.name}, which ends first: {status.state_in_words()}"
            hint = "it is ended without its driver once its leases are over, within two minutes"
            yield Problem("back_not_running", text, hint, Weight.TOLD)

    @override
    def rest(self) -> Answer:
        """Let the link back rest."""
        return Answer("no link leads back" if self._back is None else self._back.rest())

    @override
    def lift_fence(self) -> str:
        """Let producers in again, and then the link back go on."""
        lifted = super().lift_fence()
        return lifted if self._back is None else f"{lifted}; {self._back.go_on()}"

    @override
    def promote(self) -> Answer:
        """End both links' copying, that of the link back first."""
        text = "no link leads back" if self._back is None else self._back.give_away()
        answer = super().promote()
        return Answer(f"{text}; {answer.text}", answer.facts)


def _feeds_unknown(why: str) -> Problem:
    text = f"whether other links write them at the source can't be told: {why}"
    hint = "grant Read on heliostat.*; or look for them, and --accept feeds_unknown"
    return Problem("feeds_unknown", text, hint, Weight.ASKS)


def _state_of(link: LinkName | None) -> TopicName | None:
    return None if link is None else TopicName(state_topic(link))


def copied_by(crossed: Crossed, topics: Collection[TopicName]) -> Copied:
    """Return what waiting came to, as a switch asks it."""
    ends = {row.partition: row.end for row in crossed.rows}
    unknown = {row.partition: row.text for row in crossed.rows if row.stage is not Stage.PASSED}
    if crossed.problems and not unknown:  # they were seen before ends were asked
        why = first_of(each.text for each in crossed.problems)
        unknown = _of_all(topics, why)
    return Copied(ends, {}, unknown)


def _of_all(topics: Collection[TopicName], why: str) -> dict[TopicPartition, str]:
    return {TopicPartition(name, PartitionId(-1)): why for name in topics}


def _back_of(order: Order) -> LinkBack | None:
    link = link_back_of(order.config, order.link, order.topics)
    if link is None:
        return None
    topics: tuple[TopicName, ...] = tuple(filter(selection_of(link).selects, order.topics))
    return LinkBack(order.config, link, topics, order.by, order.why)


def _of_mirrors(stored: Stored, order: Order) -> Iterator[Problem]:
    mirrors = [
        name
        for name in order.topics
        if name in stored.mirrors and not stored.mirrors[name].is_merged
    ]
    if mirrors:
        text = f"not merged yet: {first_of(mirrors)}"
        hint = f"`heliostat switch {order.link.name} --rolling` merges them first"
        yield Problem("not_merged", text, hint, Weight.STOPS)


def finish_desk(order: Order) -> AbstractContextManager[LinkDesk]:
    """Open connections to both clusters; raises as `switch_desk`, and `FinishDesk`."""
    return switch_desk(order, FinishDesk)
