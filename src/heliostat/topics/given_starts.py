"""Offsets at which `topics.start` lets new mirrors begin: where a group stands, or as a file lists.

They are asked for while a mirror is new, shown in the plan, and kept with its record: decided once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from heliostat.clusters.admin import EARLIEST, LATEST, ClusterAdmin, ListedOffset
from heliostat.config import LinkConfig, StartAtGroup, StartAtOffsets
from heliostat.errors import BrokerError, ConfigError
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.topics.offset_files import read_offsets

NAMED_MAX = 8
"""How many partitions of a topic, and how many topics, a line names."""
_BEYOND = (
    "usual cause: offsets of another cluster, or of a topic that was deleted and created again "
    "since; correct them, or choose another topics.start"
)


@dataclass(frozen=True, slots=True)
class Start:
    """Where one partition is to begin.

    Parameters
    ----------
    offset
        Given by the group or the file.
    begin, end
        The source's log start and end; None if its broker did not report them.
    """

    offset: Offset
    begin: Offset | None = None
    end: Offset | None = None

    @property
    def is_beyond(self) -> bool:
        """Whether it is above the log end: the offset of another log, or records were lost."""
        return self.end is not None and self.offset > self.end

    @property
    def is_gone(self) -> bool:
        """Whether the source has deleted what was there: it begins at the log start instead."""
        return self.begin is not None and self.offset < self.begin


@dataclass(frozen=True, slots=True)
class GivenStarts:
    """Where new mirrors begin by a group or a file.

    Parameters
    ----------
    origin
        The group or the file, in words; empty if `topics.start` names none.
    unlisted
        What it has to say of a partition that it does not list.
    starts
        What it lists, for new mirrors.
    trouble, hint
        Why it can't be used; empty if it can.
    is_of_beginning
        Whether it holds only for topics that existed when the link began.
    elsewhere
        Topics that it lists and the link does not mirror.
    """

    origin: str = ""
    unlisted: str = ""
    starts: Mapping[TopicPartition, Start] = field(default_factory=dict)
    trouble: str = ""
    hint: str = ""
    is_of_beginning: bool = False
    elsewhere: tuple[TopicName, ...] = ()

    def of_topic(self, topic: TopicName, partitions: int) -> dict[PartitionId, Start]:
        """What it lists of a topic's partitions."""
        numbers = map(PartitionId, range(partitions))
        starts = ((number, self.starts.get(TopicPartition(topic, number))) for number in numbers)
        return {number: start for number, start in starts if start is not None}

    def problem(self, topic: TopicName, partitions: int) -> tuple[str, str] | None:
        """Why a topic can't begin as it says, and what to do; None if it can."""
        if self.trouble:
            return self.trouble, self.hint
        beyond = {n: s for n, s in self.of_topic(topic, partitions).items() if s.is_beyond}
        if not beyond:
            return None
        named = _listed(f"{n} at {s.offset} (its log ends at {s.end})" for n, s in beyond.items())
        return (
            f"by {self.origin} it would begin above the source's log end: partition {named}",
            _BEYOND,
        )

    def words(self, topic: TopicName, partitions: int) -> str:
        """Where a topic's partitions begin, for the plan."""
        listed = self.of_topic(topic, partitions)
        rest = [number for number in range(partitions) if number not in listed]
        places = [
            f"{number} at {start.offset}"
            if not start.is_gone
            else f"{number} at its log start {start.begin} ({start.offset} is gone)"
            for number, start in listed.items()
        ]
        parts = [_listed(places)] if places else []
        if rest:
            parts.append(f"{_listed(rest)} at the beginning ({self.unlisted})")
        return f"by {self.origin}: partition {'; '.join(parts)}"


NO_STARTS = GivenStarts()


def given_starts(
    admin: ClusterAdmin, link: LinkConfig, new: Mapping[TopicName, int], others: Collection[str]
) -> GivenStarts:
    """Ask for the starts that `topics.start` gives new mirrors; changes nothing.

    Parameters
    ----------
    admin
        The source.
    new
        Source topics whose mirrors are new, with their numbers of partitions.
    others
        Source topics that have mirrors already.

    Raises
    ------
    ConnectionLost
        The source does not answer.
    """
    start = link.topics.start
    if not new:
        return NO_STARTS
    if isinstance(start, StartAtGroup):
        starts, offsets = _of_group(admin, GroupId(start.group))
    elif isinstance(start, StartAtOffsets):
        starts, offsets = _of_file(start.offsets)
        there = {partition.topic for partition in offsets}
        elsewhere = there - new.keys() - set(others)
        starts = replace(starts, elsewhere=tuple(sorted(elsewhere)))
    else:
        return NO_STARTS
    wanted = {p: offset for p, offset in offsets.items() if p.partition < new.get(p.topic, 0)}
    return replace(starts, starts=_measured(admin, wanted))


def _of_group(
    admin: ClusterAdmin, group: GroupId
) -> tuple[GivenStarts, dict[TopicPartition, Offset]]:
    starts = GivenStarts(
        f"consumer group {group}", "nothing is committed there", is_of_beginning=True
    )
    answer = admin.committed_offsets([group])[group]
    if isinstance(answer, BrokerError):
        text = f"where consumer group {group} stands at the source is not known: {answer.text}"
        return replace(starts, trouble=text, hint=answer.hint), {}
    refused = next((offset for offset in answer.values() if isinstance(offset, BrokerError)), None)
    if refused is not None:
        text = f"where consumer group {group} stands at the source is not known: {refused.text}"
        return replace(starts, trouble=text, hint=refused.hint), {}
    if not answer:
        return replace(
            starts,
            trouble=f"consumer group {group} has committed no offset at the source, for no topic",
            hint="check the group's name, and the right to describe it; topics.start: earliest "
            "copies everything",
        ), {}
    return starts, {p: c.offset for p, c in answer.items() if not isinstance(c, BrokerError)}


def _of_file(path: str) -> tuple[GivenStarts, dict[TopicPartition, Offset]]:
    starts = GivenStarts(f"the file {path}", "it is not listed")
    try:
        return starts, read_offsets(path)
    except ConfigError as error:
        text = f"topics.start: {error.text}"
        return replace(starts, trouble=text, hint=error.hint), {}


def _measured(
    admin: ClusterAdmin, offsets: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, Start]:
    if not offsets:
        return {}
    # Who leads is found out first: a deposed leader's log may end before the offset.
    ends = admin.list_offsets(dict.fromkeys(offsets, LATEST), confirmed=True)
    begins = admin.list_offsets(dict.fromkeys(offsets, EARLIEST))
    return {
        partition: Start(offset, _offset(begins.get(partition)), _offset(ends.get(partition)))
        for partition, offset in offsets.items()
    }


def _offset(answer: ListedOffset | BrokerError | None) -> Offset | None:
    return answer.offset if isinstance(answer, ListedOffset) else None


def _listed(items: Iterable[object]) -> str:
    texts = [str(item) for item in items]
    more = f" and {len(texts) - NAMED_MAX} more" if texts[NAMED_MAX:] else ""
    return ", ".join(texts[:NAMED_MAX]) + more


def elsewhere_note(given: GivenStarts) -> str:
    """Say which topics of the file the link does not mirror; empty if there are none."""
    if not given.elsewhere:
        return ""
    return f"{given.origin} lists topics that the link does not mirror: {_listed(given.elsewhere)}"
