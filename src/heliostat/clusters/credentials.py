"""Turns references to secrets into TLS contexts and SASL mechanisms when a connection is dialed.

The only module that reads secrets. It keeps none beyond the connection it is for, and puts none
into messages. The mechanisms are kafka-python's own, also on the hot path, except that of MSK.
"""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.abc import SaslMechanism
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram
from typing_extensions import override

from heliostat.access import ClusterAccess, Sasl, SecretRef, Security
from heliostat.clusters import tokens
from heliostat.clusters.msk_iam import MskIam
from heliostat.errors import CredentialsUnreadable

SCRAM_ITERATIONS_MIN = 4096
"""RFC 7677 section 4, and the minimum for users that Kafka itself stores (`ScramMechanism`)."""
SECRET_BYTES_MAX = 64 * 1024
"""A token has a few KiB; a larger file is something else."""


def reveal(secret: SecretRef) -> str:
    """Read a secret from its file or environment variable.

    Raises
    ------
    CredentialsUnreadable
        No such file or variable, no right to read it, or it is empty.
    """
    if secret.env:
        value = os.environ.get(secret.env, "")
        where = f"environment variable {secret.env}"
    else:
        where = f"file {secret.file}"
        try:
            with Path(secret.file).open("rb") as file:
                value = file.read(SECRET_BYTES_MAX + 1).decode()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise CredentialsUnreadable(f"the secret in {where} can't be read: {why}") from None
    value = value.strip()
    if not value or len(value) > SECRET_BYTES_MAX:
        raise CredentialsUnreadable(f"no secret in {where}: it is empty, missing or too long")
    return value


def tls_context(security: Security) -> ssl.SSLContext:
    """A new context that reads the files now: renewed certificates need no restart.

    Raises
    ------
    CredentialsUnreadable
        A file can't be read or holds nothing usable.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.verify_hostname
    password = reveal(security.key_password) if security.key_password else None
    file = security.ca_file
    try:
        if security.ca_file:
            context.load_verify_locations(security.ca_file)
        else:
            context.load_default_certs()
        if security.certificate_file:
            file = security.key_file
            # Never let OpenSSL ask for a missing password on a terminal.
            context.load_cert_chain(
                security.certificate_file, security.key_file, password or (lambda: b"")
            )
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "unusable"
        raise CredentialsUnreadable(f"a file for TLS can't be used: {why}", file=file) from None
    return context


def sasl_mechanism(sasl: Sasl, host: str) -> SaslMechanism:
    """Mechanism for one authentication: call `auth_bytes` and `receive` until `is_done`.

    Raises
    ------
    CredentialsUnreadable, TokenRefused
        The secret can't be read, or the token endpoint issues no token. That of AWS_MSK_IAM raises
        them when it is asked for its bytes.
    """
    return _MECHANISMS[sasl.mechanism](host=host, **_sasl_settings(sasl))


def client_settings(access: ClusterAccess) -> dict[str, Any]:
    """Settings of kafka-python's clients for this access; they read secrets when they connect."""
    security = access.security
    settings: dict[str, Any] = {
        "bootstrap_servers": list(access.bootstrap),
        "security_protocol": security.protocol,
    }
    if security.is_encrypted:
        settings["ssl_context"] = _FreshContexts(security)
    if security.sasl is not None:
        settings |= _sasl_settings(security.sasl)
    return settings


class _FreshContexts:
    """Stands in for an `SSLContext`, of which kafka-python calls only this method."""

    def __init__(self, security: Security) -> None:
        self._security = security

    def wrap_socket(self, sock: socket.socket, **options: Any) -> ssl.SSLSocket:
        """Read the files and wrap the socket: a client lives longer than its certificate."""
        return tls_context(self._security).wrap_socket(sock, **options)


def _sasl_settings(sasl: Sasl) -> dict[str, Any]:
    settings: dict[str, Any] = {"sasl_mechanism": sasl.mechanism}
    if sasl.mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _Tokens(sasl)
    elif sasl.mechanism == "AWS_MSK_IAM":
        settings["sasl_oauth_token_provider"] = sasl  # see `MskIam`
    else:
        settings["sasl_plain_username"] = sasl.username
        settings["sasl_plain_password"] = sasl.password
    return settings


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python carries no types
    """A token for each authentication: from its file, or from the endpoint until it expires."""

    def __init__(self, sasl: Sasl) -> None:
        self._sasl = sasl

    @override
    def token(self) -> str:
        if self._sasl.token is not None:
            return reveal(self._sasl.token)
        assert self._sasl.token_endpoint is not None
        endpoint = self._sasl.token_endpoint
        return tokens.fetch(endpoint, lambda: reveal(endpoint.client_secret))


class _Plain(SaslMechanismPlain):  # type: ignore[misc]  # kafka-python carries no types
    def __init__(self, **config: Any) -> None:
        super().__init__(**_revealed(config))


class _Scram(SaslMechanismScram):  # type: ignore[misc]  # kafka-python carries no types
    def __init__(self, **config: Any) -> None:
        # RFC 5802 section 5.1 escapes `=` and `,` in names; kafka-python does not.
        name = config["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")
        super().__init__(**_revealed({**config, "sasl_plain_username": name}))

    @override
    def receive(self, auth_bytes: bytes) -> bool:
        """Take the broker's answer.

        Raises
        ------
        ValueError
            It is not valid, or asks for a proof from which the password could be guessed.
        """
        # Only the first answer has the iteration count; without it kafka-python stops.
        fields = dict(attribute.split("=", 1) for attribute in auth_bytes.decode().split(","))
        if int(fields.get("i", SCRAM_ITERATIONS_MIN)) < SCRAM_ITERATIONS_MIN:
            raise ValueError(f"it asks for fewer than {SCRAM_ITERATIONS_MIN} iterations")
        return bool(super().receive(auth_bytes))


def _revealed(config: dict[str, Any]) -> dict[str, Any]:
    # Without the protocol: kafka-python would warn about the operator's choice at each connection.
    password = config["sasl_plain_password"]
    value = reveal(password) if isinstance(password, SecretRef) else password
    return {**config, "sasl_plain_password": value, "security_protocol": ""}


_MECHANISMS: dict[str, type[SaslMechanism]] = {
    "PLAIN": _Plain,
    "SCRAM-SHA-256": _Scram,
    "SCRAM-SHA-512": _Scram,
    "OAUTHBEARER": SaslMechanismOAuth,
    "AWS_MSK_IAM": MskIam,
}
for _name, _kind in _MECHANISMS.items():
    # kafka-python keeps a client's settings for its life and prints them in its debug log; with a
    # reference in place of the password there is nothing to print, and a new password is used.
    register_sasl_mechanism(_name, _kind, overwrite=True)
