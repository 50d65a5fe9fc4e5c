"""A client that can't be opened leaves no thread running."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from support.leaks import clients_left

from heliostat.clusters.opened import opened


@pytest.mark.parametrize("kind", [KafkaConsumer, KafkaProducer])
def test_a_client_that_fails_to_open_leaves_nothing_running(kind: Callable[..., Any]) -> None:
    known = frozenset(threading.enumerate())
    with pytest.raises(KafkaError):
        opened(kind, bootstrap_servers=["127.0.0.1:1"], bootstrap_timeout_ms=200)
    assert clients_left(known) == []
