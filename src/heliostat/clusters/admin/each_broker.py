"""One question to each broker, about what each knows by its own copy of the metadata."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from heliostat.clusters.admin.caller import Caller
from heliostat.clusters.kafka_codes import NETWORK_EXCEPTION
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId
from heliostat.ops.asked import asked_at_once

Answer = TypeVar("Answer")


def each_broker(
    caller: Caller, ask: Callable[[Caller, BrokerId], Answer]
) -> dict[BrokerId, Answer | BrokerError]:
    """Return the answer of each broker that the metadata names, or its error; asked at once."""

    def answer(broker: BrokerId) -> Answer | BrokerError:
        try:
            return ask(caller, broker)
        except BrokerError as error:
            return error
        except ConnectionLost as lost:
            text = f"broker {broker} does not answer: {lost.text}"
            return BrokerError(text, kafka_code=NETWORK_EXCEPTION)

    brokers = sorted(BrokerId(row.node_id) for row in caller.about(0.0).brokers)
    return asked_at_once({broker: partial(answer, broker) for broker in brokers})
