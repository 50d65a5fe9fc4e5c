"""`heliostat offsets skip`: mirrors of a stopped link go on at later source offsets.

I6  All is asked and checked first; then rows of the ledger are durable; the link goes on behind
    them once it starts. Nothing is appended meanwhile: its owner has said that it stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, Refused
from heliostat.gaps.choices import Cause, Facts
from heliostat.gaps.facts import asks_of, gather
from heliostat.gaps.ledger import GapLedger, GapRow, copied_of
from heliostat.gaps.rows import NO_STARTS, decided_row
from heliostat.gaps.skips import START_FILE, Standing, skip_effect
from heliostat.names import (
    LinkName,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
    id_text,
    is_still,
)
from heliostat.offsets.store import read_maps
from heliostat.operate.reach import require_answer
from heliostat.operate.wish_desk import WishDesk, wish_desk
from heliostat.operate.wishes import await_owner
from heliostat.state.link_state import LinkState, Stored
from heliostat.topics.merged_links import refuse_if_merged
from heliostat.topics.values import MirrorRecord
from heliostat.wishes.wish import Wish

CARRIED_OUT_WITHIN_S = 10.0
"""How long a stop that was just asked for is waited for."""
LOOK_S = 0.2
CLIENT_ID = "heliostat-skip"


@dataclass(frozen=True, slots=True)
class PartitionSkip:
    """One partition: from which source offset to which it skips, and what that means."""

    source: TopicPartition
    position: Offset
    """Source offset that would be copied next."""
    to: Offset
    """Source offset that is copied next then."""
    row: GapRow | None = None
    """Its row of the ledger; None: it goes on there anyway."""
    consumers: str = ""
    """What consumers of the mirror see."""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        row = self.row
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "position": self.position,
            "to": self.to,
            "first": None if row is None else row.first,
            "last": None if row is None else row.last,
            "count": 0 if row is None else row.count,
            "records": "none" if row is None else row.text,
            "consumers": self.consumers,
        }


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is, or would be, left out."""

    link: LinkName
    items: tuple[PartitionSkip, ...]
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""

    @property
    def rows(self) -> list[GapRow]:
        """The rows of the ledger."""
        return [item.row for item in self.items if item.row is not None]

    def told(self) -> list[str]:
        """Return a line for each partition of which something is left out."""
        return [f"{row.source}: {row.told()}" for row in self.rows]

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "items": [item.to_json() for item in self.items],
            "is_tried": self.is_tried,
        }


