"""An InfluxDB 1.x to which figures are written. Secrets are named here, never written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from heliostat.access import Security
from heliostat.config.frozen import Frozen
from heliostat.config.registry import is_read_by_others
from heliostat.config.security import FilePath, Secret, is_address


def _check_url(url: str) -> str:
    parts = urlsplit(url if is_address(url) else "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no address such as https://influxdb:8086")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must have no user and password: give username and password")
    if parts.query or parts.fragment:
        raise ValueError("must end with the path: the database has a key of its own")
    return url.rstrip("/")


class InfluxConfig(Frozen):
    """An InfluxDB 1.x, or what takes its line protocol at `/write`."""

    url: Annotated[str, AfterValidator(_check_url), Field(title="Address")]
    """Its address, such as `https://influxdb:8086`; a path before `/write` may follow."""
    database: Annotated[str, Field(title="Database", min_length=1)] = "heliostat"
    """The database; it must exist."""
    retention_policy: Annotated[str | None, Field(title="Retention policy", min_length=1)] = None
    """Its retention policy; null = the database's default."""
    username: Annotated[str | None, Field(title="User", min_length=1)] = None
    """User name."""
    password: Annotated[Secret | None, Field(title="Password")] = None
    """Where the password is; read again for each request. Credentials need `https`, except on this
    machine itself."""
    ca_file: Annotated[FilePath | None, Field(title="Authorities")] = None
    """PEM file of the CAs that sign its certificate; null = the system's."""
    every_s: Annotated[float, Field(title="Interval (s)", ge=1, le=3600)] = 10.0
    """Between two points of a series."""
    keep_s: Annotated[float, Field(title="Keep (s)", ge=0, le=86_400)] = 600.0
    """How long points wait while it is away; at most 32 MiB of them, compressed. Older ones are
    dropped, counted and told."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if problems := list(self._problems()):
            raise ValueError("; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        if (self.username is None) != (self.password is None):
            yield "username and password belong together"
        if self.password is not None and is_read_by_others(self.url):
            yield "credentials only with an https address (http only on this machine itself)"
        if self.ca_file is not None and urlsplit(self.url).scheme != "https":
            yield "ca_file only with an https address"

    def security(self) -> Security:
        """Return the security of its connections as a plain value."""
        return Security("SSL", ca_file=self.ca_file or "")
