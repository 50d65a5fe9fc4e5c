"""Lost maps of merged topics: their numbers, looked up and compared, while the link may run.

No round copies a partition whose map is lost, so how many records the link has appended is told
once nothing of a killed round can land any more; it is asked again when all was compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from heliostat.access import ClusterAccess
from heliostat.clock import Clock, SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.producer_rows import ProducerRows
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError, StateIncomplete
from heliostat.gaps.ledger import GapLedger, copied_of
from heliostat.link.merging import rows_may_be_lost
from heliostat.merge.producers import lost_rows
from heliostat.names import LinkName, Offset, TopicName, TopicPartition, id_text
from heliostat.rebuild.merged_map import MergedProof, merged_proof
from heliostat.rebuild.own_records import OwnSides, own_view
from heliostat.rebuild.proof import MirrorStanding, NotProved
from heliostat.rebuild.side_rows import SideRows
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.state.link_state import LinkState, Stored
from heliostat.state.merged_notes import MergedNotes
from heliostat.state.ownership import owner_lasts_s
from heliostat.status.reader import last_reported
from heliostat.topics.values import MirrorRecord
from heliostat.verify.both_readers import BothReaders
from heliostat.verify.compaction import CLEANING_KEYS, Cleaning, CleaningRule
from heliostat.verify.schema_ids import Views


@dataclass(frozen=True, slots=True)
class MergedMaps:
    """Tells maps of a link's merged partitions, and whether they still hold."""

    sides: OwnSides
    stored: Stored
    ledger: GapLedger
    at_source: ClusterAdmin
    at_target: ClusterAdmin
    settle: Callable[[], None]
    """Returns once nothing of a killed round can land any more."""

    def map_of(
        self, readers: BothReaders, source: TopicPartition, record: MirrorRecord, views: Views
    ) -> MergedProof:
        """Return a partition's map, which holds as nothing has been appended meanwhile.

        Raises
        ------
        NotProved
            There is none, or more than one.
        ConnectionLost, BrokerError
            A cluster does not answer.
        """
        self.settle()
        count = self.sides.counts([(source, record)])[source]
        if isinstance(count, str):
            raise NotProved(count)
        mirror = record.mirror_of(source.partition)
        bounds = readers.source.bounds([source])[source]
        view = own_view(readers.target, mirror, count, self.sides.ids())
        standing = MirrorStanding(
            source=bounds,
            target=view.numbers,
            rule=self._rule(record),
            recorded=recorded_gaps(self.ledger, source, record),
            noted=copied_of(self.ledger.copied.get(record.source), id_text(record.source_id)).get(
                source.partition
            ),
        )
        rows = SideRows(source, mirror, readers, views._replace(origin=view.origin))
        found = merged_proof(rows, standing, self._start(source, record))
        again = self.sides.counts([(source, record)])[source]
        if isinstance(again, str) or again.number != count.number:
            raise NotProved("the link has appended records meanwhile; try again")
        return found

    def _start(self, source: TopicPartition, record: MirrorRecord) -> Offset:
        row = self.stored.starts.get(record.source)
        if row is None or row.target_id != record.target_id or source.partition not in row.offsets:
            raise NotProved("the state does not say where it begins; try again once it is copied")
        return row.offsets[source.partition]

    def _rule(self, record: MirrorRecord) -> CleaningRule:
        ours, theirs = (
            _cleaning(admin, name)
            for admin, name in ((self.at_source, record.source), (self.at_target, record.target))
        )
        return CleaningRule(ours, theirs, SystemClock().wall_ms())


def _cleaning(admin: ClusterAdmin, topic: TopicName) -> Cleaning:
    configs = admin.describe_configs([topic], CLEANING_KEYS)[topic]
    if isinstance(configs, BrokerError):
        raise NotProved(f"the settings of {topic} can't be read: {configs.text}")
    return Cleaning.of(configs)


def recorded_gaps(
    ledger: GapLedger, source: TopicPartition, record: MirrorRecord
) -> tuple[tuple[int, int], ...]:
    """Return source offsets `[start, end)` of recorded gaps, for topics of these ids."""
    ids = id_text(record.source_id), id_text(record.target_id)
    rows = [row for row in ledger.rows.values() if row.source == source]
    return tuple(
        (row.first, row.last + 1)
        for row in rows
        if (row.source_id, row.target_id) == ids and row.last is not None
    )


@contextmanager
def merged_maps(
    link: LinkConfig,
    source: ClusterAccess,
    state: LinkState,
    *,
    ledger: GapLedger,
    at_source: ClusterAdmin,
    at_target: ClusterAdmin,
) -> Iterator[MergedMaps]:
    """Yield what tells a link's maps.

    Raises
    ------
    StateIncomplete
        The link has appended under producer ids that its state does not have.
    Refused
        Rows of producer ids at the source may be gone.
    ConnectionLost, BrokerError
        A cluster does not answer.
    """
    name, stored = LinkName(link.name), state.read()
    present = stored.producer_id
    with ExitStack() as opened:
        notes = opened.enter_context(closing(MergedNotes(state.clusters, name))).read()
        rows = opened.enter_context(closing(ProducerRows(state.clusters, at_target))).read()
        here = {number for number, writer in rows.items() if writer == name}
        if present is None or not here <= {present, *stored.producers}:
            raise StateIncomplete(f"the state of link {name} lacks producer ids of the link")
        at = opened.enter_context(closing(ProducerRows(source, at_source)))
        now = at.look()
        if notes.seen is None or (lost := lost_rows(notes.seen, now)):
            why = "the state does not say which it had" if notes.seen is None else lost
            raise rows_may_be_lost(name, why)
        ids = frozenset({present, *stored.producers})
        sides = OwnSides(source, state.clusters, ids, [present], notes.own)
        opened.enter_context(closing(sides))
        settle = Settling(_may_land_s(link, state), SystemClock())
        yield MergedMaps(sides, stored, ledger, at_source, at_target, settle.wait)


class Settling:
    """Waits until what a killed round has sent has landed, or can't any more.

    Parameters
    ----------
    lasts_s
        How long that may take from now on.
    clock
        The clock.
    """

    def __init__(self, lasts_s: float, clock: Clock) -> None:
        self._clock = clock
        self._until_s = clock.monotonic_s() + lasts_s

    def wait(self) -> None:
        """Return once that time is over."""
        if (left_s := self._until_s - self._clock.monotonic_s()) > 0:
            self._clock.sleep(left_s)


def _may_land_s(link: LinkConfig, state: LinkState) -> float:
    """Return how long something may land: nothing, if the last driver has said that it stopped."""
    board = last_reported(LinkName(link.name), state.clusters)
    if board is not None and board.status(SystemClock().wall_ms()).state == "no_owner":
        return 0.0
    return owner_lasts_s(link.lanes.lease_s) + LANDS_WITHIN_S
