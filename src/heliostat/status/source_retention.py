"""For how long the source keeps records of topics, asked now and then: it changes rarely."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin, ConfigEntry
from heliostat.errors import BrokerError
from heliostat.names import TopicName

KEYS = ("cleanup.policy", "retention.ms")
AGAIN_S = 600.0
FAILED_AGAIN_S = 60.0
NEW_AGAIN_S = 60.0
"""Topics that were not asked for are, this long after the last time."""


class SourceRetention:
    """The retention of a link's topics at its source. For one thread, except `seconds`.

    Parameters
    ----------
    open_source
        Connects to the source.
    clock
        The clock.
    """

    def __init__(self, open_source: Callable[[], ClusterAdmin], clock: Clock) -> None:
        self._open_source = open_source
        self._clock = clock
        self._again_s = float("-inf")
        self._asked: frozenset[TopicName] = frozenset()
        self._asked_s = float("-inf")
        self._seconds: Mapping[TopicName, float] = {}

    def seconds(self) -> Mapping[TopicName, float]:
        """Return it by topic; those without a limit, or of which it is not known, are absent."""
        return self._seconds

    def look(self, topics: Collection[TopicName]) -> None:
        """Ask the source, if it is time.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer, or refuses.
        """
        now_s, wanted = self._clock.monotonic_s(), frozenset(topics)
        is_new = not wanted <= self._asked and now_s - self._asked_s >= NEW_AGAIN_S
        if not wanted or (now_s < self._again_s and not is_new):
            return
        self._again_s = now_s + FAILED_AGAIN_S
        with self._open_source() as source:
            answers = source.describe_configs(wanted, KEYS)
        kept = {name: kept_s(answer) for name, answer in answers.items()}
        self._seconds = {name: seconds for name, seconds in kept.items() if seconds is not None}
        self._asked, self._asked_s, self._again_s = wanted, now_s, now_s + AGAIN_S


def kept_s(settings: Mapping[str, ConfigEntry] | BrokerError) -> float | None:
    """Return how long a topic with these settings keeps records; None: for ever, or unknown."""
    if isinstance(settings, BrokerError):
        return None
    policy, retention = settings.get("cleanup.policy"), settings.get("retention.ms")
    if policy is None or "delete" not in (policy.value or "") or retention is None:
        return None
    text = retention.value or ""
    return int(text) / 1000 if text.isdecimal() else None
