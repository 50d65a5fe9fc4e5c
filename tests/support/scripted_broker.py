"""A listener on loopback with a broker's TLS, SASL and framing, and nothing else.

The first four bytes of requests other than ApiVersions and SASL's are the length of the answer,
which consists of the request's digest and `pattern` of that length.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from heliostat.names import Endpoint
from heliostat_sandbox.certificates import KeyPair

METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE, ECHO = 3, 17, 18, 36, 1000
VERSIONS_ANSWER = bytes(
    ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=3)
            for key in (METADATA, VERSIONS)
        ],
    ).encode(version=3)
)
AUTHENTICATION_FAILED, UNSUPPORTED_MECHANISM, ILLEGAL_STATE = 58, 33, 34
ITERATIONS = 4096
DIGEST_BYTES = 32
REQUEST_BYTES_MAX = 100 << 20
"""`socket.request.max.bytes` of a broker: it closes the connection above."""
HASHES = {"SCRAM-SHA-256": hashlib.sha256, "SCRAM-SHA-512": hashlib.sha512}


@dataclass
class Script:
    """Behaviour of the listener."""

    certificate: KeyPair | None = None
    client_authority: Path | None = None
    """Clients must show a certificate that it signed."""
    mechanisms: tuple[str, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict)
    """Passwords by user name; for OAUTHBEARER the valid tokens; for AWS_MSK_IAM secret keys by
    access key."""
    iterations: int = ITERATIONS
    """Iterations of SCRAM's hash."""
    session_s: float = 0.0
    reads: bool = True
    """If false, it reads nothing from its sockets once connected."""
    hangs: threading.Event = field(default_factory=threading.Event)
    """While set, nothing is read or answered, but connections are accepted."""


def pattern(size: int) -> bytes:
    """Return bytes that show if some are lost or duplicated."""
    block = b"".join(struct.pack(">I", number) for number in range(4096))
    return (block * (size // len(block) + 1))[:size]


class ScriptedBroker:
    """Serves connections until the block ends."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.authenticated: list[str] = []
        """Authenticated users in order; again for each renewed session."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint("127.0.0.1", self._server.getsockname()[1])
        self._stopping = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            self._sockets.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError, struct.error))
            stack.callback(sock.close)
            if self.script.certificate is not None:
                sock = self._shaken(sock, stack)
            if not self.script.reads:
                self._stopping.wait()
                return
            session = _Session(self.script)
            for frame in _frames(sock, self._hang):
                self._hang()
                answer = session.answer(frame)
                if answer is None:
                    return
                self.authenticated += session.proved
                session.proved.clear()
                sock.sendall(struct.pack(">i", len(answer)) + answer)

    def _hang(self) -> None:
        while self.script.hangs.is_set() and not self._stopping.is_set():
            time.sleep(0.005)

    def _shaken(self, sock: socket.socket, stack: contextlib.ExitStack) -> socket.socket:
        plain = sock.dup()
        stack.callback(plain.close)
        try:
            sock = self._tls().wrap_socket(sock, server_side=True)
        except OSError:
            # Closing with unread bytes would reset the connection, and the alert would be lost.
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(4096):
                pass
            raise
        self._sockets.append(sock)
        stack.callback(sock.close)
        return sock

    def _tls(self) -> ssl.SSLContext:
        pair = self.script.certificate
        assert pair is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        if self.script.client_authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.script.client_authority)
        return context


def _frames(sock: socket.socket, before_each: Callable[[], None]) -> Iterator[bytes]:
    with sock.makefile("rb") as stream:
        while head := stream.read(4):
            [size] = struct.unpack(">i", head)
            if not 0 <= size <= REQUEST_BYTES_MAX:
                return
            before_each()  # a hung listener leaves the rest of a request in its socket
            yield stream.read(size)


