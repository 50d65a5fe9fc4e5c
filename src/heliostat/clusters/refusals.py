"""Why a secured cluster does not let us in, in our own words.

kafka-python retries failed handshakes in silence and then tells of a time-out. So that an operator
sees the reason, a secured cluster is first entered over our own connection, and again where
kafka-python failed.
"""

from __future__ import annotations

import contextlib

from kafka.errors import BrokerResponseError

from heliostat.access import PLAINTEXT, ClusterAccess
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.errors import AccessRefused, BrokerError, ConnectionLost

CLIENT_ID = "heliostat-access"
ANSWER_TIMEOUT_S = 10.0
_AUTHENTICATION = frozenset({33, 34, 58})
"""UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED."""


def refusal_of(access: ClusterAccess) -> AccessRefused | None:
    """Look whether we are let in; None also where nothing answers, which may pass."""
    if access.security == PLAINTEXT:
        return None
    settings = DialSettings(CLIENT_ID, request_timeout_s=ANSWER_TIMEOUT_S)
    with contextlib.closing(WireCluster(access, settings)) as cluster:
        try:
            cluster.metadata([])
        except AccessRefused as refused:
            return refused
        except ConnectionLost:
            return None
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
        What to do where the cluster does not answer.
    """
    code = error.errno or -1 if isinstance(error, BrokerResponseError) else None
    if code is not None and code not in _AUTHENTICATION:
        return BrokerError(f"{text}: {error}", kafka_code=code)
    refusal = refusal_of(access)
    if refusal is not None:
        return refusal
    return ConnectionLost(
        f"{text} at {access.addresses}: {type(error).__name__}: {error}", hint=hint
    )
