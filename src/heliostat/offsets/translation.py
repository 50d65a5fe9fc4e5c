"""Offset translation for people and programs: which offset of one side is which of the other.

An answer is exact, or says why it is not. It is valid as of the creation of the translator: what
landed later is `BEYOND` until a new one is created. The target alone is enough, for the day on
which the source is gone; if the source answers, recreated and missing topics are recognised.

I2  Everything follows from the offset map and the target's log end, as the copier's position does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from heliostat.errors import Refused
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.merged_translation import MergedPartition, MergedRun
from heliostat.offsets.offset_map import ROW_BREAKS_MAX, Break, OffsetMap, encode_breaks
from heliostat.offsets.values import (
    Answer,
    MapSummary,
    Question,
    Side,
    TranslatedMirrors,
    TranslatedPartition,
    Untranslatable,
    Why,
)
from heliostat.slots import WHOLE_TOPIC

__all__ = [
    "Answer",
    "MapSummary",
    "OffsetTranslator",
    "Question",
    "Side",
    "TranslatedMirrors",
    "TranslatedPartition",
    "Untranslatable",
    "Why",
    "map_bytes",
]


class OffsetTranslator:
    """Answers from memory: `open_translator` asks the clusters once.

    Parameters
    ----------
    mirrors
        The mirrors and maps to answer from.
    merged
        By source partition those that others write as well: what tells where records are.
    """

    def __init__(
        self,
        mirrors: TranslatedMirrors,
        merged: Mapping[TopicPartition, MergedPartition] | None = None,
    ) -> None:
        self._mirrors = mirrors
        self._merged = merged or {}
        self._by_source = {mirror.source: mirror for mirror in mirrors.partitions}
        self._by_target: dict[TopicPartition, TranslatedPartition] = {}
        self._sources_of: dict[TopicName, set[TopicName]] = defaultdict(set)
        for source, target in mirrors.names.items():
            self._sources_of[target].add(source)
        for mirror in mirrors.partitions:
            self._by_target[mirror.target] = mirror

    @property
    def is_source_known(self) -> bool:
        """Whether the source answered."""
        return self._mirrors.source_topics is not None

    def to_target(self, topic: TopicName, partition: PartitionId, offset: Offset) -> Answer:
        """Return the target offset of a source offset.

        For an offset without a record it is that of the next record, which is where a consumer
        with that offset continues. So the link's position, the first offset that has not landed, is
        answered exactly with the target's end: whatever lands next lands there, and a consumer that
        continues there has read the same on both sides. Offsets after it are `BEYOND`.
        """
        name = TopicPartition(topic, partition)
        mirror = self._by_source.get(name)
        trouble = self._mirrors.source_troubles.get(topic)
        if mirror is None or trouble is not None:
            return self._no_answer(Question(topic, partition, offset), Side.SOURCE, trouble)
        if name in self._merged:
            return self._merged[name].to_target(offset)
        return replace(_to_target(mirror, offset), to_partition=mirror.target.partition)

    def to_source(self, topic: TopicName, partition: PartitionId, offset: Offset) -> Answer:
        """Return the source offset of the record at a target offset, or that will land there."""
        name = TopicPartition(topic, partition)
        mirror = self._by_target.get(name)
        trouble = self._mirrors.target_troubles.get(topic)
        if trouble is None and len(self._sources_of.get(topic, ())) > 1:
            text = "it mirrors " + ", ".join(sorted(self._sources_of[topic]))
            trouble = Untranslatable(Why.SEVERAL_SOURCES, text)
        if mirror is None or trouble is not None:
            return self._no_answer(Question(topic, partition, offset), Side.TARGET, trouble)
        if mirror.source in self._merged:
            return self._merged[mirror.source].to_source(offset)
        return replace(_to_source(mirror, offset), to_partition=mirror.source.partition)

    def translate(self, questions: Iterable[Question], asked: Side) -> Iterator[Answer]:
        """Answer in order; `asked` is the side of the questions' offsets."""
        answer = self.to_target if asked is Side.SOURCE else self.to_source
        return (answer(*question) for question in questions)

    def position_of(self, mirror: TranslatedPartition) -> Offset:
        """Return the next source offset to be copied of a partition."""
        return (
            self._merged[mirror.source].position
            if mirror.source in self._merged
            else mirror.position
        )

    def partitions(
        self, topic: TopicName | None = None, partition: PartitionId | None = None
    ) -> list[TranslatedPartition]:
        """Return mirrored partitions in order: all, those of a source topic, or one of these.

        Raises
        ------
        Refused
            There is no such mirrored topic or partition.
        """
        mirrors = [
            mirror
            for key, mirror in sorted(self._by_source.items())
            if topic in {None, key.topic} and partition in {None, key.partition}
        ]
        if not mirrors and topic is not None:
            question = Question(topic, partition or PartitionId(0), Offset(0))
            trouble = self._mirrors.source_troubles.get(topic)
            answer = self._no_answer(question, Side.SOURCE, trouble)
            raise Refused(answer.text, topic=topic, partition=partition)
        return mirrors

    def summaries(
        self, topic: TopicName | None = None, partition: PartitionId | None = None
    ) -> list[MapSummary]:
        """Return each partition's map in figures.

        Raises
        ------
        Refused
            There is no such mirrored topic or partition.
        """
        return [
            _merged_summary(mirror, self._merged[mirror.source])
            if mirror.source in self._merged
            else _summary(mirror)
            for mirror in self.partitions(topic, partition)
        ]

    def merged_runs(self, mirror: TranslatedPartition) -> list[MergedRun] | None:
        """Return the runs of a merged partition's map; None: it is a mirror.

        Raises
        ------
        Refused
            How many records have landed can't be told.
        """
        return self._merged[mirror.source].runs() if mirror.source in self._merged else None

    def _no_answer(self, asked: Question, side: Side, trouble: Untranslatable | None) -> Answer:
        topic, partition, offset = asked
        if side is Side.SOURCE:
            to_topic = self._mirrors.names.get(topic)
            is_mirrored, existing = to_topic is not None, self._mirrors.source_topics
            target = to_topic
        else:
            sources = self._sources_of.get(topic, set())
            to_topic = next(iter(sources)) if len(sources) == 1 else None
            is_mirrored, existing = bool(sources), self._mirrors.target_topics
            target = topic
        if trouble is None and target is not None:
            number = partition
            if side is Side.SOURCE:
                number = self._mirrors.slots.get(topic, WHOLE_TOPIC).target_partition(partition)
            unknown = self._mirrors.not_known.get(TopicPartition(target, number))
            if unknown is not None:
                trouble = Untranslatable(Why.NOT_TOLD, unknown)
        if trouble is None and is_mirrored:
            trouble = Untranslatable(
                Why.NO_SUCH_PARTITION, f"the mirror has no partition {partition}"
            )
        if trouble is None and existing is not None and topic not in existing:
            trouble = Untranslatable(Why.NO_SUCH_TOPIC, f"the {side.value} has no topic {topic}")
        if trouble is None:
            trouble = Untranslatable(Why.NOT_MIRRORED, f"the link has no mirror of {topic}")
            if side is Side.TARGET:
                trouble = Untranslatable(Why.NOT_MIRRORED, f"{topic} is no mirror of the link")
        return Answer(topic, partition, offset, to_topic, None, *trouble)


