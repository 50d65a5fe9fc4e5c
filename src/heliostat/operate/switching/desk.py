"""What a switch asks of real clusters, and does there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError
from heliostat.fencing import StillEnds
from heliostat.handover.desk import (
    GROUPS_APART,
    Answer,
    Copied,
    FenceAnswer,
    GroupsSeen,
    OpenTransactions,
    Problem,
    Stillness,
    SwitchOptions,
)
from heliostat.handover.promotion import PromotedBy
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.log_bounds import bounds_of
from heliostat.operate.opening import open_target
from heliostat.operate.promotion import promote
from heliostat.operate.source_fence import SourceFence, note_fenced
from heliostat.operate.status import link_picture
from heliostat.operate.switching.groups import groups_seen
from heliostat.operate.switching.preflight import all_problems
from heliostat.operate.switching.rights import missing_rights
from heliostat.records.copier.lane import PartitionReport
from heliostat.rescue.source_rest import named_producers
from heliostat.state.connections import LinkConnections, connected
from heliostat.state_topics import progress_topic
from heliostat.status.reader import StatusReader

CLIENT_ID = "heliostat-switch"
READ_S, READ_MAX_S = 0.1, 2.0
LOOK_S = 0.5
REPORTED_WITHIN_S = 15.0
"""A link that has just begun reports each partition within some seconds."""


Compare = Callable[[Sequence[TopicName], Mapping[TopicPartition, Offset], bool], Answer]
"""Compares these topics from there on; the last says whether what lacks at the end is lost."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be switched, and for whom."""

    config: Config
    link: LinkConfig
    topics: tuple[TopicName, ...]
    by: str
    why: str = ""
    accepted: tuple[str, ...] = ()
    """Codes of preflight's problems that are accepted."""
    compare: Compare | None = None
    """Compares contents; None: this process does, on Spark."""


