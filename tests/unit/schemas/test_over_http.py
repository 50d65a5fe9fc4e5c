"""The adapter over real HTTP on loopback: addresses, retries, limits, and what is never sent twice.

Pauses pass on a clock of the test; only silence and slow answers take real time.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from support.registry_contract import fresh_subject, record
from support.registry_server import Asked, RegistryServer, Reply

from heliostat.access import RegistryAccess
from heliostat.errors import (
    HeliostatError,
    RegistryAnswerInvalid,
    RegistryError,
    RegistryUnreachable,
)
from heliostat.schemas.registry import HttpRegistry, Retries, Timeouts, calls, over_http
from heliostat.schemas.registry.values import Schema, Subject
from heliostat_sandbox.ports import LOOPBACK, free_ports

START_MS = 1_790_000_000_000


class PausingClock:
    """Time passes in pauses only."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic_s(self) -> float:
        return sum(self.pauses)

    def wall_ms(self) -> int:
        return START_MS + int(sum(self.pauses) * 1000)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def failing(status: int = 503, **headers: str) -> Reply:
    body = json.dumps({"error_code": status * 100 + 1, "message": "down"}).encode()
    return Reply(status, body, {name.replace("_", "-"): text for name, text in headers.items()})


def opened(*urls: str, clock: PausingClock | None = None, **options: object) -> HttpRegistry:
    return HttpRegistry(
        RegistryAccess(urls),
        clock=clock or PausingClock(),
        chance=lambda: 1.0,
        **options,  # type: ignore[arg-type]  # what the constructor takes
    )


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def other() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def clock() -> PausingClock:
    return PausingClock()


@pytest.fixture
def dead_url() -> str:
    """An address at which nobody listens."""
    (port,) = free_ports(1)
    return f"http://{LOOPBACK}:{port}"


def test_a_request_arrives_as_it_is_and_the_path_of_the_address_comes_first() -> None:
    with RegistryServer(path="/apis/ccompat/v7") as server:
        subject = Subject("a/b c?d#é%41..")
        with opened(f"{server.url}/") as registry:
            registry.ask(calls.register(subject, record()))
            registry.ask(calls.subjects(prefix="a&b=c", deleted=True))
    first, second = server.asked
    assert first.method == "POST"
    assert first.target == "/apis/ccompat/v7/subjects/a%2Fb%20c%3Fd%23%C3%A9%2541../versions"
    assert first.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert "Authorization" not in first.headers
    query = "subjectPrefix=a%26b%3Dc&deleted=true"
    assert second.target == f"/apis/ccompat/v7/subjects?{query}"
    assert second.body == b""


def test_one_connection_serves_many_requests(server: RegistryServer) -> None:
    with opened(server.url) as registry:
        for _ in range(3):
            registry.ask(calls.subjects())
    assert server.connections == 1


def test_a_failing_registry_is_asked_again_after_growing_pauses(
    server: RegistryServer, clock: PausingClock
) -> None:
    server.once(failing(500), failing(503), Reply(None))
    with opened(server.url, clock=clock) as registry:
        assert registry.ask(calls.subjects()) == ()
    assert clock.pauses == [0.25, 0.5, 1.0]


def test_a_registry_that_keeps_failing_is_given_up_with_its_own_words(
    server: RegistryServer, clock: PausingClock
) -> None:
    server.troubles.append(lambda _: failing(500))
    with (
        opened(server.url, clock=clock, retries=Retries(turns=3)) as registry,
        pytest.raises(RegistryError, match="down") as refused,
    ):
        registry.ask(calls.subjects())
    assert refused.value.name == "STORE_ERROR"
    assert refused.value.context["registry"] == server.url
    assert "GET /subjects" in str(refused.value)
    assert len(server.asked) == 3


def test_no_turn_begins_after_the_limit(server: RegistryServer, clock: PausingClock) -> None:
    server.troubles.append(lambda _: failing(500))
    retries = Retries(turns=100, pause_s=4.0, pause_max_s=4.0, within_s=10.0)
    with opened(server.url, clock=clock, retries=retries) as registry, pytest.raises(RegistryError):
        registry.ask(calls.subjects())
    assert clock.pauses == [4.0, 4.0]


