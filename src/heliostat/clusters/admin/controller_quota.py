"""Waits where a controller refuses to change topics for a quota (KIP-599).

`controller_mutation_rate` limits how many partitions a user or client creates and deletes in a
second. Beyond it the controller refuses what is left of a request with error 89, and says how long
to wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from heliostat.clusters.kafka_codes import THROTTLING_QUOTA_EXCEEDED

PATIENCE_S = 30.0
"""The longest wait for the quota in all; the next reconciliation asks again."""
PAUSE_S_MIN = 0.1


def sent_patiently(
    rows: Sequence[Any],
    send: Callable[[Sequence[Any]], Any],
    answers_in: Callable[[Any], Iterable[Any]],
    sleep: Callable[[float], None] = time.sleep,
) -> list[Any]:
    """Send rows of a request, and those that a quota refuses once more when it lets them pass.

    Parameters
    ----------
    rows
        Rows of the request, each with the name of a topic.
    send
        Sends some of them, and returns the response.
    answers_in
        Returns the rows of the response.
    sleep
        Waits for that time (s).

    Returns
    -------
    list
        The last answer on each topic.
    """
    answers: dict[str, Any] = {}
    left_s = PATIENCE_S
    while rows:  # ends: each turn takes a part of `left_s`
        response = send(rows)
        answers.update((row.name, row) for row in answers_in(response))
        refused = {n for n, row in answers.items() if row.error_code == THROTTLING_QUOTA_EXCEEDED}
        rows = [row for row in rows if row.name in refused]
        wait_s = max(PAUSE_S_MIN, response.throttle_time_ms / 1000)
        if not rows or wait_s > left_s:
            break
        sleep(wait_s)
        left_s -= wait_s
    return list(answers.values())
