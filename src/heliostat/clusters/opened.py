"""Clients of kafka-python that leave nothing behind where they can't be opened.

In 3.0.12 a constructor that fails, as at a cluster that is away, leaves its thread running: it
tries on for ever, and each further attempt adds another one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from kafka.net.compat import KafkaNetClient


def opened(kind: Callable[..., Any], **settings: Any) -> Any:
    """Open a `KafkaAdminClient`, `KafkaConsumer` or `KafkaProducer`; raises what it raises."""
    made: list[Any] = []

    def remembered(*given: Any, **named: Any) -> Any:
        made.append(KafkaNetClient(*given, **named))
        return made[-1]

    try:
        return kind(kafka_client=remembered, **settings)
    except BaseException:
        for client in made:
            with contextlib.suppress(Exception):  # what the constructor raised says more
                client.close()
            client._manager._net.stop()  # noqa: SLF001  # as the clients' own `close` does
        raise
