"""Opens and closes kafka-python's clients without leaving anything behind if they fail.

In 3.0.12 a constructor that fails, for example if the cluster is down, leaves its thread running:
it retries for ever, and each further attempt adds another one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from heliostat.clusters.kafka_decoders import make_decoders_alone

make_decoders_alone()
SETUP_TIMEOUT_MS = 4_000
"""A broker that hangs accepts connections but never answers: another one is tried after this time.
It doubles with each failure in a row; with kafka-python's 10 s, reading a state topic took as
long."""


def opened(kind: Callable[..., Any], **settings: Any) -> Any:
    """Open a `KafkaConsumer` or `KafkaProducer`; raises what it raises."""
    made: list[tuple[KafkaNetClient, NetworkSelector]] = []

    def remembered(**named: Any) -> KafkaNetClient:
        # Not all of the clients accept the setting.
        named["socket_connection_setup_timeout_ms"] = SETUP_TIMEOUT_MS
        net = NetworkSelector(**named)
        manager = KafkaConnectionManager(net, **named)
        client = KafkaNetClient(net, manager, **named)
        made.append((client, net))
        return client

    try:
        opened_client = kind(kafka_client=remembered, **settings)
    except BaseException:
        for client, net in made:
            with contextlib.suppress(Exception):  # the constructor's error says more
                client.close()
            net.stop()  # as the clients' own `close` does
        raise
    return opened_client