def _to_target(mirror: TranslatedPartition, offset: Offset) -> Answer:
    name = mirror.source
    to = mirror.offsets.target_of(offset)
    if offset < mirror.begin or to < mirror.start:
        first = max(mirror.begin, mirror.offsets.source_of(mirror.start))
        text = f"the mirror has nothing before source offset {first}, target offset {mirror.start}"
        return Answer(*name_of(name), offset, mirror.target.topic, None, Why.BELOW_START, text)
    position = mirror.position
    if offset > position:
        text = f"landed so far: what is before source offset {position}, target offset {mirror.end}"
        return Answer(*name_of(name), offset, mirror.target.topic, None, Why.BEYOND, text)
    if to > mirror.end:
        text = f"no record lies between {mirror.offsets.source_of(mirror.end)} and {position}"
        return Answer(*name_of(name), offset, mirror.target.topic, mirror.end, Why.HOLE, text)
    following = mirror.offsets.source_of(to)
    if following != offset:
        text = f"no record at {offset} was copied; the next is source offset {following}"
        return Answer(*name_of(name), offset, mirror.target.topic, to, Why.HOLE, text)
    return Answer(*name_of(name), offset, mirror.target.topic, to)


def _to_source(mirror: TranslatedPartition, offset: Offset) -> Answer:
    name = mirror.target
    to = mirror.offsets.source_of(offset)
    if offset < mirror.start or to < mirror.begin:
        first = max(mirror.start, mirror.offsets.target_of(mirror.begin))
        text = f"the mirror has nothing before target offset {first}"
        return Answer(*name_of(name), offset, mirror.source.topic, None, Why.BELOW_START, text)
    if offset > mirror.end:
        text = f"the target's log ends at {mirror.end}, source offset {mirror.position}"
        return Answer(*name_of(name), offset, mirror.source.topic, None, Why.BEYOND, text)
    return Answer(*name_of(name), offset, mirror.source.topic, to)


def name_of(partition: TopicPartition) -> tuple[TopicName, PartitionId]:
    """Topic and partition, for an answer."""
    return partition.topic, partition.partition


def map_bytes(offsets: OffsetMap) -> int:
    """Bytes that a map takes as rows of the state topic, values only (batch frames excluded)."""
    breaks: list[Break] = list(offsets.breaks())
    rows = range(0, len(breaks), ROW_BREAKS_MAX)
    return sum(len(encode_breaks(breaks[index : index + ROW_BREAKS_MAX])) for index in rows)


def _merged_summary(mirror: TranslatedPartition, merged: MergedPartition) -> MapSummary:
    landed = merged.landed()
    return replace(
        _summary(replace(mirror, end=Offset(landed or 0))),
        kind="merged",
        position=merged.position,
        target_end=mirror.end,
        landed=landed,
    )


def _summary(mirror: TranslatedPartition) -> MapSummary:
    extents = mirror.extents()
    is_exact = len(extents) == 1 and extents[0].source == extents[0].target
    return MapSummary(
        topic=mirror.source.topic,
        partition=mirror.source.partition,
        target_topic=mirror.target.topic,
        kind="exact" if is_exact else "mapped",
        extents=len(extents),
        map_bytes=map_bytes(mirror.offsets),
        position=mirror.position,
        target_start=mirror.start,
        target_end=mirror.end,
    )
