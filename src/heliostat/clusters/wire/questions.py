"""Questions to one broker over an open connection: requests sent together, then their answers.

Requests and answers are kafka-python's message classes, or ours with the same methods. Who is asked
and how long to wait is decided elsewhere, see `control_connection`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from heliostat.clusters.kafka_decoders import make_decoders_alone
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.primitives import request_header, skip_tagged_fields
from heliostat.errors import ProtocolError

make_decoders_alone()
SOFTWARE_NAME = "heliostat"
Versions = Mapping[int, tuple[int, int]]
"""Lowest and highest version of each request that a broker supports, by API key."""
NO_VERSIONS: Versions = MappingProxyType({})


class Question(NamedTuple):
    """Requests of one kind, the class of their answers, and the newest version that we use."""

    requests: Sequence[Any]
    response: Any
    version_max: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests of one kind that are in flight."""

    connection: Connection
    requests: Sequence[Any]
    version: int
    sent: Sequence[int]
    """Their correlation ids."""
    sent_s: float
    """When the first was sent (monotonic)."""


def ask(
    connection: Connection, requests: Sequence[Any], response: Any, version: int, within_s: float
) -> list[Any]:
    """Send all requests, then take all answers; raises as `take_answers`."""
    return take_answers(begin_ask(connection, requests, version), response, within_s)


def begin_ask(connection: Connection, requests: Sequence[Any], version: int) -> Asked:
    """Send requests.

    Raises
    ------
    ConnectionLost
        They can't be sent.
    """
    sent: list[int] = []
    began_s = time.monotonic()
    for request in requests:
        header = request_header(
            request.API_KEY,
            version,
            sent_as := connection.next_correlation_id(),
            connection.settings.client_id,
            flexible=bool(type(request).flexible_version_q(version)),
        )
        connection.send([header, request.encode(version=version)])
        sent.append(sent_as)
    return Asked(connection, requests, version, sent, began_s)


def take_answers(asked: Asked, response: Any, within_s: float) -> list[Any]:
    """Take all answers: they come in the order of the requests.

    Raises
    ------
    ConnectionLost
        One does not come within `within_s`.
    ProtocolError
        One belongs to another request.
    """
    until_s = time.monotonic() + within_s
    receive = asked.connection.receive
    frames = [receive(max(0.0, until_s - time.monotonic())) for _ in asked.requests]
    request = asked.requests[0]
    if [frame.correlation_id for frame in frames] != asked.sent:
        raise ProtocolError("an answer belongs to another request", api_key=request.API_KEY)
    # ApiVersions answers carry header v0 so that any client can read them (KIP-511).
    has_tags = type(request).flexible_version_q(asked.version)
    has_tags = has_tags and request.API_KEY != ApiVersionsRequest.API_KEY
    starts = [skip_tagged_fields(frame.buffer, 4) if has_tags else 4 for frame in frames]
    return [
        response.decode(memoryview(frame.buffer)[start:], version=asked.version)
        for frame, start in zip(frames, starts, strict=True)
    ]


def ask_versions(connection: Connection, within_s: float) -> Versions:
    """Lowest and highest version of each request that a broker supports, by API key."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="0")
    (answer,) = ask(connection, [request], ApiVersionsResponse, 3, within_s)
    return {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}


def newest_shared(versions: Versions, api_key: int, ours: Sequence[int]) -> int:
    """Highest version of a request that both sides support.

    Raises
    ------
    ProtocolError
        There is none.
    """
    low, high = versions.get(api_key, (0, -1))
    fitting = [version for version in ours if low <= version <= high]
    if not fitting:
        raise ProtocolError(
            "broker and Heliostat share no version of a request",
            hint="brokers from 2.8 on are supported",
            api_key=api_key,
            broker_has=f"{low}-{high}",
            ours=list(ours),
        )
    return max(fitting)
