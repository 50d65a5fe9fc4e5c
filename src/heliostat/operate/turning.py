"""A running mirror becomes a merged topic in place: the first step of a switch without a stop.

    give way   the link's driver ends its rounds and resigns; this command claims the link (I10)
    look       each partition at the target: only the link has written there (`merge.in_place`)
    write      producer ids, notes, the cut of each partition, then the row by which it is merged

Nothing is copied or appended. A crash before the last row leaves a mirror (docs/adr/0061).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import DEBUGGING_CONSUMER
from heliostat.clusters.producer_rows import ProducerRows
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, Refused
from heliostat.handover.opening import Opened, Part
from heliostat.merge.in_place import MirrorStand, NotInPlaceError, first_note
from heliostat.merge.own_end import OwnNote
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.marks import Marks
from heliostat.offsets.offset_map import MapReader
from heliostat.offsets.store import read_maps
from heliostat.operate.giving_way import ask_to_give_way
from heliostat.operate.opening import opened, opening_of
from heliostat.operate.promotion import promotable
from heliostat.operate.turned_schemas import why_other_ids
from heliostat.operate.wish_desk import WishDesk, wish_desk
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import LogRange
from heliostat.records.transport.last_batches import read_last_batches
from heliostat.state.claimed import claimed
from heliostat.state.link_state import LinkState, Starts, Stored
from heliostat.state.merged_notes import MergedNotes, OwnNotes
from heliostat.topics.values import MirrorRecord

CLIENT_ID = "heliostat-turn"
OWN_LASTS_S = 30.0
WHY = "its mirrors become merged topics"
OTHERWISE_HINT = "leave it out with --topics, or switch it as planned, with a stop"
STRATEGY_HINT = (
    "take schemas.strategy rewrite where it was preserve or rewrite, and off where it was off, "
    f"with one registry for both; else {OTHERWISE_HINT}"
)


@dataclass(frozen=True, slots=True)
class Turned:
    """Topics that are merged from now on, or would be.

    Parameters
    ----------
    cuts
        By target partition: below it all is the mirror's; there the link back begins.
    topics
        Those among them that were mirrors until now.
    refused
        Mirrors that can't be turned, and why; while there is one none would be.
    is_tried
        Whether nothing was changed: cuts are where they would be now.
    opening
        What was opened at the target for its producers, or would be: rights, the registry.
    """

    link: LinkName
    cuts: Mapping[TopicPartition, Offset]
    topics: tuple[TopicName, ...] = ()
    refused: Mapping[TopicName, str] = field(default_factory=dict)
    is_tried: bool = False
    opening: tuple[Opened, ...] = ()

    def text(self) -> str:
        """Return a line about it."""
        if self.refused:
            number = len(self.refused)
            return f"{number:,} mirrors can't be merged in place, so none would be"
        if not self.topics:
            return f"no mirror is left to be merged{self._of_opening()}"
        what = f"{len(self.topics):,} mirrors ({self.partitions:,} partitions)"
        become = "would become" if self.is_tried else "are"
        return f"{what} {become} merged topics{self._of_opening()}"

    def _of_opening(self) -> str:
        return "".join(f"; {outcome.line()}" for outcome in self.opening)

    @property
    def partitions(self) -> int:
        """How many are cut now that were mirrors' until then."""
        topics = frozenset(self.topics)
        return sum(mirror.topic in topics for mirror in self.cuts)

    def start_lines(self) -> list[str]:
        """Return the file for `topics.start` of the link back."""
        return [
            f"{mirror.topic}:{mirror.partition}:{offset}"
            for mirror, offset in sorted(self.cuts.items())
        ]

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`; `cuts` is what `topics.start` of the link back takes."""
        cuts: dict[str, dict[str, int]] = {}
        for each, offset in sorted(self.cuts.items()):
            cuts.setdefault(each.topic, {})[str(each.partition)] = offset
        return {
            "link": self.link,
            "is_tried": self.is_tried,
            "is_possible": not self.refused,
            "topics": list(self.topics),
            "partitions": self.partitions,
            "refused": dict(self.refused),
            "opening": [outcome.to_json() for outcome in self.opening],
            "cuts": cuts,
        }


def turn_in_place(
    config: Config,
    link: LinkConfig,
    topics: Collection[str] = (),
    by: str = "",
    *,
    dry_run: bool = False,
) -> Turned:
    """Make mirrors of a link merged topics; done again it returns the same cuts.

    Parameters
    ----------
    topics
        Names; none: all mirrors of the link.
    dry_run
        Only look, while the link goes on.

    Raises
    ------
    Refused
        A mirror can't be turned: then none is. Or another instance drives the link.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses; call it again.
    """
    if not link.topics.merges:
        raise Refused(
            f"link {link.name} mirrors its topics, and is to go on with them as merged ones",
            hint="set topics.naming: merge for it first; until this command has run, it copies "
            "nothing then",
        )
    if not dry_run:
        ask_to_give_way(config, link, by, WHY)
    with wish_desk(config, link) as desk, closing(LinkState(link, desk.target)) as state:
        if dry_run:
            judged = _judge(config, link, desk, state, topics)
            return Turned(
                LinkName(link.name),
                judged.cuts({name: _cuts(each) for name, each in judged.notes.items()}),
                tuple(judged.notes),
                {name: error.text for name, error in judged.refused.items()},
                is_tried=True,
                opening=_opened(config, link, desk, state, judged.names, dry_run=True),
            )
        with claimed(link, state) as ownership:
            judged = _judge(config, link, desk, state, topics)
            for error in judged.refused.values():
                raise error
            ownership.hold(OWN_LASTS_S)
            starts = _write(link, desk, state, judged.stored, judged.notes)
            cuts = judged.cuts({name: row.cuts for name, row in starts.items()})
        opening = _opened(config, link, desk, state, judged.names, dry_run=False)
        return Turned(LinkName(link.name), cuts, tuple(starts), opening=opening)


def _opened(
    config: Config,
    link: LinkConfig,
    desk: WishDesk,
    state: LinkState,
    names: Collection[TopicName],
    *,
    dry_run: bool,
) -> tuple[Opened, ...]:
    """Open what the mirror had kept closed for the target's producers; return what that came to.

    Done again it opens what is left; where it fails, the topics are merged all the same.
    """
    follows = {
        Part.RIGHTS: link.access.sync_acls,
        Part.REGISTRY: link.schemas.strategy != "off",
    }
    if not any(follows.values()):
        return ()
    with closing(ClusterAdmin(desk.target, CLIENT_ID)) as admin:
        opening = opening_of(config, link, admin, state.read, names, dry_run=dry_run)
        return tuple(opened({part: do for part, do in opening.items() if follows[part]}))


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What is to be turned, and what is not as it must be."""

    stored: Stored
    names: Sequence[TopicName]
    notes: Mapping[TopicName, OwnNotes]
    refused: Mapping[TopicName, Refused]

    def cuts(
        self, new: Mapping[TopicName, Mapping[PartitionId, Offset]]
    ) -> dict[TopicPartition, Offset]:
        """Return all cuts: new ones, and those of mirrors that were merged in place before.

        A topic that was merged from its beginning has none: its link back begins where it likes.
        """
        starts = self.stored.starts
        cuts = {name: starts[name].cuts for name in self.names if name in starts} | dict(new)
        return {
            TopicPartition(name, number): offset
            for name, row in cuts.items()
            for number, offset in row.items()
        }


def _judge(
    config: Config, link: LinkConfig, desk: WishDesk, state: LinkState, topics: Collection[str]
) -> _Judgement:
    stored = promotable(state, topics)
    names = sorted(map(TopicName, topics)) or sorted(stored.mirrors)
    left = [name for name in names if name not in stored.mirrors]
    if left:
        raise Refused(f"{', '.join(left)}: given away already")
    new = [name for name in names if not stored.mirrors[name].is_merged]
    refused = _compacted(config, link, new)
    for name, why in why_other_ids(config, link, new, state.announced_schema_ids()).items():
        refused.setdefault(name, _refused(name, why, STRATEGY_HINT))
    looked = _Look(link, desk, state, stored)
    notes: dict[TopicName, OwnNotes] = {}
    for name in new:
        if name in refused:
            continue
        try:
            notes[name] = looked.notes(stored.mirrors[name])
        except Refused as error:
            refused[name] = error
    return _Judgement(stored, names, notes, refused)


def _compacted(
    config: Config, link: LinkConfig, names: Collection[TopicName]
) -> dict[TopicName, Refused]:
    """Return topics that are compacted at either side."""
    refused: dict[TopicName, Refused] = {}
    for alias in (link.source, link.target):
        with closing(ClusterAdmin(config.clusters[alias].access(), CLIENT_ID)) as admin:
            found = admin.describe_configs(names, ["cleanup.policy"])
        for name, configs in found.items():
            if isinstance(configs, BrokerError):
                raise configs
            policy = configs.get("cleanup.policy")
            if policy is None or "compact" in (policy.value or "compact"):
                why = f"it is compacted at {alias}, which can't be merged"
                refused[TopicName(name)] = _refused(name, why)
    return refused


def _refused(name: object, why: str, hint: str = OTHERWISE_HINT) -> Refused:
    return Refused(f"{name} can't become a merged topic in place: {why}", hint=hint)


class _Look:
    """What is to be known of mirrors whose link is claimed, so that nobody appends to them."""

    def __init__(self, link: LinkConfig, desk: WishDesk, state: LinkState, stored: Stored) -> None:
        self._target = desk.target
        self._stored = stored
        self._marks: Marks = state.marks.read()
        self._link = link

    def notes(self, record: MirrorRecord) -> OwnNotes:
        """Return what is noted of a mirror's partitions as it is turned.

        Raises
        ------
        Refused
            One of them can't be turned.
        ConnectionLost, BrokerError
            The target does not answer.
        """
        if record.target != record.source or record.slot.is_shared or record.is_returned:
            raise _refused(record.source, "it has another name or place, or was given back")
        starts = self._stored.starts.get(record.source)
        if starts is None or id_text(starts.target_id) != id_text(record.target_id):
            raise _refused(record.source, "where it begins is not recorded")
        notes = {}
        with closing(WireCluster(self._target, DialSettings(CLIENT_ID))) as cluster:
            for mirror, stand in self._stands(cluster, record, starts):
                try:
                    notes[mirror.partition] = first_note(stand, self._stored.producer_id or -1)
                except NotInPlaceError as error:
                    raise _refused(mirror, str(error)) from None
        return OwnNotes(id_text(record.target_id), notes)

    def _stands(
        self, cluster: WireCluster, record: MirrorRecord, starts: Starts
    ) -> Iterator[tuple[TopicPartition, MirrorStand]]:
        topic = cluster.metadata([record.target], confirmed=True)[record.target]
        if topic.error or id_text(topic.topic_id) != id_text(record.target_id):
            raise _refused(record.source, "its topic at the target is gone or another one")
        ranges: dict[TopicPartition, LogRange] = {}
        last: dict[TopicPartition, tuple[int, int] | None] = {}
        for number, leader in topic.partitions.items():
            mirror = TopicPartition(record.target, number)
            found = cluster.list_ranges(leader.broker, [mirror], replica_id=DEBUGGING_CONSUMER)
            start, end = found[0].get(mirror), found[1].get(mirror)
            if not isinstance(start, int) or not isinstance(end, int):
                raise ConnectionLost(f"the range of {mirror} can't be read now")
            ranges[mirror] = LogRange(start, end)
            if end and number in starts.offsets:
                spec = {0: _spec(mirror, record, starts.offsets[number])}
                who = read_last_batches(
                    cluster,
                    leader.broker,
                    spec,
                    {0: ranges[mirror]},
                    self._stored.producer_id or -1,
                )
                if 0 not in who:
                    raise ConnectionLost(f"the last record of {mirror} can't be read now")
                last[mirror] = who[0]
        maps = read_maps(self._target, LinkName(self._link.name))  # after the ends
        for number, leader in topic.partitions.items():
            mirror = TopicPartition(record.target, number)
            if number not in starts.offsets:
                if ranges[mirror].end:
                    raise _refused(mirror, "where it begins is not recorded")
                continue  # it begins as a merged one
            yield (
                mirror,
                self._stand(
                    mirror, record, starts, ranges[mirror], leader.epoch, last.get(mirror), maps
                ),
            )

    def _stand(  # noqa: PLR0917 - one partition, and what was read of it
        self,
        mirror: TopicPartition,
        record: MirrorRecord,
        starts: Starts,
        log: LogRange,
        epoch: int,
        last: tuple[int, int] | None,
        maps: MapReader,
    ) -> MirrorStand:
        name = mirror, id_text(record.target_id)
        known, number = maps.of(mirror, name[1]), mirror.partition
        is_lost = name in self._marks.lost or name in maps.lost or bool(known.lost)
        is_whole = not is_lost and (name not in self._marks.names() or name in maps.maps)
        stop = self._stored.stops.get(TopicPartition(record.source, number))
        return MirrorStand(
            begin=starts.offsets[number] if known.is_identity else Offset(0),
            log_start=log.start,
            end=log.end,
            epoch=epoch,
            last=last,
            is_mapped_whole=is_whole and known.knows(log.end),
            is_filled=known.is_filled,
            is_adopted=number in starts.adopted,
            stopped="" if stop is None else f"{stop.code} {stop.reason}",
        )


def _spec(mirror: TopicPartition, record: MirrorRecord, start: Offset) -> PartitionSpec:
    return PartitionSpec(
        source=TopicPartition(record.source, mirror.partition),
        target=mirror,
        source_topic_id=record.source_id,
        target_topic_id=record.target_id,
        start=start,
        batch_bytes_max=0,
        is_compacted=False,
    )


def _write(
    link: LinkConfig,
    desk: WishDesk,
    state: LinkState,
    stored: Stored,
    found: Mapping[TopicName, OwnNotes],
) -> dict[TopicName, Starts]:
    """Write all rows, that which decides last; return where partitions begin and are cut."""
    if not found:
        return {}
    ids = {*stored.producers, *([] if stored.producer_id is None else [stored.producer_id])}
    with (
        closing(ClusterAdmin(desk.target, CLIENT_ID)) as admin,
        closing(ProducerRows(desk.target, admin)) as rows,
        closing(MergedNotes(desk.target, LinkName(link.name))) as notes,
    ):
        notes.put_format()
        rows.ensure(link.state.replication_factor)
        rows.put(LinkName(link.name), ids)
        notes.put_own(found)
    starts = {
        name: replace(stored.starts[name], merged=_cuts(each), cuts=_cuts(each))
        for name, each in found.items()
    }
    state.put_starts(starts)
    records = {name: replace(stored.mirrors[name], is_merged=True) for name in found}
    state.put_mirrors(records)
    return starts


def _cuts(notes: OwnNotes) -> dict[PartitionId, Offset]:
    rows: Mapping[PartitionId, OwnNote] = notes.partitions
    return {number: note.complete_to for number, note in rows.items()}
