"""A gap ledger without a cluster: its rows are kept in memory."""

from __future__ import annotations

from typing import Any

from heliostat.clusters.keyed_topic import Change
from heliostat.gaps.ledger import GapLedger
from heliostat.names import LinkName, TopicName


class KeptTopic:
    """The stand-in of the compacted topic."""

    def __init__(self) -> None:
        self.topic = TopicName("heliostat.l.gaps")
        self.kept: dict[str, Any] = {}
        self.news: list[Change] = []

    def write(self, key: str, value: Any) -> None:
        self.write_many({key: value})

    def write_many(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            self.kept.pop(key, None)
            if value is not None:
                self.kept[key] = value

    def read_all(self) -> dict[str, Any]:
        return dict(self.kept)

    def tail(self, timeout_s: float) -> list[Change]:
        news, self.news = self.news, []
        return news

    def ensure(self, replicas: int | None) -> None:
        pass

    def exists_now(self) -> None:
        pass

    def close(self) -> None:
        pass


def ledger_on(memory: KeptTopic) -> GapLedger:
    made = GapLedger(LinkName("l"), "127.0.0.1:1")
    made._topic = made._reader = memory  # type: ignore[assignment]  # stand-in
    return made
