"""The hot path's connection over real TLS and SASL on loopback: bytes, refusals, renewals."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import random
import select
import selectors
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
from support.scripted_broker import DIGEST_BYTES, ECHO, Script, ScriptedBroker, pattern

from heliostat.access import PLAINTEXT, ClusterAccess, Sasl, SecretRef, Security
from heliostat.clusters.wire.buffers import HeldBytes
from heliostat.clusters.wire.connection import Connection, DialSettings
from heliostat.clusters.wire.frames import Frame
from heliostat.clusters.wire.primitives import request_header
from heliostat.clusters.wire.tls import explained
from heliostat.errors import (
    AuthenticationRefused,
    ConnectionLost,
    CredentialsUnreadable,
    HeliostatError,
    TlsFailed,
    Verdict,
)
from heliostat.names import Endpoint
from heliostat.records.copier.lane import LaneSpec
from heliostat_sandbox.certificates import KeyPair, issue, make_authority

PASSWORD = "c4nary, of=words"  # noqa: S105  # a test's
USER = "li,nk=1"
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ANSWER_S = 10.0
LEFT_BYTES = 32 << 20
"""More than sockets hold."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of certificates, and a password."""
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = make_authority(folder, "ca"), make_authority(folder, "stranger-ca")
    issue(folder, "broker", authority, subject="broker", hosts=("IP:127.0.0.1",))
    issue(folder, "elsewhere", authority, subject="x", hosts=("DNS:elsewhere.example",))
    issue(folder, "client", authority, subject="client")
    issue(folder, "stranger", stranger, subject="client")
    (folder / "password").write_text(PASSWORD + "\n")
    return folder


def pair(folder: Path, name: str) -> KeyPair:
    return KeyPair(folder / f"{name}.pem", folder / f"{name}.key")


def tls(folder: Path, **options: object) -> Security:
    options = {"protocol": "SSL", "ca_file": str(folder / "ca.pem"), **options}
    return Security(**options)  # type: ignore[arg-type]  # a test's shorthand


def with_client(folder: Path, name: str) -> Security:
    shown = pair(folder, name)
    return tls(folder, certificate_file=str(shown.certificate), key_file=str(shown.key))


def sasl(folder: Path, mechanism: str, file: str = "password", user: str = USER) -> Security:
    secret = SecretRef(str(folder / file))
    by_token = mechanism == "OAUTHBEARER"
    who = Sasl(mechanism, token=secret) if by_token else Sasl(mechanism, user, secret)
    return tls(folder, protocol="SASL_SSL", sasl=who)


@contextlib.contextmanager
def connected(
    script: Script, security: Security, *, timeout_s: float = ANSWER_S
) -> Iterator[tuple[Connection, ScriptedBroker]]:
    """One connection to a listener of its own."""
    with ScriptedBroker(script) as broker:
        settings = DialSettings("test", request_timeout_s=timeout_s, security=security)
        with contextlib.closing(Connection(broker.endpoint, settings)) as connection:
            yield connection, broker


def ask(connection: Connection, wanted: int, parts: list[bytes]) -> tuple[int, bytes]:
    """Send one request; its correlation id and the answer it must get."""
    number = connection.next_correlation_id()
    body = [struct.pack(">i", wanted), *parts]
    header = request_header(ECHO, 0, number, "test", flexible=False)
    connection.send([header, *body])
    return number, hashlib.sha256(b"".join(body)).digest() + pattern(wanted)


def check(frame: Frame, expected: tuple[int, bytes]) -> None:
    assert frame.correlation_id == expected[0]
    assert bytes(frame.buffer[4:]) == expected[1]


def echo(connection: Connection, wanted: int, parts: list[bytes]) -> None:
    """One request and its answer."""
    expected = ask(connection, wanted, parts)
    check(connection.receive(ANSWER_S), expected)


def talk(script: Script, security: Security) -> None:
    with connected(script, security) as (connection, _):
        echo(connection, 0, [])


def refused(script: Script, security: Security) -> HeliostatError:
    with pytest.raises(ConnectionLost) as caught:
        talk(script, security)
    assert caught.value.verdict is Verdict.RETRY
    assert PASSWORD not in str(caught.value)
    assert caught.value.hint
    return caught.value


