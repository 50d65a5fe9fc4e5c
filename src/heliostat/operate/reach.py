"""Whether clusters answer: found out before a verb would wait for them for half a minute."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings, SignsOfLife
from heliostat.config import ClusterConfig
from heliostat.errors import ConnectionLost
from heliostat.ops.asked import NoAnswerYet, PendingAnswer

STEP_S = 2.0
ANSWER_WITHIN_S, ANSWER_MAX_S = 4.0, 20.0
"""A cluster that says nothing for that long does not answer; one that is far may take longer."""


def require_answer(*clusters: ClusterConfig) -> None:
    """Ask all of these clusters at once whether a broker of them answers.

    Raises
    ------
    ConnectionLost
        No broker of one of them answers within `ANSWER_WITHIN_S`.
    """
    asked = [(cluster_config, SignsOfLife()) for cluster_config in clusters]
    pending = [PendingAnswer(partial(_ask, *pair), "reach") for pair in asked]
    for (cluster, signs), answer in zip(asked, pending, strict=True):
        try:
            answer.answer_while(partial(getattr, signs, "last_s"), ANSWER_WITHIN_S, ANSWER_MAX_S)
        except NoAnswerYet:
            raise ConnectionLost(
                f"{cluster.access().described} does not answer within {ANSWER_WITHIN_S:g} s"
            ) from None


def _ask(cluster: ClusterConfig, signs: SignsOfLife) -> None:
    settings = DialSettings(
        "heliostat", connect_timeout_s=STEP_S, request_timeout_s=STEP_S, signs=signs
    )
    with closing(WireCluster(cluster.access(), settings)) as reached:
        reached.metadata([])