def test_retry_after_is_kept_to(server: RegistryServer, clock: PausingClock) -> None:
    server.once(failing(429, Retry_After="7"), failing(500))
    with opened(server.url, clock=clock) as registry:
        registry.ask(calls.subjects())
    assert clock.pauses == [7.0, 0.5]


def test_a_longer_retry_after_than_the_limit_is_told_at_once(
    server: RegistryServer, clock: PausingClock
) -> None:
    server.troubles.append(lambda _: failing(429, Retry_After="3600"))
    with opened(server.url, clock=clock) as registry, pytest.raises(RegistryError) as refused:
        registry.ask(calls.subjects())
    assert refused.value.name == "TOO_MANY_REQUESTS"
    assert refused.value.context["retry_after_s"] == 3600.0
    assert clock.pauses == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_a_refusal_is_final(server: RegistryServer, other: RegistryServer, status: int) -> None:
    server.once(failing(status))
    with opened(server.url, other.url) as registry, pytest.raises(RegistryError):
        registry.ask(calls.subjects())
    assert len(server.asked) == 1
    assert other.asked == []


@pytest.mark.parametrize(
    "trouble",
    [
        failing(500),
        failing(429),
        Reply(None),
        Reply(200, b"<html>", {"Content-Type": "text/html"}),
        Reply(200, b'{"subjects": 1}'),
        Reply(200, b"[", announced_bytes=100),
        Reply(302, b"", {"Location": "http://127.0.0.1:1/"}),
        Reply(200, b"no gzip", {"Content-Encoding": "gzip"}),
    ],
    ids=["500", "429", "closed", "page", "other", "cut", "redirect", "gzip"],
)
def test_the_next_address_is_asked_at_once_and_stays_the_first(
    server: RegistryServer, other: RegistryServer, clock: PausingClock, trouble: Reply
) -> None:
    server.once(trouble)
    with opened(server.url, other.url, clock=clock) as registry:
        assert registry.ask(calls.subjects()) == ()
        assert registry.ask(calls.subjects()) == ()
    assert (len(server.asked), len(other.asked)) == (1, 2)
    assert clock.pauses == []


def test_an_address_without_a_listener_costs_nothing(
    server: RegistryServer, clock: PausingClock, dead_url: str
) -> None:
    with opened(dead_url, server.url, clock=clock) as registry:
        assert registry.ask(calls.subjects()) == ()
    assert clock.pauses == []


def test_each_address_and_its_trouble_is_told(server: RegistryServer, dead_url: str) -> None:
    server.troubles.append(lambda _: failing(500))
    with (
        opened(server.url, dead_url) as registry,
        pytest.raises(RegistryUnreachable, match="does not answer") as refused,
    ):
        registry.ask(calls.subjects())
    assert refused.value.context["registry"] == dead_url
    assert refused.value.context["others"] == {server.url: "down"}


def test_garbage_that_stays_is_no_registry(server: RegistryServer) -> None:
    server.troubles.append(lambda _: Reply(200, b"<html>login</html>"))
    with opened(server.url) as registry, pytest.raises(RegistryAnswerInvalid, match="login"):
        registry.ask(calls.subjects())


def test_a_silent_registry_is_left_after_a_limit(
    server: RegistryServer, other: RegistryServer
) -> None:
    server.once(Reply(200, b"[]", silence_s=30.0))
    timeouts = Timeouts(silence_s=0.2)
    with opened(server.url, other.url, timeouts=timeouts) as registry:
        assert registry.ask(calls.subjects()) == ()
    assert len(other.asked) == 1


def test_a_listener_that_accepts_and_says_nothing(server: RegistryServer) -> None:
    with socket.create_server((LOOPBACK, 0)) as mute:
        url = f"http://{LOOPBACK}:{mute.getsockname()[1]}"
        with opened(url, server.url, timeouts=Timeouts(silence_s=0.2)) as registry:
            assert registry.ask(calls.subjects()) == ()


