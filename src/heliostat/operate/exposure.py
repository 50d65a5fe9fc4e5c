"""`heliostat exposure`: what would be lost, and read again, if a source were gone this moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from heliostat.clock import SystemClock
from heliostat.config import Config
from heliostat.errors import HeliostatError
from heliostat.groups.rereads import LISTED_MAX, Reread, reread_of
from heliostat.names import GroupId, LinkName
from heliostat.operate.groups import GroupView, LinkGroups, all_groups
from heliostat.operate.links import link_of, links_of
from heliostat.operate.status import LinkPicture, link_picture
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.status.lag import summed
from heliostat.status.loss import LOSS_NOT_KNOWN, Loss, Rereads, loss_from, loss_line, truth_of
from heliostat.status.order import chosen
from heliostat.status.values import PartitionStatus, TopicStatus

GROUPS_WITHIN_S = 20.0
"""Clusters that tell no more of groups within this: the driver's last report stands in."""


@dataclass(frozen=True, slots=True)
class GroupExposure:
    """What one group would read again.

    Parameters
    ----------
    group, target_group
        Its name at both sides.
    is_synced
        Whether the link publishes its offsets.
    reread
        What it would read again if it moved to the target now.
    why
        Why it is not synced, or not known.
    """

    group: GroupId
    target_group: GroupId
    is_synced: bool
    reread: Reread
    why: str = ""

    def text(self) -> str:
        """Return a line about it."""
        reread = self.reread
        if reread.records is None:
            return f"not known{f': {self.why}' if self.why else ''}"
        least = "at least " if reread.unknown else ""
        text = f"{least}{reread.records:,} record{'' if reread.records == 1 else 's'}"
        if reread.anew:
            noun = "partition" if reread.anew == 1 else "partitions"
            text += f": the target has no offset of {reread.anew:,} {noun}, read from the first on"
            text += " (or as its auto.offset.reset says)"
        return f"{text}; not synced: {self.why}" if not self.is_synced else text

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        reread = self.reread
        return {
            "group": self.group,
            "target_group": self.target_group,
            "is_synced": self.is_synced,
            "records": reread.records,
            "truth": truth_of(reread.records, is_bound=reread.unknown > 0),
            "partitions_begun_anew": reread.anew,
            "partitions_not_known": reread.unknown,
            "partitions_without_mirror": reread.without_mirror,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class LinkExposure:
    """What would be lost of a link, and read again, if its source were gone at one moment.

    Parameters
    ----------
    link, state, at_ms
        The link, its state, and the moment.
    would_be_lost
        What its source has and its target has not, all topics together.
    without_mirror
        Selected topics that have no mirror: lost as a whole.
    refused
        Those of them that are refused, and why; some may be missing.
    topics, partitions
        The same of each, as the status has them.
    rereads
        What groups that the link follows would read again; None: nothing is known of groups.
    groups
        Each of them, and those that are not synced; the most first.
    groups_why
        Why clusters did not tell it, so that it is the driver's last report; empty: they did.
    """

    link: LinkName
    state: str
    at_ms: int
    would_be_lost: Loss
    without_mirror: int
    refused: dict[str, str]
    topics: tuple[TopicStatus, ...]
    partitions: tuple[PartitionStatus, ...]
    rereads: Rereads | None
    groups: tuple[GroupExposure, ...]
    groups_why: str = ""

    @property
    def is_nothing(self) -> bool:
        """Whether nothing would be lost, nor read again by groups that are synced, for certain."""
        return self.would_be_lost.records == 0 == self._reread_records and self._is_exact

    @property
    def is_known(self) -> bool:
        """Whether something is known of what would be lost."""
        return self.would_be_lost.records is not None

    @property
    def _is_exact(self) -> bool:
        rereads = self.rereads
        truths = {self.would_be_lost.truth, "exact" if rereads is None else rereads.truth}
        return truths == {"exact"}

    @property
    def _reread_records(self) -> int | None:
        return 0 if self.rereads is None else self.rereads.records

    def text(self) -> str:
        """Return a line about it."""
        line = loss_line(self.would_be_lost, self.without_mirror, self.rereads)
        return f"link {self.link} ({self.state}): {line}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "link": self.link,
            "state": self.state,
            "at_ms": self.at_ms,
            "would_be_lost": self.would_be_lost.to_json(),
            "without_mirror": self.without_mirror,
            "refused": self.refused,
            "topics": [
                {"source": topic.source, "target": topic.target, **topic.would_be_lost.to_json()}
                for topic in self.topics
            ],
            "partitions": [
                {
                    "source": partition.source,
                    "partition": partition.partition,
                    "state": partition.state,
                    **partition.would_be_lost.to_json(),
                }
                for partition in self.partitions
            ],
            "rereads": None if self.rereads is None else asdict(self.rereads),
            "groups": [group.to_json() for group in self.groups],
            "groups_why": self.groups_why,
        }


