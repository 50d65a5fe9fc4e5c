"""`heliostat history`: figures of a link or of one of its topics over the last day."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from heliostat.access import Reachable
from heliostat.clock import SystemClock
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.past_records import PastRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.names import LinkName, Offset, TopicPartition
from heliostat.operate.links import link_of
from heliostat.state_topics import history_topic
from heliostat.status.history import COARSE_S, FINE_COUNT, FINE_S, Point, columns_of
from heliostat.status.history_records import PastEvent
from heliostat.status.past import in_steps, read_crossing, read_link, read_topic

DAY_S = 86_400
FINE_WITHIN_S = FINE_S * FINE_COUNT
"""A link's points at 5 s are shown of so long."""
CLIENT_ID = "heliostat-history"


@dataclass(frozen=True, slots=True)
class Past:
    """Figures over time, and what happened meanwhile."""

    link: str
    """Name of the link."""
    topic: str | None
    """Name of the topic at the source; null: they are the link's."""
    step_s: int
    """Seconds from one point to the next, where there are any."""
    points: list[Point]
    """The oldest first."""
    events: list[PastEvent]
    """What happened to the link; of a topic none."""
    notes: list[str]
    """Records in its history that are not its own, or of a later version."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON, the points as columns."""
        return {
            "link": self.link,
            "topic": self.topic,
            "step_s": self.step_s,
            **columns_of(self.points),
            "events": [event._asdict() for event in self.events],
            "notes": self.notes,
        }


def past_of(
    config: Config, link_name: str, topic: str | None, since_s: float, step_s: int | None = None
) -> Past:
    """Return the past of a link, or of one of its topics.

    Parameters
    ----------
    since_s
        How far back.
    step_s
        Seconds from one point to the next; by default 5 for a quarter of an hour, and 60 for more.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    Refused
        The link has no history yet, or less of it is kept.
    """
    link = link_of(config, link_name)
    return link_past(link, config.clusters[link.target].access(), topic, since_s, step_s)


def link_past(
    link: LinkConfig,
    target: Reachable,
    topic: str | None,
    since_s: float,
    step_s: int | None = None,
) -> Past:
    """As `past_of`, of a link whose target can be reached."""
    is_fine = topic is None and since_s <= FINE_WITHIN_S
    step_s = step_s or (FINE_S if is_fine else COARSE_S)
    if step_s < COARSE_S and not is_fine:
        raise Refused(
            f"points at {step_s} s are kept of links, for {FINE_WITHIN_S // 60} minutes",
            hint=f"ask for steps of {COARSE_S} s or more, or for less of the past",
        )
    now_ms = SystemClock().wall_ms()
    from_ms = now_ms - round(min(since_s, DAY_S) * 1000)
    notes: list[str] = []
    foreign = ForeignRecords(notes.append)
    with closing(PastRecords(target, history_topic(LinkName(link.name)), CLIENT_ID)) as records:
        if not records.exists():
            raise Refused(
                f"link {link.name} has no history: topic {records.topic} does not exist",
                hint="heliostat run writes it from its first minute on",
            )
        if topic is not None:
            points, events = read_topic(records, topic, from_ms, foreign), list[PastEvent]()
        else:
            fine_from_ms = max(from_ms, now_ms - FINE_WITHIN_S * 1000)
            past = read_link(records, from_ms, foreign, fine_from_ms=fine_from_ms)
            points, events = past.fine if step_s < COARSE_S else past.whole, past.events
    if step_s not in (FINE_S, COARSE_S):
        points = in_steps(points, step_s)
    return Past(link.name, topic, step_s, points, events, notes)


def copied_between(
    link: LinkConfig, target: Reachable, place: TopicPartition, offset: Offset
) -> tuple[float, float] | None:
    """Return between which times (s since the epoch) a record was copied, by the link's history.

    The first is 0 if it was copied before the history begins. None: not known.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    from_ms = SystemClock().wall_ms() - DAY_S * 1000
    with closing(PastRecords(target, history_topic(LinkName(link.name)), CLIENT_ID)) as records:
        return read_crossing(records, place, offset, from_ms, ForeignRecords())
