"""Schema ids of the source's records that are written to a topic of the target by hand.

I8  A dead letter, or a record that never crossed, has the source's ids, and a topic that is no
    mirror has no gate. A record is written there only if each of its ids is the same schema's at
    the target: otherwise readers would fail, or take it for another schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.framed_ids import Headers, guid_number, ids_of_record, shown_id
from heliostat.gaps.dead_letters import DeadLetter
from heliostat.link.pipeline_rules import decoded_of
from heliostat.link.schema_rules import frames_in, frames_of
from heliostat.names import TopicName
from heliostat.operate.schemas import seen_registries
from heliostat.records.copier.lane import NO_FRAMES, SchemaFrames


@dataclass(frozen=True, slots=True)
class SameIds:
    """Ids, and what GUIDs are known by (`heliostat.framed_ids`).

    Parameters
    ----------
    same
        Those of the source that are the same schema's at the target.
    at_source
        All of the source's registry.
    has_guids
        Whether that registry gives GUIDs: without, nobody can tell what they stand for.
    """

    same: frozenset[int]
    at_source: frozenset[int]
    has_guids: bool = True

    def is_same(self, number: int) -> bool:
        """Return whether an id, or a GUID, means the same at the target, as far as can be known."""
        return number in self.same or (number < 0 and not self.has_guids)


class Framed(Protocol):
    """A record, or what is kept of one."""

    @property
    def key(self) -> bytes | None:
        """Its key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its value."""
        ...

    @property
    def headers(self) -> Headers:
        """Its headers."""
        ...


def other_id(letter: Framed, frames: SchemaFrames, ids: SameIds) -> int | None:
    """Return a schema id of a record that is not the same schema's at the target.

    None: there is no such id. Where nothing says that values have ids, only those that the source's
    registry has are taken for one.
    """
    of_key, of_value, in_headers = ids_of_record(letter.key, letter.value, letter.headers)
    sure = [*in_headers] if frames else []
    if of_key is not None and SchemaFrames.KEYS in frames:
        sure.append(of_key)
    is_framed = SchemaFrames.VALUES in frames
    is_maybe = SchemaFrames.MAYBE_VALUES in frames and of_value in ids.at_source
    if of_value is not None and (is_framed or is_maybe):
        sure.append(of_value)
    return next((number for number in sure if not ids.is_same(number)), None)


def check_ids(config: Config, link: LinkConfig, letters: Iterable[DeadLetter]) -> None:
    """Refuse letters whose records can't be read, or would be misread, at the target.

    Raises
    ------
    Refused
        The id of one of them is not the same schema's there.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    ConnectionLost
        One of the clusters does not answer.
    """
    framed = [dead_letter for dead_letter in letters if _may_have_ids(dead_letter)]
    if not framed:
        return
    ids = replayed_ids(config, link, {dead_letter.source.topic for dead_letter in framed})
    for letter in framed:
        number = ids.other_of(letter.source.topic, letter)
        if number is not None:
            raise Refused(
                f"{letter.source} at offset {letter.offset} has the source's schema id "
                f"{shown_id(number)}, which is not that schema's at {link.target}",
                hint="use --to-source: the link copies it through its gate, with the ids of "
                f"{link.target}; or decode what `heliostat dlq show --json` prints",
            )


@dataclass(frozen=True, slots=True)
class ReplayedIds:
    """Which ids of some topics' records mean the same at the target.

    Parameters
    ----------
    ids
        Those that do; None: the link has no registries.
    frames
        Where records have ids, by source topic.
    """

    ids: SameIds | None
    frames: Mapping[TopicName, SchemaFrames]

    def other_of(self, topic: TopicName, record: Framed) -> int | None:
        """Return a schema id of a topic's record that is another schema's; None: there is none."""
        if self.ids is None or not _may_have_ids(record):
            return None
        return other_id(record, self.frames[topic], self.ids)


def replayed_ids(
    config: Config,
    link: LinkConfig,
    topics: Collection[TopicName],
    former: Mapping[TopicName, TopicName] | None = None,
) -> ReplayedIds:
    """Read both registries for the ids in records of these source topics.

    Parameters
    ----------
    former
        Mirrors that were given away: no link registers what their records need any more, so it must
        be at the target already.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    ConnectionLost
        One of the clusters does not answer.
    """
    if link.schemas.strategy == "off":
        return ReplayedIds(None, {})
    registries = seen_registries(config, link, former)
    there_already = (
        None if former is None else registries.target.ids(registries.rules.naming.context)
    )
    subject_frames = frames_in(registries.source, {*registries.mirrors, *topics})
    guids = registries.source.guids(registries.rules.source_context).values()
    ids = SameIds(
        frozenset(
            (
                *(
                    int(own)
                    for own, there in registries.plan.ids.items()
                    if own == there and (there_already is None or there in there_already)
                ),
                *(guid_number(own) for own, there in registries.plan.guids.items() if own == there),
            )
        ),
        frozenset(
            (
                *registries.source.ids(registries.rules.source_context),
                *(guid_number(guid) for guid in guids),
            )
        ),
        has_guids=bool(guids),
    )
    frames = {
        topic: frames_of(
            link.schemas,
            topic,
            {topic: subject_frames.get(topic, NO_FRAMES) | decoded_of(link, topic)},
        )
        for topic in topics
    }
    return ReplayedIds(ids, frames)


def _may_have_ids(letter: Framed) -> bool:
    of_key, of_value, in_headers = ids_of_record(letter.key, letter.value, letter.headers)
    return of_key is not None or of_value is not None or bool(in_headers)