def skip(
    config: Config,
    link: LinkConfig,
    wanted: Mapping[TopicPartition, Offset],
    *,
    by: str,
    dry_run: bool = False,
) -> Skipped:
    """Have partitions of a stopped link go on at later source offsets once it starts.

    Parameters
    ----------
    wanted
        By source partition, the source offset that is copied next; all of them, or none.
    by
        Who decides it.
    dry_run
        Whether only to tell what would be left out.

    Raises
    ------
    Refused
        The link is not stopped, or one of them may not: nothing was changed.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    refuse_if_merged(link, "skipping records")
    require_answer(config.clusters[link.source])
    with wish_desk(config, link) as desk:
        stop = _require_stopped(desk)
        with _look(config, link, desk) as look:
            skipped = Skipped(desk.link, tuple(look.items(wanted, by)), dry_run)
            if skipped.rows and not dry_run:
                look.ledger.ensure(link.state.replication_factor)
                look.ledger.record(skipped.rows)
                _require_still(desk, stop)
            return skipped


def _require_stopped(desk: WishDesk) -> Wish:
    """Return the wish by which the link is stopped, once its owner has carried it out.

    Whoever owns it later reads that wish before anything is copied.
    """
    desk.book.read()
    stop = desk.book.wishes.of_link()
    if stop is None or not desk.book.wishes.is_stopped():
        raise Refused(
            f"link {desk.link} is not stopped", hint=f"heliostat stop {desk.link}, then ask again"
        )
    end = desk.book.position
    is_done, waits = await_owner(desk.reader, end, desk.clock, CARRIED_OUT_WITHIN_S)
    if not is_done:
        raise Refused(
            f"link {desk.link} is to stop, and no owner of it says that it has: {waits}",
            hint="ask again once `heliostat status` shows it as stopped",
        )
    return stop


def _require_still(desk: WishDesk, stop: Wish) -> None:
    """See that the link was not started while the rows were written: it may not know of them."""
    desk.book.consume(LOOK_S)
    if desk.book.wishes.of_link() != stop:
        raise Refused(
            f"link {desk.link} was started meanwhile: the gaps are recorded, and it goes on behind "
            "those whose mirrors it has not gone on with yet",
            hint=f"heliostat gaps --link {desk.link} and heliostat status say where it is",
        )


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known of a stopped link, and both clusters."""

    config: Config
    link: LinkConfig
    ledger: GapLedger
    stored: Stored
    source: ClusterAdmin
    target: ClusterAdmin
    at_ms: int

    def items(self, wanted: Mapping[TopicPartition, Offset], by: str) -> Iterator[PartitionSkip]:
        """Yield what is left out of each partition."""
        topics: dict[TopicName, dict[PartitionId, Offset]] = defaultdict(dict)
        for place, to in wanted.items():
            topics[place.topic][place.partition] = to
        for topic, places in topics.items():
            record = self._record(topic, places)
            for standing in self._standings(record, places):
                place = standing.facts.source
                yield self._item(standing, places[place.partition], by)

    def _item(self, standing: Standing, to: Offset, by: str) -> PartitionSkip:
        source, position = standing.facts.source, standing.at_position().position
        outcome = skip_effect(standing, to)
        if outcome is None:
            return PartitionSkip(source, position, to)
        facts, effect = outcome
        row = decided_row(facts, effect, f"user {by}", standing.record, self.at_ms)
        return PartitionSkip(source, position, to, row, effect.consumers)

    def _record(self, topic: TopicName, places: Mapping[PartitionId, Offset]) -> MirrorRecord:
        """Return a mirror that has these partitions, and whose topics are what they were."""
        stored, link = self.stored, self.link.name
        if topic in stored.promoted:
            raise Refused(
                f"link {link} has given away its mirror of {topic}",
                hint="it copies nothing of it any more; see docs/failover.md",
            )
        begins = stored.starts.get(topic, NO_STARTS).offsets
        record = stored.mirrors.get(topic)
        missing = [number for number in places if number not in begins]
        if record is None or missing:
            which = topic if record is None else f"{topic}-{missing[0]}"
            raise Refused(f"link {link} has no mirror of {which} yet", hint=START_FILE)
        for side, name, was in (
            (self.source, topic, record.source_id),
            (self.target, record.target, record.target_id),
        ):
            info = side.confirm_topics([name])[name]
            if info.error is not None:
                raise info.error
            if not is_still(was, info.topic_id):
                raise Refused(
                    f"{name} was deleted and created again",
                    hint=f"start the link: it refuses or copies it anew; heliostat explain {topic}",
                )
        return record

    def _standings(
        self, record: MirrorRecord, places: Mapping[PartitionId, Offset]
    ) -> Iterator[Standing]:
        topic, access = record.source, self.config.clusters[self.link.target].access()
        starts = self.stored.starts.get(topic, NO_STARTS)
        configs = self.source.describe_configs([topic], ["cleanup.policy"])[topic]
        copied, jumps = self.ledger.copied.get(topic), self.ledger.jumps()
        all_facts = gather(
            self.source,
            self.target,
            asks_of(record, places, starts.offsets, configs),
            record=record,
            code="",
            maps=partial(read_maps, access, LinkName(self.link.name)),
            copied=copied,
            fills=self.link.topics.offsets == "exact",
            cause=Cause.SKIPPED,
        )
        _require_all(topic, places, all_facts)
        notes = copied_of(copied, id_text(record.source_id))
        sequences = self._last_sequences([facts.target for facts in all_facts])
        for facts in all_facts:
            number = facts.source.partition
            yield Standing(
                facts,
                record,
                jumps.get(facts.source),
                notes.get(number),
                starts.adopted.get(number),
                self.stored.stops.get(facts.source),
                sequences.get(facts.target, -1),
            )

    def _last_sequences(self, mirrors: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last sequence of the link's producer, where a leader remembers one."""
        return {
            mirror: row.last_sequence
            for mirror, rows in self.target.active_producers(mirrors).items()
            if not isinstance(rows, BrokerError)
            for row in rows
            if row.producer_id == self.stored.producer_id
        }


def _require_all(
    topic: TopicName, places: Mapping[PartitionId, Offset], all_facts: list[Facts]
) -> None:
    """Refuse where not all partitions could be looked at."""
    missing = places.keys() - {facts.source.partition for facts in all_facts}
    if missing:
        raise Refused(
            f"{TopicPartition(topic, min(missing))} can't be looked at: a leader of it does not "
            "answer, or rows of its offset map are gone",
            hint=f"heliostat explain {topic} says which",
        )


@contextmanager
def _look(config: Config, link: LinkConfig, desk: WishDesk) -> Iterator[_Look]:
    """Read what is known of a link, once it is stopped, and open both clusters."""
    with (
        closing(GapLedger(desk.link, desk.target)) as ledger,
        closing(LinkState(link, desk.target)) as state,
        ClusterAdmin(config.clusters[link.source].access(), CLIENT_ID) as source,
        ClusterAdmin(config.clusters[link.target].access(), CLIENT_ID) as target,
    ):
        stored = state.read()
        ledger.read()
        yield _Look(config, link, ledger, stored, source, target, desk.clock.wall_ms())


def skipped_positions(config: Config, link: LinkConfig) -> dict[TopicPartition, Offset]:
    """Return at which source offsets mirrors go on that have not done so yet since they skip some.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    target = config.clusters[link.target]
    with (
        closing(GapLedger(LinkName(link.name), target.access())) as ledger,
        closing(LinkState(link, target)) as state,
    ):
        ledger.read()
        jumps = [row for row in ledger.jumps().values() if row.cause is Cause.SKIPPED]
        mirrors = state.read().mirrors if jumps else {}
    rows = [row for row in jumps if _is_of(row, mirrors.get(row.topic))]
    if not rows:
        return {}
    with ClusterAdmin(target.access(), CLIENT_ID) as admin:
        ends = admin.list_log_ends([row.target for row in rows])
    return {
        row.source: Offset(row.jump.source)
        for row in rows
        if row.jump is not None and ends.get(row.target) == row.jump.target
    }


def _is_of(row: GapRow, record: MirrorRecord | None) -> bool:
    return record is not None and row.target_id == id_text(record.target_id)
