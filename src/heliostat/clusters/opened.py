"""Clients of kafka-python that leave nothing behind where they can't be opened, or failed.

In 3.0.12 a constructor that fails, as at a cluster that is away, leaves its thread running: it
tries on for ever, and each further attempt adds another one. And after an outage of most of a
cluster producers and consumers were seen to time out for ever, with all brokers back: so whoever
holds one that failed leaves it, and opens another.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaError
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


def close_in_background(close: Callable[[], Any]) -> None:
    """Close a client that failed: one that is stuck may be so while it is closed, too."""

    def closing() -> None:
        with contextlib.suppress(KafkaError, OSError, RuntimeError):
            close()

    threading.Thread(target=closing, name="closing a client that failed", daemon=True).start()
