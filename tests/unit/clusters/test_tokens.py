"""Tokens from a real endpoint on loopback: requested once, kept while fresh, refusals reported."""

from __future__ import annotations

import base64
import json
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typing_extensions import override

from heliostat.access import SecretRef, TokenEndpoint
from heliostat.clusters import tokens
from heliostat.errors import TokenRefused

WORD = "canary s&cret=1"


@dataclass
class Endpoint:
    """What the endpoint answers, and what it was asked."""

    status: int = 200
    answer: object = field(default_factory=lambda: {"access_token": "t1", "expires_in": 3600})
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, list[str]]]] = field(default_factory=list)
    settings: TokenEndpoint = field(init=False)

    def token(self) -> str:
        return tokens.fetch(self.settings, lambda: WORD)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A token endpoint that lives as long as the test."""
    script = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            kind, _, word = self.headers["Authorization"].partition(" ")
            assert kind == "Basic"
            user, _, secret = base64.b64decode(word).decode().partition(":")
            unquoted = urllib.parse.unquote_plus(user), urllib.parse.unquote_plus(secret)
            script.asked.append((*unquoted, urllib.parse.parse_qs(form)))
            body = json.dumps(script.answer).encode()
            self.send_response(script.status)
            for name, value in script.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/token"
    script.settings = TokenEndpoint(url, "me", SecretRef(env="NONE"), "kafka read")
    yield script
    server.shutdown()
    thread.join()
    server.server_close()
    tokens.forget(script.settings)


def test_a_token_is_requested_once_while_it_is_fresh(endpoint: Endpoint) -> None:
    """Given a token of an hour / when used often / then one request, another after a refusal."""
    assert [endpoint.token(), endpoint.token()] == ["t1", "t1"]
    form = {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    assert endpoint.asked == [("me", WORD, form)]
    tokens.forget(endpoint.settings)
    endpoint.answer = {"access_token": "t2"}
    assert endpoint.token() == "t2"
    endpoint.answer = {"access_token": "t3", "expires_in": 0}
    assert endpoint.token() == "t3", "a token whose life is not told is not kept"


REFUSALS: dict[str, tuple[int, object, str]] = {
    "wrong secret": (401, {"error": "invalid_client"}, "status 401"),
    "no token in it": (200, {"token": "t"}, "returns no token"),
    "no object": (200, ["t"], "returns no token"),
    "life that is no number": (200, {"access_token": "t", "expires_in": "x"}, "returns no token"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_an_endpoint_without_tokens_is_reported_without_the_secret(
    case: str, endpoint: Endpoint
) -> None:
    """Given an endpoint that fails / when asked / then address and reason are shown, no secret."""
    endpoint.status, endpoint.answer, text = REFUSALS[case]
    with pytest.raises(TokenRefused, match=text) as caught:
        endpoint.token()
    assert endpoint.settings.url in str(caught.value)
    assert "canary" not in str(caught.value)


def test_the_secret_goes_through_no_proxy_unencrypted(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a proxy for plain HTTP in the environment / when asked / then asked directly."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        at = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, at)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert endpoint.token() == "t1"
        proxy.settimeout(0)
        with pytest.raises(BlockingIOError):
            proxy.accept()


def test_tls_through_a_proxy_is_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a proxy for TLS / when asked / then through a tunnel: it sees no secret."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def serve() -> None:
            client, _ = proxy.accept()
            seen.append(client.recv(65_536))
            client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        url = "https://tokens.example:8443/token"
        with pytest.raises(TokenRefused):
            tokens.fetch(TokenEndpoint(url, "me", SecretRef(env="NONE"), ""), lambda: WORD)
        thread.join()
    assert seen[0].startswith(b"CONNECT tokens.example:8443 ")
    assert b"Authorization" not in seen[0]


def test_the_secret_follows_no_redirect_and_a_missing_endpoint_is_reported(
    endpoint: Endpoint,
) -> None:
    """Given a redirect, or a closed port / when asked / then refused, and nothing else asked."""
    endpoint.status, endpoint.headers = 307, {"Location": endpoint.settings.url + "2"}
    with pytest.raises(TokenRefused, match="status 307"):
        endpoint.token()
    assert len(endpoint.asked) == 1
    nobody = replace(endpoint.settings, url="http://127.0.0.1:1/token")
    with pytest.raises(TokenRefused, match="can't be reached"):
        tokens.fetch(nobody, lambda: WORD)