def exposures(
    config: Config, link_name: str | None = None, topics: tuple[str, ...] = ()
) -> list[LinkExposure]:
    """Return what would be lost now of each link, and read again; changes nothing.

    Parameters
    ----------
    topics
        Wildcards of names at either side: only these topics, all that is summed up of them; groups
        are those of the whole link. None: all.

    Raises
    ------
    ConfigError
        There is no such link.
    """
    return [
        exposure_of_link(config, link.name, topics=topics) for link in links_of(config, link_name)
    ]


def exposure_of_link(
    config: Config,
    link_name: str,
    picture: LinkPicture | None = None,
    topics: tuple[str, ...] = (),
) -> LinkExposure:
    """Return what would be lost now of one link, and read again.

    Clusters that do not answer make it say less; it does not fail. Groups are asked for while the
    link is read.

    Parameters
    ----------
    picture
        The link and its partitions, if the caller knows them.
    topics
        As for `exposures`.
    """
    link = link_of(config, link_name)
    asked = PendingAnswer(partial(all_groups, config, link), f"{link.name} groups")
    picture_now = link_picture(config, link) if picture is None else picture
    try:
        groups, why = asked.answer(GROUPS_WITHIN_S), ""
    except (HeliostatError, NoAnswerYet) as error:
        why = str(error) or f"the clusters tell nothing of groups within {GROUPS_WITHIN_S:g} s"
        groups = None
    at_ms = SystemClock().wall_ms()
    return exposure_of(picture_now, groups, why, groups_at_ms=at_ms, topics=topics)


def exposure_of(
    picture: LinkPicture,
    groups: LinkGroups | None,
    why: str = "",
    *,
    groups_at_ms: int = 0,
    topics: tuple[str, ...] = (),
) -> LinkExposure:
    """Return what would be lost and read again by what was read; pure.

    Parameters
    ----------
    picture
        The link and its partitions.
    groups, groups_at_ms
        Its groups as both clusters told them, and when; None: they did not.
    why
        Why not.
    topics
        As for `exposures`.
    """
    status = picture.status
    rows = chosen(status.topics, topics)
    refused = {name: why for name, why in status.refused.items() if _fits(name, topics)}
    absent = len(refused) if topics else status.without_mirror
    loss = status.would_be_lost
    if topics:
        loss = _loss_of(rows, absent)
    names = {row.source for row in rows}
    group_rows = _told(status.rereads) if groups is None else _groups(groups)
    return LinkExposure(
        LinkName(status.link),
        status.state,
        status.at_ms,
        loss,
        absent,
        refused,
        tuple(sorted(rows, key=lambda row: _rank(row.would_be_lost, row.source))),
        tuple(partition for partition in picture.partitions if partition.source in names),
        status.rereads if groups is None else _sum(group_rows, groups, groups_at_ms),
        group_rows,
        why,
    )


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _loss_of(rows: Sequence[TopicStatus], absent: int) -> Loss:
    """Sum up some topics; of names that no topic has nothing is known."""
    if not rows:
        return LOSS_NOT_KNOWN
    return loss_from(summed(row.would_be_lost.lag for row in rows), absent)


def _rank(loss: Loss, name: str) -> tuple[bool, int, str]:
    """Order what is not known first, then the most."""
    return loss.records is not None, -(loss.records or 0), name


def _groups(groups: LinkGroups) -> tuple[GroupExposure, ...]:
    rows = (_group(view, is_on=groups.sync) for view in groups.groups if view.decided is not None)
    return tuple(sorted(rows, key=_group_rank))


def _group(view: GroupView, *, is_on: bool) -> GroupExposure:
    assert view.decided is not None
    is_synced = is_on and view.skip is None
    why = view.decided.problem
    if not is_synced and not why:
        why = view.why if view.skip is not None else "groups.sync is off"
    name = view.target_group or view.group
    return GroupExposure(view.group, name, is_synced, reread_of(view.decided), why)


def _group_rank(row: GroupExposure) -> tuple[bool, bool, int, str]:
    records = row.reread.records
    return not row.is_synced, records is not None, -(records or 0), row.group


def _sum(rows: Iterable[GroupExposure], groups: LinkGroups, at_ms: int) -> Rereads:
    """Sum up the groups that the link selects."""
    selected = {view.group for view in groups.groups if view.skip is None}
    followed = [row for row in rows if row.group in selected]
    some = {row.group: row.reread.records for row in followed if row.reread.records}
    unknown = sum(row.reread.unknown > 0 for row in followed) + groups.unlisted
    records = None if unknown and not some else sum(some.values())
    return Rereads(
        records,
        truth_of(records, is_bound=unknown > 0),
        len(some),
        unknown,
        at_ms,
        dict(list(some.items())[:LISTED_MAX]),
        groups.sync,
    )


def _told(rereads: Rereads | None) -> tuple[GroupExposure, ...]:
    """Return the groups that the driver's last report names."""
    if rereads is None:
        return ()
    return tuple(
        GroupExposure(
            GroupId(group),
            GroupId(group),
            rereads.is_synced,
            Reread(records, unknown=int(rereads.truth != "exact")),
            "" if rereads.is_synced else "groups.sync is off",
        )
        for group, records in rereads.most.items()
    )