class LinkDesk:
    """The `SwitchDesk` of a link. For one thread.

    Parameters
    ----------
    order
        What is to be switched.
    both
        Connections to both clusters.
    source, target
        Requests to them.
    progress
        The link's reports.
    """

    how = PromotedBy.SWITCH

    def __init__(
        self,
        order: Order,
        both: LinkConnections,
        source: ClusterAdmin,
        target: ClusterAdmin,
        progress: RecentRecords,
    ) -> None:
        self._order = order
        self._both = both
        self._source = source
        self._target = target
        self._progress = progress
        self._reader = StatusReader(LinkName(order.link.name), progress)
        self._is_reported = False
        self._clock = SystemClock()
        self._fence = SourceFence(order.config, order.link, source, both.target)
        self._is_fenced = False

    def wall_ms(self) -> int:
        """Return the wall clock."""
        return self._clock.wall_ms()

    def monotonic_s(self) -> float:
        """Return a clock that never jumps."""
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._clock.sleep(seconds)

    def problems(self) -> Sequence[Problem]:
        """Return all that is in the way, at once."""
        order = self._order
        with closing(self._both.state()) as state:
            stored = state.read()
        mirrors = {
            each: stored.mirrors[each].target for each in order.topics if each in stored.mirrors
        }
        return all_problems(
            order.link,
            order.topics,
            status=link_picture(order.config, order.link).status,
            stored=stored,
            copied=self._known(),
            transactions=self.open_transactions(),
            deny=self._fence.rules(order.topics),
            groups=self.groups(),
            missing=missing_rights(
                *(order.config, order.link, mirrors, self._source, self._target),
                sees_all=GROUPS_APART not in order.accepted,
            ),
        )

    def partitions(self) -> tuple[list[TopicPartition], dict[TopicPartition, str]]:
        """Return all partitions at the source, and topics that it does not describe, and why."""
        infos = self._source.describe_topics(self._order.topics)
        lost = {
            TopicPartition(name, PartitionId(-1)): info.error.text
            for name, info in infos.items()
            if info.error is not None
        }
        rows = [
            TopicPartition(name, part.partition)
            for name, info in infos.items()
            for part in info.partitions
        ]
        return rows, lost

    def _known(self) -> Copied:
        """Return how far the topics are copied, after a while in which all were reported."""
        until_s = self.monotonic_s() + REPORTED_WITHIN_S
        while (copied := self.copied()).unknown and self.monotonic_s() < until_s:
            self.sleep(LOOK_S)
        return copied

    def copied(self) -> Copied:
        """Return how far the topics are copied; that nothing is missing is confirmed."""
        copied = self._copied(confirmed=False)
        if copied.missing or copied.unknown:
            return copied
        return self._copied(confirmed=True)

    def _copied(self, *, confirmed: bool) -> Copied:
        self._read_reports()
        partitions, unknown = self.partitions()
        reports = {report.source: report for report in self._reader.board.reports()}
        ends = self._source.list_log_ends(partitions, confirmed=confirmed)
        landed: Mapping[TopicPartition, Offset | BrokerError] = {}
        if not self._order.link.topics.merges:  # else others write there as well
            mirrors = [reports[each].target for each in partitions if each in reports]
            landed = self._target.list_log_ends(mirrors, confirmed=confirmed)
        there: dict[TopicPartition, Offset] = {}
        missing: dict[TopicPartition, int] = {}
        for partition in partitions:
            end = ends[partition]
            if isinstance(end, BrokerError):
                unknown[partition] = f"its end is not known: {end.text}"
                continue
            there[partition] = end
            report = reports.get(partition)
            if report is None or report.position < 0:
                unknown[partition] = "the link has not reported it yet"
            elif end > report.position:
                missing[partition] = end - report.position
            elif why := _why_not_landed(report, landed.get(report.target)):
                unknown[partition] = why
        return Copied(there, missing, unknown)

    def _read_reports(self) -> None:
        """Take what was reported since; a link that has just begun makes their topic."""
        if not self._is_reported:
            self._is_reported = self._progress.exists()
            if self._is_reported:
                self._reader.begin()
            return
        until_s = self.monotonic_s() + READ_MAX_S
        while self._reader.read(READ_S) and self.monotonic_s() < until_s:
            pass

    def open_transactions(self) -> OpenTransactions:
        """Return the transactions that are open in these topics."""
        partitions, _ = self.partitions()
        return _open_transactions(self._source, partitions)

    def rest(self) -> Answer:
        """Let no link rest: none leads back into what only producers write."""
        return Answer("no link leads back")

    def put_up_fence(self) -> FenceAnswer:
        """Keep the source's producers out by rules, as far as there may be any."""
        answer = self._fence.put_up(self._order.topics)
        self._is_fenced = answer.holds
        return answer

    def lift_fence(self) -> str:
        """Let producers in again."""
        return self._fence.lift()

    def watch(self, seconds: float, *, until_first: bool) -> Stillness:
        """Watch the source's ends for so long."""
        partitions, _ = self.partitions()
        watched = StillEnds(self._source, partitions, self._clock)
        return watched.watch(seconds, until_first=until_first)

    def groups(self) -> GroupsSeen:
        """Return where groups are."""
        return groups_seen(
            self._order.config, self._order.link, self._source, set(self._order.topics)
        )

    def offsets(self, starts: Mapping[TopicPartition, Offset]) -> int:
        """Return how many offsets are compared, of partitions from there on."""
        partitions, _ = self.partitions()
        bounds = bounds_of(self._source, partitions)
        return sum(
            max(0, each.end - max(each.start, starts.get(partition, 0)))
            for partition, each in bounds.items()
            if not isinstance(each, BrokerError)
        )

    def compare(
        self, options: SwitchOptions, starts: Mapping[TopicPartition, Offset], *, is_complete: bool
    ) -> Answer:
        """Compare contents, here on Spark or elsewhere."""
        del options
        order = self._order
        if order.compare is not None:
            return order.compare(order.topics, starts, is_complete)
        from heliostat.operate.verify import to_verify, verify_links
        from heliostat.verify.ranges import RangeSpec

        wanted = to_verify(order.config, (order.link,), order.topics)
        report = verify_links(wanted, RangeSpec(is_complete=is_complete, starts=starts))
        lines = () if report.is_clean else tuple(report.lines())
        return Answer(report.summary_line(), {}, lines)

    def promote(self) -> Answer:
        """Give the mirrors away."""
        order = self._order
        given = promote(
            order.config,
            order.link,
            order.topics,
            self.how,
            by=order.by,
            why=order.why,
        )
        if self._is_fenced:
            note_fenced(order.config, order.link, order.topics)
        return Answer(
            f"{len(given.promotions):,} mirrors are given away, fenced by {given.fenced_by.words}",
            {"fenced_by": given.fenced_by.value, "took_s": dict(given.took_s)},
        )

    def open_target(self) -> Answer:
        """Open the target for producers."""
        return open_target(
            self._order.config, self._order.link, self._both, self._target, self._order.topics
        )

    def written_after(
        self, ends: Mapping[TopicName, Sequence[int]], seconds: float
    ) -> Sequence[str]:
        """Return a line for each partition of the source that others have written after `ends`."""
        before = {
            TopicPartition(topic, PartitionId(number)): end
            for topic, row in ends.items()
            for number, end in enumerate(row)
        }
        if not before:
            return []
        seen = StillEnds(self._source, list(before), self._clock).watch(seconds)
        named = {each.partition for each in seen.moved}
        earlier = [
            f"{partition}: {seen.ends[partition] - end} records came"
            for partition, end in sorted(before.items())
            if partition not in named and seen.ends.get(partition, end) != end
        ]
        return [*seen.lines(), *earlier]


def _open_transactions(
    source: ClusterAdmin, partitions: Collection[TopicPartition]
) -> OpenTransactions:
    """Return open transactions, and where they can't be told."""
    answers = source.open_transactions(partitions)
    named = named_producers(source, answers)
    lines = tuple(f"{each.partition}: {each.line()}" for each in named)
    refused = tuple(
        f"{partition}: {answer.text}"
        for partition, answer in sorted(answers.items())
        if isinstance(answer, BrokerError)
    )
    return OpenTransactions(lines, refused)


def _why_not_landed(report: PartitionReport, landed: Offset | BrokerError | None) -> str:
    """Return why a mirror's own log does not show what was reported; empty: it does.

    Of a merged topic only the link can say it, and not where it has stopped.
    """
    if landed is None:
        return f"it is {report.state.value}: {report.reason}" * report.state.is_stopped
    if isinstance(landed, BrokerError):
        return f"the end of {report.target} is not known: {landed.text}"
    if landed == report.target_end:
        return ""
    return f"{report.target} ends at {landed}, and the link reported {report.target_end}"


@contextmanager
def switch_desk(order: Order, of: type[LinkDesk] = LinkDesk) -> Iterator[LinkDesk]:
    """Open connections to both clusters, for a desk of this class.

    Raises
    ------
    ConfigError
        Both aliases lead to the same cluster.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    name = LinkName(order.link.name)
    with ExitStack() as stack:
        both = stack.enter_context(connected(order.config, order.link, CLIENT_ID))
        asks: dict[str, Callable[[], None]] = {}
        admins = stack.enter_context(both.admins(asks))
        progress = stack.enter_context(closing(RecentRecords(both.target, progress_topic(name))))
        yield of(order, both, admins.source, admins.target, progress)
