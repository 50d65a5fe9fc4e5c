"""Connectors in memory, as the home cluster keeps them; its own tests hold both to one contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from heliostat.config import LinkConfig
from heliostat.connect.connector import StoredConnector
from heliostat.connect.link_copies import Copies, LinkCopies
from heliostat.connect.store import NO_COPIES
from heliostat.errors import Refused
from heliostat.names import LinkName, Offset, TopicPartition
from heliostat.status.values import LinkStatus, PartitionProblem, PartitionStatus, TopicStatus
from heliostat.wishes.wish import Place, WishedState


class MemoryStore:
    """Keeps connectors."""

    def __init__(self) -> None:
        self._rows: dict[str, StoredConnector] = {}
        self._copies: dict[LinkName, LinkCopies] = {}
        self._next = 0

    def read(self) -> Mapping[str, StoredConnector]:
        return dict(self._rows)

    def copies(self) -> Copies:
        return dict(self._copies)

    def write(self, connector: StoredConnector, copies: Copies = NO_COPIES) -> Offset:
        self._copies.update(copies)
        offset = Offset(self._next)
        self._next += 1
        before = self._rows.get(connector.name, connector)
        self._rows[connector.name] = replace(connector, state=before.state, generation=offset)
        return offset

    def wish(self, connector: StoredConnector) -> None:
        before = self._rows[connector.name]
        self._rows[connector.name] = replace(before, state=connector.state)

    def remove(self, name: str, by: str, at_ms: int) -> None:
        del by, at_ms
        self._next += name in self._rows
        self._rows.pop(name, None)


class PlainLinks:
    """Links as a test says they are; wishes and orders are noted, and wishes carried out."""

    def __init__(self) -> None:
        self.of_file: dict[LinkName, LinkConfig] = {}
        self.statuses: dict[str, LinkStatus] = {}
        self.rows: dict[str, list[PartitionStatus]] = {}
        self.wished: list[tuple[str, str, str, str]] = []
        self.restarted: list[tuple[str, list[str], str]] = []
        self.later: dict[TopicPartition, Offset] = {}

    def known(self) -> Mapping[LinkName, LinkConfig]:
        return self.of_file

    def status(self, link: LinkName) -> LinkStatus | None:
        return self.statuses.get(link)

    def partitions(self, link: LinkName) -> Sequence[PartitionStatus]:
        return self.rows.get(link, [])

    def wish(self, link: LinkName, target: str, state: WishedState, by: str) -> None:
        self.wished.append((link, target, state.value, by))
        if link in self.statuses:
            self.statuses[link].state = state.value

    def restart(self, link: LinkName, places: Sequence[Place], by: str) -> None:
        self.restarted.append((link, [str(place) for place in places], by))

    def skip(
        self, link: LinkName, wanted: Mapping[TopicPartition, Offset], by: str
    ) -> Sequence[str]:
        known = {(row.source, row.partition) for row in self.partitions(link)}
        if any((place.topic, place.partition) not in known for place in wanted):
            raise Refused("no such mirror", hint="topics.start")
        self.later |= wanted
        return [f"{place} skips to {to}, as {by} asks" for place, to in wanted.items()]

    def skipped(self, link: LinkName) -> Mapping[TopicPartition, Offset]:
        del link
        return self.later

    def runs(self, link: str, *rows: PartitionStatus, state: str = "running") -> None:
        """Have a link run with these partitions, in the lanes that they name."""
        self.rows[link] = list(rows)
        self.statuses[link] = link_status(link, state, rows)


def link_status(link: str, state: str, rows: Sequence[PartitionStatus]) -> LinkStatus:
    """Return the status of a link with these partitions; a blocked one waits for a person."""
    figures: dict[str, Any] = {
        **dict.fromkeys(("records_per_s", "bytes_per_s"), 0.0),
        **dict.fromkeys(("lag_records", "lag_s", "latency_p50_ms", "latency_p99_ms")),
    }
    return LinkStatus(
        link=link,
        at_ms=0,
        state=state,
        topics=[TopicStatus(name, f"src.{name}") for name in sorted({row.source for row in rows})],
        partitions=len(rows),
        states={},
        problems=[
            PartitionProblem(
                row.source, row.partition, row.state, row.code, row.reason, row.since_ms,
                row.position, is_stopped=True,
            )
            for row in rows
            if row.state == "BLOCKED"
        ],
        refused={},
        notes=[],
        lanes=[{"lane": lane} for lane in sorted({row.lane for row in rows})],
        driver={},
        owner={"host": "there", "pid": 1},
        **figures,
    )  # fmt: skip


def partition(
    topic: str, number: int = 0, *, lane: int = 0, state: str = "COPYING", position: int = 5
) -> PartitionStatus:
    """Return a partition."""
    code, reason = ("TOO_LARGE", "it is too large") if state == "BLOCKED" else ("", "")
    return PartitionStatus(
        topic, number, state, 0.0, 0, 0.0, False, position, 5, 5, False, lane, code, reason, 0
    )
