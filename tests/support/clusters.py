"""Real clusters for tests: topics with fresh names, waits with a deadline."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster
from heliostat_sandbox.load import wait_until_led

HEAP_MB = 320
TIMEOUT_S = 60.0
LOOK_S = 0.02
LOOK_S_MAX = 0.5
TOLD_FROM_S = 1.0
"""Waits that take longer are printed."""


@dataclass(frozen=True, slots=True)
class ClusterPair:
    """Two running one-broker clusters, shared by all tests of a session: use fresh topics."""

    source: Cluster
    target: Cluster


def fresh_name(prefix: str = "topic") -> TopicName:
    """Return a name that no other test has."""
    return TopicName(f"{prefix}-{uuid.uuid4().hex[:10]}")


def create_topic(
    cluster: Cluster,
    name: str | None = None,
    *,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str] | None = None,
) -> TopicName:
    """Create a topic (a fresh name by default) and wait until all partitions accept records."""
    topic = TopicName(name) if name else fresh_name()
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        made = admin.create_topics([NewTopic(topic, partitions, replicas, dict(configs or {}))])
    error = made[topic]
    if isinstance(error, Exception):
        raise error
    partitions_of = [TopicPartition(topic, PartitionId(n)) for n in range(partitions)]
    wait_until_led(cluster.bootstrap, partitions_of)
    return topic


def pause_s(passed_s: float, least_s: float, look_s: float = 0.0) -> float:
    """Return the pause between two checks of a condition, in seconds.

    A check takes processor time here and at brokers, which long waits would use up: so pause for a
    twentieth of the wait so far, and at least as long as a check takes.
    """
    return max(least_s, min(LOOK_S_MAX, max(passed_s / 20, look_s)))


def until(
    holds: Callable[[], object],
    what: str | Callable[[], str],
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Wait for a condition; fail with `what` (a function: with its result, the last value seen).

    Long waits are printed.
    """
    began_s = looked_s = time.monotonic()
    while not holds():
        now_s = time.monotonic()
        passed_s = now_s - began_s
        if passed_s > timeout_s:
            raise AssertionError(f"waited {timeout_s:.0f} s for {_text(what)}")
        time.sleep(pause_s(passed_s, LOOK_S, now_s - looked_s))
        looked_s = time.monotonic()
    if (passed_s := time.monotonic() - began_s) > TOLD_FROM_S:
        print(f"{_text(what)}: {passed_s:.1f} s", file=sys.stderr)


def _text(what: str | Callable[[], str]) -> str:
    return what if isinstance(what, str) else what()
