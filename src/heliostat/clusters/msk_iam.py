"""SASL mechanism AWS_MSK_IAM of Amazon MSK: a request to connect, signed with AWS credentials.

The broker's host name is in what is signed, with `kafka-cluster:Connect` as the action, as in a
presigned address of AWS (SigV4). The signer and the chain of credentials (environment, profiles,
roles of machines, containers and web identities) are botocore's, which only the extra `msk-iam`
installs.
"""

from __future__ import annotations

import json
import re
import threading
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kafka.net.sasl.abc import SaslMechanism
from typing_extensions import override

from heliostat.access import Sasl
from heliostat.errors import CredentialsUnreadable

VERSION = "2020_10_22"
SERVICE = "kafka-cluster"
ACTION = "kafka-cluster:Connect"
USER_AGENT = "heliostat"
LASTS_S = 900
"""How long a signature is valid: it is made anew for each connection."""
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")

_lock = threading.Lock()
_refreshed: dict[str, Any] = {}
"""Credentials that botocore renews by itself, by profile: a role's cost a request each time."""


class MskIam(SaslMechanism):  # type: ignore[misc]  # kafka-python carries no types
    """One authentication: a signed request, and the broker's answer.

    Parameters
    ----------
    config
        `host`, and our identity as `sasl_oauth_token_provider`: kafka-python's clients take no
        settings but their own, and use none of these themselves.
    """

    def __init__(self, **config: Any) -> None:
        self._host: str = config["host"]
        self._sasl: Sasl = config["sasl_oauth_token_provider"]
        self._answer: bytes | None = None

    @override
    def auth_bytes(self) -> bytes:
        """Return the signed request.

        Raises
        ------
        CredentialsUnreadable
            There is no botocore, no credentials or no region.
        """
        region = self._sasl.aws_region or region_of(self._host)
        return signed(self._host, region, _credentials(self._sasl.aws_profile))

    @override
    def receive(self, auth_bytes: bytes) -> None:
        self._answer = auth_bytes

    @override
    def is_done(self) -> bool:
        return self._answer is not None

    @override
    def is_authenticated(self) -> bool:
        """Whether the broker has accepted: a refusal is an error, and an answer is never empty."""
        return bool(self._answer)

    @override
    def auth_details(self) -> str:
        return "Authenticated via SASL / AWS_MSK_IAM"


def signed(host: str, region: str, credentials: Any) -> bytes:
    """Return the request that asks a broker to connect.

    Parameters
    ----------
    host
        The broker's host name, as in its certificate.
    credentials
        Access key, secret key and, of a role, a session token, as botocore has them.
    """
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    request = AWSRequest("GET", f"https://{host}/", params={"Action": ACTION})
    SigV4QueryAuth(credentials, SERVICE, region, LASTS_S).add_auth(request)
    query = dict(parse_qsl(urlsplit(request.url).query, strict_parsing=True))
    rows = {"version": VERSION, "host": host, "user-agent": USER_AGENT}
    rows |= {name.lower(): value for name, value in query.items()}
    return json.dumps(rows, separators=(",", ":")).encode()


def region_of(host: str) -> str:
    """Return the region in the name of one of Amazon's brokers.

    Raises
    ------
    CredentialsUnreadable
        It is another name.
    """
    match = _REGION.search(host)
    if match is None:
        raise CredentialsUnreadable(
            f"AWS_MSK_IAM needs a region, and {host} does not name one",
            hint="set security.aws_region",
        )
    return match[1]


def forget(profile: str) -> None:
    """Drop kept credentials, after a broker has refused them."""
    with _lock:
        _refreshed.pop(profile, None)


def _credentials(profile: str) -> Any:
    try:
        from botocore.credentials import RefreshableCredentials
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        raise CredentialsUnreadable(
            "AWS_MSK_IAM needs the package botocore",
            hint="pip install 'heliostat[msk-iam]', on every machine that copies",
        ) from None
    try:
        with _lock:
            kept = _refreshed.get(profile)
            if kept is None:
                kept = Session(profile=profile or None).get_credentials()
                if isinstance(kept, RefreshableCredentials):
                    _refreshed[profile] = kept
            if kept is not None:
                return kept.get_frozen_credentials()
    except BotoCoreError as error:
        raise CredentialsUnreadable(
            f"AWS credentials can't be obtained: {type(error).__name__}",
            hint="check the profile, and that this machine may assume its role",
            profile=profile,
        ) from None
    raise CredentialsUnreadable(
        "there are no AWS credentials",
        hint="give this process some as for any AWS client: environment, ~/.aws, or a role",
        profile=profile,
    )