def test_frames_of_all_sizes_cross_tls_whole_and_none_is_left_unread(made: Path) -> None:
    """Given pipelined answers / when read by selector and `has_held` / then all come, in order."""
    rng = random.Random(7)
    sizes = [
        0,
        1,
        3,
        16_379,
        16_384,
        16_385,
        3_000_000,
        *(rng.randrange(60_000) for _ in range(60)),
    ]
    with connected(Script(pair(made, "broker")), tls(made)) as (connection, _):
        expected = [ask(connection, size, [b"x" * rng.randrange(9)]) for size in sizes]
        selector = selectors.DefaultSelector()
        selector.register(connection, selectors.EVENT_READ)
        deadline_s = time.monotonic() + ANSWER_S
        while expected:
            assert time.monotonic() < deadline_s, f"{len(expected)} answers never came"
            if not connection.has_held() and not selector.select(1.0):
                continue
            if (frame := connection.pump()) is not None:
                check(frame, expected.pop(0))
        assert not connection.has_held()
        selector.close()


def test_requests_of_many_parts_cross_tls_whole(made: Path) -> None:
    """Given small and large parts mixed / when sent over TLS / then the broker read all of them."""
    rng = random.Random(9)
    with connected(Script(pair(made, "broker")), tls(made)) as (connection, _):
        for _ in range(10):
            parts = [rng.randbytes(rng.choice([0, 1, 61, 5000, 70_000])) for _ in range(900)]
            echo(connection, DIGEST_BYTES, parts)


@pytest.mark.parametrize("security", ["plain", "TLS"])
def test_what_a_slow_broker_does_not_read_at_once_is_sent_later(made: Path, security: str) -> None:
    """Given more than socket buffers hold / when sent / then all arrives in order, later."""
    rng = random.Random(11)
    is_plain = security == "plain"
    script = Script(None if is_plain else pair(made, "broker"))
    parts = [rng.randbytes(rng.choice([0, 1, 61, 5000, 700_000])) for _ in range(300)]
    bodies = [[struct.pack(">i", DIGEST_BYTES), *parts[at : at + 150]] for at in (0, 150)]
    with connected(script, PLAINTEXT if is_plain else tls(made)) as (connection, _):
        numbers = [connection.next_correlation_id() for _ in bodies]
        headers = [request_header(ECHO, 0, each, "test", flexible=False) for each in numbers]
        script.hangs.set()
        connection.begin_send(*([head, *body] for head, body in zip(headers, bodies, strict=True)))
        assert connection.has_unsent
        script.hangs.clear()
        deadline_s = time.monotonic() + ANSWER_S
        while connection.has_unsent:
            assert time.monotonic() < deadline_s
            select.select([], [connection], [], 0.1)
            connection.send_on()
        for number, body in zip(numbers, bodies, strict=True):
            answered = hashlib.sha256(b"".join(body)).digest() + pattern(DIGEST_BYTES)
            check(connection.receive(ANSWER_S), (number, answered))


def test_a_broker_that_reads_nothing_over_tls_times_out(made: Path) -> None:
    """Given a listener that reads nothing / when more is sent than fits / then lost."""
    script = Script(pair(made, "broker"), reads=False)
    with (
        connected(script, tls(made), timeout_s=0.5) as (connection, _),
        pytest.raises(ConnectionLost, match="accepts no data"),
    ):
        ask(connection, 0, [bytes(64 << 20)])


def test_a_broker_that_goes_away_over_tls_is_a_lost_connection(made: Path) -> None:
    """Given a connection / when the other side closes it / then receiving raises ConnectionLost."""
    with connected(Script(pair(made, "broker")), tls(made)) as (connection, broker):
        echo(connection, 5, [])
        broker.__exit__()
        with pytest.raises(ConnectionLost, match="closed"):
            connection.receive(ANSWER_S)


