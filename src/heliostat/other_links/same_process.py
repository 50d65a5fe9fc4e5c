"""What links of one process ask of the clusters of their file together.

A hundred links of two clusters would ask each for the topics of the other ninety-nine, and read
their states, ten thousand times.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import closing
from functools import partial

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.config import ClusterConfig, Config
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.names import Alias, TopicName
from heliostat.ops.asked import JoinedQuestion
from heliostat.other_links.at_target import StatesAtTarget, TargetStates, target_states
from heliostat.other_links.same_file import AGAIN_AFTER_S, NamesOf

SAME_WITHIN_S = 2.0
"""Links of one process look at a cluster's topics together. Two that would create one topic at the
same time are told apart by what they write at the target before (`at_target`)."""
CLIENT = "heliostat-other-links"


class TopicNames:
    """The topics of a file's clusters, asked once for all links of the process. Thread-safe.

    A hundred links of two clusters would ask a source ten thousand times otherwise.

    Parameters
    ----------
    ask
        Returns all topics of a cluster, by its alias.
    monotonic_s
        Monotonic clock (s).
    """

    def __init__(
        self,
        ask: NamesOf,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._monotonic_s = monotonic_s
        self._locks: defaultdict[Alias, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[Alias, tuple[float, Collection[TopicName] | HeliostatError]] = {}

    def of(self, alias: Alias) -> Collection[TopicName]:
        """Return a cluster's topics, as of a moment ago at most: the same object while they are.

        Raises
        ------
        ConnectionLost, BrokerError
            It does not answer, or did not within the last `AGAIN_AFTER_S`.
        """
        with self._locks[alias]:
            until_s, answer = self._known.get(alias, (-1.0, ()))
            if self._monotonic_s() >= until_s:
                last = answer
                try:
                    answer, lasts_s = self._ask(alias), SAME_WITHIN_S
                    answer = last if last == answer else answer
                except (ConnectionLost, BrokerError) as error:
                    answer, lasts_s = error, AGAIN_AFTER_S
                self._known[alias] = self._monotonic_s() + lasts_s, answer
        if isinstance(answer, HeliostatError):
            raise answer
        return answer


class StatesTogether:
    """The states of links at the targets of a file, read once for all who ask at once. Thread-safe.

    Parameters
    ----------
    config
        Returns the configuration as it is now.
    """

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._questions: dict[Alias, JoinedQuestion[TargetStates]] = {}

    def at(self, target: Alias) -> StatesAtTarget:
        """Return what reads the states at a target."""
        with self._lock:
            if target not in self._questions:
                self._questions[target] = JoinedQuestion(partial(self._read, target))
            return self._questions[target].answer

    def _read(self, target: Alias) -> TargetStates:
        return read_states(self._config().clusters[target])


def read_states(target: ClusterConfig) -> TargetStates:
    """Read the states of all links at a target over connections of its own."""
    lent, _ = lent_clusters(target.access(), CLIENT)
    with closing(lent), ClusterAdmin(target.access()) as admin:
        return target_states(lent, admin)
