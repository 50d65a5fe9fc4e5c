"""Whether clusters answer: found out before a verb would wait for them for half a minute."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.config import ClusterConfig
from heliostat.errors import ConnectionLost
from heliostat.ops.asked import NoAnswerYet, PendingAnswer

SETTINGS = DialSettings("heliostat", connect_timeout_s=2.0, request_timeout_s=2.0)
ANSWER_WITHIN_S = 4.0


def require_answer(*clusters: ClusterConfig) -> None:
    """Ask all of these clusters at once whether a broker of them answers.

    Raises
    ------
    ConnectionLost
        No broker of one of them answers within `ANSWER_WITHIN_S`.
    """
    asked = [(each, PendingAnswer(partial(_ask, each), "reach")) for each in clusters]
    for cluster, answer in asked:
        try:
            answer.answer(ANSWER_WITHIN_S)
        except NoAnswerYet:
            raise ConnectionLost(
                f"{cluster.access().described} does not answer within {ANSWER_WITHIN_S:g} s"
            ) from None


def _ask(cluster: ClusterConfig) -> None:
    with closing(WireCluster(cluster.access(), SETTINGS)) as reached:
        reached.metadata([])