REFUSALS: dict[str, tuple[Callable[[Path], tuple[Script, Security]], type, str]] = {
    "certificate of another host": (
        lambda at: (Script(pair(at, "elsewhere")), tls(at)),
        TlsFailed,
        "for another host",
    ),
    "authority that is not ours": (
        lambda at: (Script(pair(at, "broker")), tls(at, ca_file=str(at / "stranger-ca.pem"))),
        TlsFailed,
        "not trusted",
    ),
    "no client certificate": (
        lambda at: (Script(pair(at, "broker"), client_authority=at / "ca.pem"), tls(at)),
        TlsFailed,
        "refuses our certificate",
    ),
    "client certificate of a stranger": (
        lambda at: (
            Script(pair(at, "broker"), client_authority=at / "ca.pem"),
            with_client(at, "stranger"),
        ),
        TlsFailed,
        "refuses our certificate",
    ),
    "TLS asked of a plain listener": (
        lambda at: (Script(), tls(at)),
        TlsFailed,
        "one without TLS",
    ),
    "plain asked of a TLS listener": (
        lambda at: (Script(pair(at, "broker")), Security()),
        ConnectionLost,  # OpenSSL closes in silence; brokers send an alert
        "check security.protocol",
    ),
    "no such authority file": (
        lambda at: (Script(pair(at, "broker")), tls(at, ca_file=str(at / "none.pem"))),
        CredentialsUnreadable,
        "none.pem",
    ),
    "authority file without a certificate": (
        lambda at: (Script(pair(at, "broker")), tls(at, ca_file=str(at / "password"))),
        CredentialsUnreadable,
        "can't be used",
    ),
    "mechanism that is not offered": (
        lambda at: (Script(pair(at, "broker"), mechanisms=SCRAMS), sasl(at, "PLAIN")),
        AuthenticationRefused,
        "SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    "SCRAM from whose proof a password could be guessed": (
        lambda at: (
            Script(pair(at, "broker"), mechanisms=SCRAMS, users={USER: PASSWORD}, iterations=4095),
            sasl(at, "SCRAM-SHA-256"),
        ),
        AuthenticationRefused,
        "fewer than 4096 iterations",
    ),
    "SASL asked of a listener without": (
        lambda at: (Script(pair(at, "broker")), sasl(at, "PLAIN")),
        AuthenticationRefused,
        "speaks no SASL",
    ),
    "secret that is not there": (
        lambda at: (
            Script(pair(at, "broker"), mechanisms=("PLAIN",)),
            sasl(at, "PLAIN", file="no-such-file"),
        ),
        CredentialsUnreadable,
        "no-such-file",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_has_its_code_reason_and_hint(case: str, made: Path) -> None:
    """Given a misfit of listener and settings / when connected / then code, reason and hint fit."""
    build, kind, text = REFUSALS[case]
    error = refused(*build(made))
    assert type(error) is kind, error
    assert text in str(error)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAMS, "OAUTHBEARER"])
def test_each_mechanism_accepts_its_users_only(mechanism: str, made: Path) -> None:
    """Given users of a listener / when the secret is right / then accepted, else refused."""
    script = Script(pair(made, "broker"), mechanisms=(mechanism,), users={USER: PASSWORD})
    with connected(script, sasl(made, mechanism)) as (connection, broker):
        echo(connection, 70_000, [b"z" * 70_000])
        assert broker.authenticated == [USER]
    script.users = {USER: "another"}
    error = refused(script, sasl(made, mechanism))
    assert isinstance(error, AuthenticationRefused)
    assert "refuses our credentials" in str(error)


def test_mutual_tls_and_unchecked_host_names_work_when_configured(made: Path) -> None:
    """Given a client certificate, or no host name check / when connected / then bytes arrive."""
    script = Script(pair(made, "broker"), client_authority=made / "ca.pem")
    with connected(script, with_client(made, "client")) as (connection, _):
        echo(connection, 10, [])
    loose = tls(made, verify_hostname=False)
    with connected(Script(pair(made, "elsewhere")), loose) as (connection, _):
        echo(connection, 10, [])


def test_a_key_may_have_a_password(made: Path) -> None:
    """Given an encrypted key / when its password is right / then accepted, else reported."""
    locked = made / "locked.key"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(made / "client.key"), "-out", str(locked)]
    subprocess.run([*command, "-passout", f"file:{made / 'password'}"], check=True)
    security = replace(with_client(made, "client"), key_file=str(locked))
    script = Script(pair(made, "broker"), client_authority=made / "ca.pem")
    word = SecretRef(str(made / "password"))
    with connected(script, replace(security, key_password=word)) as (connection, _):
        echo(connection, 10, [])
    for wrong in (None, SecretRef(str(made / "ca.pem"))):
        error = refused(script, replace(security, key_password=wrong))
        assert isinstance(error, CredentialsUnreadable)
        assert "locked.key" in str(error)


def test_a_secret_is_read_again_for_each_connection(made: Path, tmp_path: Path) -> None:
    """Given a password changed on both sides / when connected again / then accepted."""
    (tmp_path / "ca.pem").write_bytes((made / "ca.pem").read_bytes())
    security = sasl(tmp_path, "SCRAM-SHA-256")
    script = Script(pair(made, "broker"), mechanisms=SCRAMS)
    for word in ("first", "second"):
        (tmp_path / "password").write_text(word)
        script.users = {USER: word}
        with connected(script, security) as (_, broker):
            assert broker.authenticated == [USER]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_session_is_renewed_in_time_and_no_request_in_flight_is_lost(
    mechanism: str, made: Path
) -> None:
    """Given sessions of a second and requests pipelined / when sent on / then all are answered."""
    users = {USER: PASSWORD}
    script = Script(pair(made, "broker"), mechanisms=(mechanism,), users=users, session_s=1.2)
    with connected(script, sasl(made, mechanism)) as (connection, broker):
        expected: list[tuple[int, bytes]] = []
        deadline_s = time.monotonic() + ANSWER_S
        while len(broker.authenticated) < 3 or expected:
            assert time.monotonic() < deadline_s
            if len(broker.authenticated) < 3:
                expected.append(ask(connection, 3000, [b"y" * 100]))
            if len(expected) > 4 or len(broker.authenticated) >= 3:
                check(connection.receive(ANSWER_S), expected.pop(0))
    assert set(broker.authenticated) == {USER}


