"""A schema registry and how to reach it. Secrets are named here, never written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from heliostat.access import RegistryAccess, Security
from heliostat.config.frozen import Frozen
from heliostat.config.patterns import as_entries
from heliostat.config.security import (
    THIS_MACHINE,
    TLS_KEYS,
    FilePath,
    Secret,
    TokenEndpointConfig,
    is_address,
    key_problems,
)


def _check_url(url: str) -> str:
    if not is_address(url):
        raise ValueError("is no address such as https://registry:8081")
    RegistryAccess((url,))  # says what else is wrong, without quoting it
    return url


class RegistryConfig(Frozen):
    """A schema registry with Confluent's API."""

    urls: Annotated[
        tuple[Annotated[str, AfterValidator(_check_url)], ...],
        Strict(strict=False),
        BeforeValidator(as_entries),
        Field(title="Addresses", min_length=1),
    ]
    """Addresses of its nodes, each with the API's path, such as `https://registry:8081` or
    `http://localhost:8080/apis/ccompat/v7`; if one fails, the next is asked."""
    topic: Annotated[str, Field(title="Topic", min_length=1)] = "_schemas"
    """The topic of its cluster that the registry keeps schemas in (Confluent's `kafkastore.topic`).
    A link never copies it into the topic of another registry, which writes that itself."""
    ca_file: Annotated[FilePath | None, Field(title="Authorities")] = None
    """PEM file of the CAs that sign the registry's certificates; null = the system's."""
    certificate_file: Annotated[FilePath | None, Field(title="Certificate")] = None
    """PEM file of our own certificate with its chain, for mutual TLS."""
    key_file: Annotated[FilePath | None, Field(title="Key")] = None
    """PEM file of that certificate's private key."""
    key_password: Annotated[Secret | None, Field(title="Password of the key")] = None
    """Where the key's password is, if it has one."""
    verify_hostname: Annotated[bool, Field(title="Verify host name")] = True
    """Whether the registry's certificate must match its host name."""
    username: Annotated[str | None, Field(title="User", min_length=1)] = None
    """User name, for basic authentication."""
    password: Annotated[Secret | None, Field(title="Password")] = None
    """Where the password is, for basic authentication. Credentials need `https`, except on this
    machine itself."""
    token: Annotated[Secret | None, Field(title="Token")] = None
    """Where a token is, for bearer authentication; read again for each request, so that it may be
    renewed at any time."""
    token_endpoint: Annotated[TokenEndpointConfig | None, Field(title="Token endpoint")] = None
    """Where tokens are fetched, for bearer authentication."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        problems = [*self._tls_problems(), *self._credential_problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _tls_problems(self) -> Iterator[str]:
        given = [key for key in TLS_KEYS if key in self.model_fields_set]
        if given and all(urlsplit(url).scheme != "https" for url in self.urls):
            yield f"{', '.join(given)} only with an https address"
        yield from key_problems(self.certificate_file, self.key_file, self.key_password)

    def _credential_problems(self) -> Iterator[str]:
        if (self.username is None) != (self.password is None):
            yield "username and password belong together"
        secrets = (self.password, self.token, self.token_endpoint)
        given = sum(secret is not None for secret in secrets)
        if given > 1:
            yield "at most one of password, token and token_endpoint"
        if given and any(is_read_by_others(url) for url in self.urls):
            yield "credentials only with https addresses (http only on this machine itself)"

    def access(self, alias: str) -> RegistryAccess:
        """Return how to reach the registry; secrets are only referenced.

        Parameters
        ----------
        alias
            Of its cluster, for messages.
        """
        return RegistryAccess(
            self.urls,
            username=self.username or "",
            password=self.password.reference() if self.password else None,
            token=self.token.reference() if self.token else None,
            token_endpoint=self.token_endpoint.value() if self.token_endpoint else None,
            security=Security(
                "SSL",
                ca_file=self.ca_file or "",
                certificate_file=self.certificate_file or "",
                key_file=self.key_file or "",
                key_password=self.key_password.reference() if self.key_password else None,
                verify_hostname=self.verify_hostname,
            ),
            alias=alias,
        )

    def shared_url(self, other: RegistryConfig) -> str | None:
        """Return an address that leads to the other one as well: both are the same registry."""
        theirs = {_place(url) for url in other.urls}
        return next((url for url in self.urls if _place(url) in theirs), None)


def is_read_by_others(url: str) -> bool:
    """Whether others on the network can read what is sent there."""
    parts = urlsplit(url)
    return parts.scheme != "https" and parts.hostname not in THIS_MACHINE


def _place(url: str) -> tuple[str | None, int, str]:
    """Host, port and path, equal for all ways to write an address."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.hostname, port, parts.path.rstrip("/")
