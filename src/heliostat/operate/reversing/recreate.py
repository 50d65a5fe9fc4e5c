"""A topic of the old source that is deleted and made again as it was, to be copied whole.

Kafka can't cut a log's end. So where records that never crossed are not to stay, the topic goes.
Nothing else may go with it: they are rescued before, and there is no record there that the new
primary has deleted since.

    note     its settings and replicas, at the new primary, durable before anything is deleted
    delete   the topic of the noted id only
    create   as it was

Each step may be done again, by another process too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.admin import ClusterAdmin, NewTopic, TopicInfo
from heliostat.clusters.kafka_codes import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.plain_records import PlainReader
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, Refused
from heliostat.handover.promotion import MirrorEnds, Promotion
from heliostat.handover.recreation import Recreation
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import LinkName, TopicId, TopicName, TopicPartition, id_text, is_still
from heliostat.offsets.log_bounds import bounds_of
from heliostat.offsets.store import read_maps
from heliostat.operate.tail import show_tail
from heliostat.wishes.wish_book import WishBook

GONE_WITHIN_S = 30.0
"""A controller deletes within a second; brokers tell of it within seconds."""
LOOK_S = 0.25


def begun_anew(promotion: Promotion, old: TopicInfo) -> bool:
    """Return whether a run before this one has deleted the topic, to make it anew."""
    noted = promotion.recreation
    return noted is not None and (
        old.is_missing or (old.error is None and not is_still(noted.former_id, old.topic_id))
    )


@dataclass(frozen=True, slots=True)
class Recreating:
    """Topics of a link's old source that are made anew.

    Parameters
    ----------
    clusters
        Those of the link that leads back.
    link
        The link whose mirrors were promoted.
    """

    config: Config
    clusters: LinkClusters
    link: LinkConfig
    clock: Clock = field(default_factory=SystemClock)

    def refusals(
        self, wanted: Mapping[TopicName, MirrorEnds], old: PlainReader
    ) -> dict[TopicName, str]:
        """Return topics that must not be deleted, and why.

        Raises
        ------
        As `show_tail`.
        """
        refused = self._not_rescued(wanted)
        for name, ends in wanted.items():
            if ends.source_id is None:
                refused[name] = "brokers before 2.8 can't tell a topic from one made anew"
        for name, ends in wanted.items():
            if name not in refused and (gone := self._gone_at_new(name, ends, old)):
                refused[name] = (
                    f"it holds {gone:,} records that {self.link.target} no longer has: they would "
                    "be lost; keep its tail, or leave it"
                )
        return refused

    def _not_rescued(self, wanted: Collection[TopicName]) -> dict[TopicName, str]:
        """Return topics whose tail is not rescued, or can't be known."""
        report = show_tail(self.config, self.link, sorted(wanted), sample=0)
        how = f"`heliostat tail` of {self.link.name} appends, exports or drops them"
        counts: dict[TopicName, int] = {}
        for row in report.rows:
            counts[row.source.topic] = counts.get(row.source.topic, 0) + row.records
        refused = {
            name: f"{count:,} records there never crossed, and are not rescued: {how}"
            for name, count in counts.items()
            if count
        }
        for producer in report.open_transactions:
            refused[producer.partition.topic] = f"a transaction is open there: {producer.words()}"
        for name, why in report.why_not.items():
            refused[name] = f"whether it has records that never crossed can't be known: {why}"
        return refused

    def _gone_at_new(self, name: TopicName, ends: MirrorEnds, old: PlainReader) -> int:
        """Return how many records lie below those that the new primary has still."""
        at_new = {TopicPartition(ends.target, n): n for n in ends.partitions}
        maps = read_maps(self.clusters.source_access, LinkName(self.link.name))
        topic_id = id_text(ends.target_id)
        count = 0
        for mirror, bounds in bounds_of(self.clusters.source, at_new, confirmed=True).items():
            if isinstance(bounds, BrokerError):
                raise bounds
            at_old, number = TopicPartition(name, at_new[mirror]), at_new[mirror]
            place = min(
                maps.of(mirror, topic_id).source_of(bounds.start),
                ends.partitions[number].source_end,
            )
            start = old.bounds([at_old])[at_old].start
            if start < place:
                count += sum(1 for _ in old.read(at_old, start, place))
        return count

    def as_they_are(self, topics: Collection[TopicInfo]) -> dict[TopicName, Recreation]:
        """Return what topics of the old source are like.

        Raises
        ------
        ConnectionLost, BrokerError
            The old source does not answer, or refuses.
        """
        settings = self.clusters.target.describe_configs([info.name for info in topics])
        recreations: dict[TopicName, Recreation] = {}
        for topic in topics:
            own = settings[topic.name]
            if isinstance(own, BrokerError):
                raise own
            recreations[topic.name] = Recreation(
                topic.topic_id,
                {part.partition: part.replicas for part in topic.partitions},
                {
                    key: entry.value
                    for key, entry in own.items()
                    if entry.is_own and entry.value is not None
                },
            )
        return recreations

    def note(self, promotions: Collection[Promotion]) -> None:
        """Make what topics were like durable at the new primary; raises as `WishBook.write`."""
        with closing(WishBook(LinkName(self.link.name), self.clusters.source_access)) as book:
            book.read()
            book.write(promotions)

    def make_anew(self, promotion: Promotion) -> TopicId:
        """Delete the topic that was noted, and make it again; return its new id.

        Raises
        ------
        Refused
            Somebody else has made it meanwhile.
        ConnectionLost, BrokerError
            The old source does not answer, or refuses; call it again.
        """
        noted, name, admin = promotion.recreation, promotion.topic, self.clusters.target
        assert noted is not None
        until_s = self.clock.monotonic_s() + GONE_WITHIN_S
        while self.clock.monotonic_s() < until_s:
            there = admin.confirm_topics([name])[name]
            if there.is_missing:
                self._create(admin, name, noted)
            elif there.error is not None:
                raise there.error
            elif there.topic_id == noted.former_id:
                self._delete(admin, name)
            elif there.topic_id is not None:
                _refuse_others(there, noted)
                return there.topic_id
            self.clock.sleep(LOOK_S)
        raise ConnectionLost(f"{name} is not made anew within {GONE_WITHIN_S:g} s: call it again")

    def _create(self, admin: ClusterAdmin, name: TopicName, noted: Recreation) -> None:
        answer = admin.create_topics(
            [NewTopic(name, configs=noted.configs, replicas=noted.replicas)]
        )[name]
        if isinstance(answer, BrokerError) and answer.kafka_code != TOPIC_ALREADY_EXISTS:
            raise answer

    def _delete(self, admin: ClusterAdmin, name: TopicName) -> None:
        answer = admin.delete_topics([name])[name]
        if answer is not None and answer.kafka_code != UNKNOWN_TOPIC_OR_PARTITION:
            raise answer


def _refuse_others(there: TopicInfo, noted: Recreation) -> None:
    if {part.partition for part in there.partitions} != noted.replicas.keys():
        raise Refused(
            f"{there.name} was deleted to be made anew, and somebody else has made it",
            hint="a client that still writes there, and auto.create.topics.enable: stop it, delete "
            "the topic, and call it again",
        )