class _Session:
    """One connection's requests, handled as `SaslServerAuthenticator` does."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.proved: list[str] = []
        self._is_open = not script.mechanisms
        self._ends_s = 0.0
        self._mechanism = ""
        self._scram: _Scram | None = None

    def answer(self, frame: bytes) -> bytes | None:
        """Return the answer from its correlation id on; None closes the connection."""
        key, version, number, length = struct.unpack_from(">hhih", frame)
        body = frame[10 + length :]
        head = struct.pack(">i", number)
        if key == VERSIONS:
            return head + VERSIONS_ANSWER
        if key == HANDSHAKE:
            return head + self._shake_hands(body, version)
        if key == AUTHENTICATE:
            return head + b"\x00" + self._authenticate(body[1:], version)
        if not self._is_open or (self._ends_s and time.monotonic() > self._ends_s):
            return None
        [wanted] = struct.unpack_from(">i", body)
        return head + hashlib.sha256(body).digest() + pattern(wanted)

    def _shake_hands(self, body: bytes, version: int) -> bytes:
        asked = SaslHandshakeRequest.decode(body, version=version).mechanism
        known = self.script.mechanisms
        code = 0 if asked in known else UNSUPPORTED_MECHANISM if known else ILLEGAL_STATE
        self._mechanism, self._scram = asked, None
        answer = SaslHandshakeResponse(error_code=code, mechanisms=list(known))
        return bytes(answer.encode(version=version))

    def _authenticate(self, body: bytes, version: int) -> bytes:
        said = bytes(SaslAuthenticateRequest.decode(body, version=version).auth_bytes)
        if self._mechanism in HASHES:
            told, who = self._turn_of_scram(said)
        elif self._mechanism == "PLAIN":
            _, user, password = said.decode().split("\0")
            told, who = b"", user if self.script.users.get(user) == password else ""
        elif self._mechanism == "AWS_MSK_IAM":
            who = signer_of(said, self.script.users)
            told = b'{"version":"2020_10_22"}' if who else b""
        else:
            told, who = self._token(said)
        if who:
            self._is_open = True
            self._ends_s = time.monotonic() + self.script.session_s if self.script.session_s else 0
            self.proved.append(who)
        failed = who == ""
        answer = SaslAuthenticateResponse(
            error_code=AUTHENTICATION_FAILED if failed else 0,
            error_message="Authentication failed" if failed else None,
            auth_bytes=told,
            session_lifetime_ms=int(self.script.session_s * 1000) if who else 0,
        )
        return bytes(answer.encode(version=version))

    def _token(self, said: bytes) -> tuple[bytes, str | None]:
        if said == b"\x01":
            return b"", ""
        token = said.split(b"Bearer ", 1)[1].split(b"\x01")[0].decode()
        for user, good in self.script.users.items():
            if token == good:
                return b"", user
        return b'{"status":"invalid_token"}', None

    def _turn_of_scram(self, said: bytes) -> tuple[bytes, str | None]:
        if self._scram is None:
            self._scram = _Scram(HASHES[self._mechanism], self.script.users, self.script.iterations)
            return self._scram.first(said), None
        return self._scram.last(said)


def signer_of(said: bytes, users: Mapping[str, str]) -> str:
    """Return whose key has signed a request of AWS_MSK_IAM; empty if none has, or it is no such.

    The signature is computed anew from the request's fields, as AWS describes it (SigV4).
    """
    fields = json.loads(said)
    signature, host = fields.pop("x-amz-signature"), fields.pop("host")
    if (fields.pop("version"), fields["action"]) != ("2020_10_22", "kafka-cluster:Connect"):
        return ""
    assert fields.pop("user-agent")
    assert fields["x-amz-signedheaders"] == "host"
    key_id, day, region, service, last = fields["x-amz-credential"].split("/")
    names = {"action": "Action"} | {
        name: "-".join(part.capitalize() for part in name.split("-"))
        for name in fields
        if "-" in name
    }
    names["x-amz-signedheaders"] = "X-Amz-SignedHeaders"
    rows = sorted((names[name], quote(value, safe="-_.~")) for name, value in fields.items())
    query = "&".join(f"{name}={value}" for name, value in rows)
    whole = f"GET\n/\n{query}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    key = b"AWS4" + users.get(key_id, "").encode()
    for part in (day, region, service, last):
        key = hmac.digest(key, part.encode(), "sha256")
    scope = f"{day}/{region}/{service}/{last}"
    digest = hashlib.sha256(whole.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{fields['x-amz-date']}\n{scope}\n{digest}"
    is_right = signature == hmac.digest(key, text.encode(), "sha256").hex()
    return key_id if is_right and service == "kafka-cluster" and key_id in users else ""


class _Scram:
    """The server's half of RFC 5802."""

    def __init__(self, kind: Callable[..., Any], users: Mapping[str, str], iterations: int) -> None:
        self._kind = kind
        self._iterations = iterations
        self._users = users

    def first(self, said: bytes) -> bytes:
        bare = said[3:]
        fields = dict(item.split("=", 1) for item in bare.decode().split(","))
        self.user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        salt = os.urandom(12)
        nonce = fields["r"] + base64.b64encode(os.urandom(9)).decode()
        first = f"r={nonce},s={base64.b64encode(salt).decode()},i={self._iterations}".encode()
        password = self._users.get(self.user, "").encode()
        name = self._kind().name
        self._salted = hashlib.pbkdf2_hmac(name, password, salt, self._iterations)
        self._message = bare + b"," + first + b",c=biws,r=" + nonce.encode()
        return first

    def last(self, said: bytes) -> tuple[bytes, str]:
        proof = base64.b64decode(said.rsplit(b",p=", 1)[1])
        key = self._mac(self._salted, b"Client Key")
        stored = self._kind(key).digest()
        wanted = bytes(a ^ b for a, b in zip(key, self._mac(stored, self._message), strict=True))
        if proof != wanted:
            return b"", ""
        server = self._mac(self._mac(self._salted, b"Server Key"), self._message)
        return b"v=" + base64.b64encode(server), self.user

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, self._kind).digest()
