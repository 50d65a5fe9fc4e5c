"""Finds out why a cluster refuses our connections, and reports it in our own words.

kafka-python retries failed handshakes silently and then reports a timeout. To show operators the
reason, and soon, we first connect to a cluster ourselves, and again after kafka-python failed. This
includes clusters without security: the listener may require TLS.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka.errors import BrokerResponseError

from heliostat.access import ClusterAccess, Reachable
from heliostat.clusters.wire.lent import LentClusters, lent_clusters
from heliostat.errors import AccessRefused, BrokerError, ConnectionLost

CLIENT_ID = "heliostat-access"
ANSWER_TIMEOUT_S = 5.0
AGAIN_S = 0.2
"""Pause between two attempts: a broker that restarts may listen at any moment."""
_AUTHENTICATION = frozenset({33, 34, 58})
"""UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED."""


def enter(
    cluster: Reachable, within_s: float, look: Callable[[LentClusters], object] | None = None
) -> None:
    """Check that a broker answers and accepts our connection.

    Parameters
    ----------
    cluster
        Access to the cluster; no new connection is made where it is a `LentClusters` with one.
    within_s
        How long to look for one that answers; the last attempt may end later.
    look
        What to ask it; by default which brokers there are.

    Raises
    ------
    AccessRefused
        A broker refuses our connection: raised at once.
    ConnectionLost
        None answers.
    """
    deadline_s = time.monotonic() + within_s
    while (lost := _lost(cluster, look or _look)) is not None:
        if isinstance(lost, AccessRefused) or time.monotonic() + AGAIN_S > deadline_s:
            raise lost
        time.sleep(AGAIN_S)


def refusal_of(access: ClusterAccess) -> AccessRefused | None:
    """Why the cluster refuses us; None if it doesn't, or if no broker answers, which may pass."""
    lost = _lost(access, _look)
    return lost if isinstance(lost, AccessRefused) else None


def _look(clusters: LentClusters) -> None:
    with clusters.lent() as cluster:
        cluster.metadata([])


def _lost(reachable: Reachable, look: Callable[[LentClusters], object]) -> ConnectionLost | None:
    clusters, are_ours = lent_clusters(reachable, CLIENT_ID, ANSWER_TIMEOUT_S)
    try:
        look(clusters)
    except ConnectionLost as lost:
        return lost
    finally:
        if are_ours:
            clusters.close()
    return None


def translated(
    error: Exception, access: ClusterAccess, text: str, *, hint: str | None = None
) -> BrokerError | ConnectionLost:
    """Our error for one of kafka-python's.

    Parameters
    ----------
    text
        What could not be done.
    hint
        What to do if the cluster does not answer.
    """
    code = error.errno or -1 if isinstance(error, BrokerResponseError) else None
    if code is not None and code not in _AUTHENTICATION:
        return BrokerError(f"{text}: {error}", kafka_code=code)
    refusal = refusal_of(access)
    if refusal is not None:
        return refusal
    where = f"{text} at {access.described}"
    return ConnectionLost(f"{where}: {type(error).__name__}: {error}", hint=hint)
