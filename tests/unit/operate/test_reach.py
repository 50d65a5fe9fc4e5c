"""A dead cluster is found out before a verb that would wait for it."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from heliostat.config import ClusterConfig
from heliostat.errors import ConnectionLost
from heliostat.operate import reach


def test_a_port_where_nobody_listens_is_found_at_once() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionLost):
        reach.require_answer(ClusterConfig(bootstrap=f"127.0.0.1:{port}"))


def test_a_cluster_that_hangs_is_left_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "ANSWER_WITHIN_S", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        cluster = ClusterConfig(bootstrap=f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(ConnectionLost, match=r"does not answer within 0\.1 s"):
            reach.require_answer(cluster)