def test_an_answer_that_drips_is_left_after_a_limit(server: RegistryServer) -> None:
    server.once(Reply(200, b" " * 100 + b"[]", drip_s=0.02))
    timeouts = Timeouts(silence_s=10.0, answer_s=0.2)
    with HttpRegistry(RegistryAccess((server.url,)), timeouts=timeouts) as registry:
        assert registry.ask(calls.subjects()) == ()
    assert len(server.asked) == 2


def test_an_endless_answer_is_cut(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_http, "ANSWER_BYTES_MAX", 1_000)
    server.troubles.append(lambda _: Reply(200, b"[" + b" " * 2_000 + b"]"))
    with opened(server.url) as registry, pytest.raises(RegistryAnswerInvalid, match="too large"):
        registry.ask(calls.subjects())


def test_what_may_have_been_done_is_not_sent_again(
    server: RegistryServer, other: RegistryServer
) -> None:
    """Given a deletion whose answer is lost / when it is asked for / then it is sent once."""
    server.once(Reply(None))
    with (
        opened(server.url, other.url) as registry,
        pytest.raises(RegistryUnreachable, match="may have been carried out"),
    ):
        registry.ask(calls.delete_subject(fresh_subject()))
    assert len(server.asked) == 1
    assert other.asked == []


def test_what_was_never_sent_is_sent_to_the_next(server: RegistryServer, dead_url: str) -> None:
    subject = fresh_subject()
    with opened(dead_url, server.url) as registry:
        registry.ask(calls.register(subject, record()))
        registry._first = 0
        assert registry.ask(calls.delete_subject(subject)) == (1,)


def test_registering_again_after_a_lost_answer_gives_the_same_id(server: RegistryServer) -> None:
    """Given an answer that is lost after the work / when it is sent again / then it is once."""
    lost: list[Asked] = []

    def lose_answer(asked: Asked) -> Reply | None:
        if lost:
            return None
        lost.append(asked)
        server.double.register(subject, json.loads(asked.body))
        return Reply(None)

    subject = fresh_subject()
    server.troubles.append(lose_answer)
    with opened(server.url) as registry:
        assert registry.ask(calls.register(subject, record())) == 1
        assert registry.ask(calls.versions(subject)) == (1,)


def test_each_address_is_asked(
    server: RegistryServer, other: RegistryServer, dead_url: str
) -> None:
    """Given a schema at one of three / when all are asked / then each gives its own answer."""
    schema = record()
    urls = (server.url, other.url, dead_url)
    with opened(*urls) as registry:
        schema_id = registry.ask(calls.register(fresh_subject(), schema))
        found = registry.ask_each(calls.schema_by_id(schema_id))
    assert list(found) == list(urls)
    assert found[server.url] == schema
    missing, lost = found[other.url], found[dead_url]
    assert isinstance(missing, RegistryError)
    assert missing.name == "SCHEMA_NOT_FOUND"
    assert isinstance(lost, RegistryUnreachable)


def test_a_closed_client_opens_again(server: RegistryServer) -> None:
    registry = opened(server.url)
    registry.ask(calls.subjects())
    registry.close()
    assert registry.ask(calls.subjects()) == ()
    registry.close()
    assert server.connections == 2


def test_a_large_schema_goes_both_ways(server: RegistryServer) -> None:
    """106 kB is the largest schema of the EFD today; some of other people have MiB."""
    schema = Schema(
        json.dumps({"title": "ü" * (2 << 20)}, separators=(",", ":"), ensure_ascii=False), "JSON"
    )
    with opened(server.url) as registry:
        schema_id = registry.ask(calls.register(fresh_subject(), schema))
        assert registry.ask(calls.schema_by_id(schema_id)) == schema


@pytest.mark.parametrize(
    "urls",
    [(), ("registry:8081",), ("ftp://r",), ("http://",), ("http://u:p@r",), ("http://r?x=1",)],
)
def test_an_address_that_is_none_is_refused(urls: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="registry"):
        RegistryAccess(urls)


def test_errors_are_ours(dead_url: str) -> None:
    with opened(dead_url) as registry, pytest.raises(HeliostatError) as refused:
        registry.ask(calls.subjects())
    assert "[REGISTRY_UNREACHABLE]" in str(refused.value)
    assert "ConnectError" in str(refused.value)
