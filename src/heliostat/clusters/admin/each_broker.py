"""One question to each broker, about what each knows by its own copy of the metadata."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kafka.protocol.metadata import MetadataRequest

from heliostat.clusters.admin.caller import Caller
from heliostat.errors import ConnectionLost, HeliostatError
from heliostat.names import BrokerId
from heliostat.ops.asked import NoAnswerYet, PendingAnswer

LOOK_S = 4.0
"""How long to wait for a broker; one that hangs is named as silent."""
Answer = TypeVar("Answer")


def each_broker(
    caller: Caller, ask: Callable[[BrokerId], Answer]
) -> dict[BrokerId, Answer | HeliostatError]:
    """Ask every broker that any of them names; those that fail have their error.

    Raises
    ------
    ConnectionLost
        None of them can be reached, not even to learn who they are.
    """
    answers: dict[BrokerId, Answer | HeliostatError] = {}
    left = _named(caller.metadata([]))
    while left:  # ends: nobody names another one
        asks = {
            broker: PendingAnswer(partial(_with_others, caller, ask, broker), f"asks {broker}")
            for broker in sorted(left)
        }
        until_s = time.monotonic() + LOOK_S
        others = set[BrokerId]()
        for broker, pending in asks.items():
            try:
                named, answers[broker] = pending.answer(max(0.0, until_s - time.monotonic()))
                others |= named
            except NoAnswerYet:
                answers[broker] = ConnectionLost(f"broker {broker} does not answer")
            except HeliostatError as error:
                answers[broker] = error
        left = others - answers.keys()
    return answers


def _with_others(
    caller: Caller, ask: Callable[[BrokerId], Answer], broker: BrokerId
) -> tuple[set[BrokerId], Answer]:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    return _named(caller.send(request, broker)), ask(broker)


def _named(answer: Any) -> set[BrokerId]:
    return {BrokerId(row.node_id) for row in answer.brokers}
