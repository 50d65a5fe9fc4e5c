"""Requests go to the configured address only, with the password that its file has then."""

from __future__ import annotations

import base64
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from heliostat.config.influx import InfluxConfig
from heliostat.metrics.influx.backlog import batch_of
from heliostat.metrics.influx.over_http import InfluxHttp

BATCH = batch_of(0, ["m v=1 1", "m v=2 2"])


class Server(HTTPServer):
    """Answers all alike, and keeps what was asked."""

    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None, str]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Authorization"], body.decode()))
        self.send_response(self.server.status)
        self.send_header("Location", f"{self.server.url}/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.requests.append((self.path, None, ""))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as answering:
        yield answering
        answering.shutdown()


def test_a_request_has_database_policy_and_credentials(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    influx = InfluxHttp(
        InfluxConfig.model_validate(
            {
                "url": f"{server.url}/influxdb/",
                "database": "e f&d",
                "retention_policy": "autogen",
                "username": "u",
                "password": {"file": str(secret)},
            }
        )
    )
    assert influx.send(BATCH.body, 2).why == ""
    ((path, authorization, body),) = server.requests
    assert path == "/influxdb/write?db=e+f%26d&precision=ms&rp=autogen"
    assert authorization == "Basic " + base64.b64encode(b"u:open sesame").decode()
    assert body == "m v=1 1\nm v=2 2"
    secret.unlink()
    outcome = influx.send(BATCH.body, 2)
    assert not outcome.is_over
    assert str(secret) in outcome.why


@pytest.mark.parametrize("status", [302, 307, 401, 500])
def test_other_answers_and_silence_mean_later(server: Server, status: int) -> None:
    server.status = status
    influx = InfluxHttp(InfluxConfig.model_validate({"url": server.url}))
    outcome = influx.send(BATCH.body, 2)
    assert not outcome.is_over
    assert outcome.why.startswith(f"status {status}")
    assert len(server.requests) == 1, "no redirect is followed"
    influx = InfluxHttp(InfluxConfig.model_validate({"url": "http://127.0.0.1:1"}))
    assert "refused" in influx.send(BATCH.body, 2).why
