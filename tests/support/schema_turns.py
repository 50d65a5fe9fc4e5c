"""A link's part that mirrors schemas, between two registries, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.registry_contract import record
from support.registry_server import RegistryServer

from heliostat.access import RegistryAccess
from heliostat.config import LinkConfig, SchemasConfig
from heliostat.config.model import TopicsConfig
from heliostat.errors import ConnectionLost, LinkTakenOver
from heliostat.link.schema_part import SchemaPart
from heliostat.link.schema_rules import TopicLooks, registries_of
from heliostat.link.topic_frames import NO_TOPICS
from heliostat.names import Alias, LaneId, LinkName, TopicName
from heliostat.ops.events import Events
from heliostat.records.copier.lane import SchemaFrames, SchemaIds

FOO, BAR = TopicName("foo"), TopicName("bar")
AT_MS = 1_790_000_000_000


class StoppedClock:
    """Stands still, unless it is set."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return AT_MS

    def sleep(self, seconds: float) -> None:
        raise AssertionError("not to be slept")


class Running:
    """A link's part, its registries, and what it has told the lanes.

    Parameters
    ----------
    source, target
        Registries.
    urls
        Addresses of the target, if it has others than the server's.
    schemas
        The link's settings, and what its topics are called at the target.
    """

    def __init__(
        self, source: RegistryServer, target: RegistryServer, *urls: str, **schemas: Any
    ) -> None:
        self.source, self.target = source, target
        self.mirrors = {FOO: FOO}
        self.topics: frozenset[TopicName] | None = frozenset({FOO, BAR})
        self.appeared = frozenset[TopicName]()
        self.looks: list[frozenset[TopicName]] = []
        self.told: list[SchemaIds] = []
        self.lanes_told = {LaneId(0): 1, LaneId(1): 1}
        self.reframed: list[dict[TopicName, SchemaFrames]] = []
        self.is_ours = self.can_tell = True
        self.events, self.clock = Events(lambda: AT_MS, None), StoppedClock()
        frames = schemas.pop("frames", NO_TOPICS)
        topics = TopicsConfig(naming=schemas.pop("naming", "same"))
        settings = SchemasConfig(**{"strategy": "preserve", **schemas})
        name, source_alias, target_alias = LinkName("l"), Alias("summit"), Alias("usdf")
        link = LinkConfig(
            name=name, source=source_alias, target=target_alias, topics=topics, schemas=settings
        )
        sides = RegistryAccess((source.url,)), RegistryAccess(urls or (target.url,))
        self.registries = registries_of(link, *sides)
        self.part = SchemaPart(
            link,
            *sides,
            mirrors=lambda: dict(self.mirrors),
            topics=TopicLooks(lambda: self.topics, self._among),
            announce=self._announce,
            clock=self.clock,
            events=self.events,
            guard=self._guard,
            told=lambda: self.lanes_told,
            frames=frames,
            reframed=self._reframed,
        )
        self.loop = self.part.loop(lambda turn: turn)

    @property
    def is_asked(self) -> bool:
        """Whether a turn is asked for at once."""
        assert self.loop.wake is not None
        return self.loop.wake.is_set()

    def look_if_new(self) -> None:
        """What a reconciliation does at its end."""
        self.part.planned(self.part.framing())

    def turn(self) -> None:
        """One turn, whether it is due or not."""
        assert self.loop.wake is not None
        self.loop.wake.clear()
        self.part.turn()

    def register(self, subject: str, *, at_target: bool = False) -> int:
        double = (self.target if at_target else self.source).double
        found: int = double.register(subject, {"schema": record().text})["id"]
        return found

    def lines(self, word: str) -> list[str]:
        return [each for each in self.events.recent(200) if word in each]

    def _among(self, names: frozenset[TopicName]) -> frozenset[TopicName]:
        self.looks.append(names)
        return names & self.appeared

    def _announce(self, registries: str, ids: SchemaIds) -> None:
        assert registries == self.registries
        if not self.can_tell:
            raise ConnectionLost("the control topic's broker is down")
        self.told.append(ids)

    def _guard(self) -> None:
        if not self.is_ours:
            raise LinkTakenOver("another instance owns the link")

    def _reframed(self, frames: Mapping[TopicName, SchemaFrames]) -> None:
        self.reframed.append(dict(frames))
