"""A status is there in time, whatever hangs, for one link and for many.

Real sockets accept and never answer, as those of a stopped process do; waits are a tenth as long.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.config import Config
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.operate import status as operate
from heliostat.records.copier.lane import PartitionReport, PartitionState

SCALE = 0.1
WITHIN_S = 6.0 * SCALE
SLACK_S = 2.0
"""For a busy machine. A status that waited for an answer would take `READ_MAX_S`."""
LINKS = 20


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """Links whose clusters and registries all hang."""
    for name in ("READ_WITHIN_S", "PROBE_S", "ENDS_WITHIN_S"):
        monkeypatch.setattr(operate, name, SCALE * getattr(operate, name))
    with ExitStack() as stack:

        def hanging() -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=200))
            return f"127.0.0.1:{listener.getsockname()[1]}"

        clusters = {
            name: {"bootstrap": [hanging()], "schema_registry": {"urls": [f"http://{hanging()}"]}}
            for name in "ab"
        }
        link = {"source": "a", "target": "b", "schemas": {"strategy": "preserve"}}
        links = [{"name": f"l{number}", **link} for number in range(LINKS)]
        yield Config.model_validate({"clusters": clusters, "links": links})


@pytest.mark.parametrize("link", ["l0", None], ids=["one link", "all of them"])
def test_when_all_hangs_a_status_says_so_in_time(config: Config, link: str | None) -> None:
    began_s = time.monotonic()
    found = operate.statuses_apart(config, link)
    assert time.monotonic() - began_s < WITHIN_S + SLACK_S
    assert len(found) == (LINKS if link is None else 1)
    for status, error in found:
        assert status.state == "unreachable"
        assert "of b" in str(error)
        assert "accepts connections and does not answer" in str(error)


@pytest.mark.parametrize("link", ["l0", None], ids=["one link", "all of them"])
def test_when_the_source_hangs_a_status_says_what_the_target_knows(
    config: Config, link: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a target that answers, and lags that only the source could tell / then without them."""
    partition = TopicPartition(TopicName("t"), PartitionId(0))
    report = PartitionReport(partition, partition, PartitionState.STARTING, 0, 0, 0, 0, -1, -1, 0)
    board: Any = Mock(driver_at_ms=1)
    board.status.return_value = SimpleNamespace(state="running")
    board.to_read.return_value = [report]
    monkeypatch.setattr(operate, "last_heard", lambda *_: (board, 1))
    state = Mock()
    state.return_value.__enter__ = lambda _: state
    monkeypatch.setattr(operate, "LinkState", state)
    began_s = time.monotonic()
    found = operate.statuses_apart(config, link)
    assert time.monotonic() - began_s < WITHIN_S + SLACK_S
    assert [(status.state, error) for status, error in found] == [("running", None)] * len(found)
