"""SASL over a connection of the hot path: SaslHandshake v1, SaslAuthenticate v2 (KIP-152, KIP-368).

The mechanisms are in `credentials`; here are the frames that carry them, and what refusals mean.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from heliostat.access import Sasl
from heliostat.clusters import msk_iam, tokens
from heliostat.clusters.credentials import sasl_mechanism
from heliostat.clusters.wire.primitives import skip_tagged_fields
from heliostat.errors import AuthenticationRefused
from heliostat.names import Endpoint

HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 2
"""Brokers from 2.5 on support it; the answer has the session's lifetime."""
UNSUPPORTED_MECHANISM = 33
ILLEGAL_STATE = 34
TURNS_MAX = 5
"""SCRAM takes two turns, OAUTHBEARER one, or two if the token is refused."""


class Exchange(Protocol):
    """Sends one request and returns its answer, without the correlation id."""

    def __call__(self, api_key: int, version: int, body: bytes, *, flexible: bool) -> memoryview:
        """Return the request's answer."""
        ...


def authenticate(exchange: Exchange, endpoint: Endpoint, sasl: Sasl) -> float:
    """Authenticate; return the session's lifetime in seconds, 0 if it is unlimited.

    Raises
    ------
    AuthenticationRefused
        The broker refuses mechanism or credentials.
    CredentialsUnreadable, TokenRefused
        The credentials can't be read or obtained.
    ConnectionLost
        The broker went away.
    """
    _shake_hands(exchange, endpoint, sasl)
    mechanism = sasl_mechanism(sasl, endpoint.host)
    received = b""
    for _ in range(TURNS_MAX):
        answer = _turn(exchange, mechanism)
        if answer.error_code:
            raise _refused(endpoint, sasl, answer.error_message or "", received)
        received = bytes(answer.auth_bytes)
        try:
            mechanism.receive(received)
        except (ValueError, LookupError) as error:
            # SCRAM is mutual: the broker's proof is wrong, or missing.
            raise _refused(endpoint, sasl, f"the broker's answer: {error}", b"") from None
        if mechanism.is_done():
            if not mechanism.is_authenticated():
                raise _refused(endpoint, sasl, "", received)
            return max(0, int(answer.session_lifetime_ms)) / 1000
    raise _refused(endpoint, sasl, "the broker does not end the exchange", b"")


def _shake_hands(exchange: Exchange, endpoint: Endpoint, sasl: Sasl) -> None:
    request = SaslHandshakeRequest(mechanism=sasl.mechanism)
    body = bytes(request.encode(version=HANDSHAKE_VERSION))
    raw = exchange(SaslHandshakeRequest.API_KEY, HANDSHAKE_VERSION, body, flexible=False)
    answer = SaslHandshakeResponse.decode(raw, version=HANDSHAKE_VERSION)
    if answer.error_code == UNSUPPORTED_MECHANISM:
        offered = ", ".join(answer.mechanisms)
        raise AuthenticationRefused(
            f"the listener does not offer {sasl.mechanism}",
            hint="set security.mechanism to one that it offers",
            broker=str(endpoint),
            offered=offered,
        )
    if answer.error_code == ILLEGAL_STATE:
        raise AuthenticationRefused(
            "the listener speaks no SASL",
            hint="check security.protocol and the port",
            broker=str(endpoint),
        )
    if answer.error_code:
        raise _refused(endpoint, sasl, f"Kafka error {answer.error_code}", b"")


def _turn(exchange: Exchange, mechanism: Any) -> Any:
    request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
    body = bytes(request.encode(version=AUTHENTICATE_VERSION))
    raw = exchange(SaslAuthenticateRequest.API_KEY, AUTHENTICATE_VERSION, body, flexible=True)
    return SaslAuthenticateResponse.decode(
        raw[skip_tagged_fields(raw, 0) :], version=AUTHENTICATE_VERSION
    )


def _refused(endpoint: Endpoint, sasl: Sasl, why: str, received: bytes) -> AuthenticationRefused:
    if sasl.token_endpoint is not None:
        tokens.forget(sasl.token_endpoint)
    if sasl.mechanism == "AWS_MSK_IAM":
        msk_iam.forget(sasl.aws_profile)
    facts = {"user": sasl.username} if sasl.username else {}
    if received and sasl.mechanism == "OAUTHBEARER":
        why = f"{why} {received.decode(errors='replace')}".strip()
    return AuthenticationRefused(
        f"the broker refuses our credentials ({sasl.mechanism})",
        broker=str(endpoint),
        why=why,
        **facts,
    )