def test_a_lane_is_sent_to_its_task_without_any_secret(made: Path) -> None:
    """Given a lane that names a secret / when pickled or printed / then it is not there."""
    access = ClusterAccess(("127.0.0.1:1",), sasl(made, "PLAIN"))
    names = [each.name for each in fields(LaneSpec)]
    lane = LaneSpec(**{name: access if name.endswith("_access") else None for name in names})
    again = pickle.loads(pickle.dumps(lane))  # noqa: S301  # made a line above
    assert again.source_access == again.target_access == access
    assert PASSWORD.encode() not in pickle.dumps(lane)
    assert PASSWORD not in repr(lane)


@pytest.mark.parametrize("is_secured", [False, True])
def test_an_answer_without_room_waits_until_there_is_some(made: Path, *, is_secured: bool) -> None:
    """Given an answer without room / when there is room / then it arrives unchanged."""
    script = Script(pair(made, "broker")) if is_secured else Script()
    with connected(script, tls(made) if is_secured else PLAINTEXT) as (connection, _):
        asked: list[int] = []
        connection.buffer_for = asked.append
        expected = ask(connection, LEFT_BYTES, [])
        while not connection.waits_for_room:
            assert connection.pump() is None
        assert connection.pump() is None
        assert connection.is_receiving
        assert asked == [4 + DIGEST_BYTES + LEFT_BYTES] * 2
        connection.buffer_for = lambda size: memoryview(bytearray(size))
        check(connection.receive(ANSWER_S), expected)
        assert not connection.waits_for_room


def test_unsent_bytes_can_be_copied_and_arrive_whole(made: Path) -> None:
    """Given a request that a broker is slow to read / when copied / then it arrives unchanged."""
    held, copied = HeldBytes(), HeldBytes()
    with connected(Script(), PLAINTEXT) as (connection, broker):
        broker.script.hangs.set()
        body = [pattern(size) for size in (7, LEFT_BYTES, 5)]
        number = connection.next_correlation_id()
        header = request_header(ECHO, 0, number, "test", flexible=False)
        views = []
        for part in (struct.pack(">i", 0), *body):
            view = held.view(bytearray(part))
            views.append(view)
        connection.begin_send([header, *views])
        expected = number, hashlib.sha256(b"".join(views)).digest()
        del view, views
        assert connection.has_unsent
        assert held.bytes >= LEFT_BYTES
        connection.copy_unsent(copied.view)
        assert held.bytes == 0
        kept = copied.bytes
        assert LEFT_BYTES / 2 < kept <= LEFT_BYTES + 100
        connection.copy_unsent(copied.view)
        assert copied.bytes == kept
        broker.script.hangs.clear()
        until_s = time.monotonic() + ANSWER_S
        while connection.has_unsent and time.monotonic() < until_s:
            connection.send_on()
        check(connection.receive(ANSWER_S), expected)
        assert copied.bytes == 0


@pytest.mark.parametrize(
    ("code", "text", "hint"),
    [
        (9, "is not valid now", "issue a new one for the broker"),
        (10, "is not valid now", "issue a new one for the broker"),
        (19, "is not trusted", "ca_file must hold the authority"),
        (20, "is not trusted", "ca_file must hold the authority"),
        (62, "is for another host", "dial a name that is in the certificate"),
    ],
)
def test_the_hint_fits_what_is_wrong_with_a_certificate(code: int, text: str, hint: str) -> None:
    """Given OpenSSL's codes of a certificate that is refused / then what to do about that one."""
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, "as OpenSSL words it"
    found = explained(error, Endpoint("broker", 9093))
    assert text in found.text
    assert hint in found.hint


def test_our_own_certificate_that_has_expired_is_said_to_be_ours() -> None:
    error = ssl.SSLError()
    error.reason = "SSLV3_ALERT_CERTIFICATE_EXPIRED"
    found = explained(error, Endpoint("broker", 9093))
    assert (found.text, "certificate_file" in found.hint) == ("our certificate has expired", True)
