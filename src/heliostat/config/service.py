"""The address at which the page, the reading API and the metrics are served."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, Strict, StringConstraints, model_validator

from heliostat.config.frozen import Frozen
from heliostat.config.influx import InfluxConfig
from heliostat.config.patterns import Patterns
from heliostat.names import Alias

HOST_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""By which a service on loopback is always called."""


def parts_of(address: str) -> tuple[str, int]:
    """Return host and port of an address such as `127.0.0.1:8083` or `[::1]:8083`.

    Raises
    ------
    ValueError
        It is none.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError("give it as HOST:PORT, such as 127.0.0.1:8083")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach that host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(text: str) -> str:
    parts_of(text)
    return text


LINK_PLACE = "{link}"
"""Stands for the link's name in the name of a group."""


def _group_name(text: str) -> str:
    if not text.strip() or "{" in text.replace(LINK_PLACE, "") or len(text) > 200:
        raise ValueError("give a name of up to 200 characters; {link} is the only placeholder")
    return text


Address = Annotated[str, AfterValidator(_address)]
GroupName = Annotated[str, AfterValidator(_group_name)]
LabelName = Annotated[str, StringConstraints(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")]
File = Annotated[Path, Strict(strict=False)]


class ServiceTls(Frozen):
    """Certificate of the service."""

    certificate_file: Annotated[File, Field(title="Certificate")]
    """PEM file with the certificate and those that it depends on."""
    key_file: Annotated[File, Field(title="Key")]
    """PEM file with its key."""


class ConnectConfig(Frozen):
    """Kafka Connect's API, at Connect's own paths of the same address."""

    enabled: Annotated[bool, Field(title="Enabled")] = True
    """Answer there. Connectors can be made only if `home` is set."""
    target: Annotated[Alias | None, Field(title="Target")] = None
    """Cluster that a connector means which names no target, as Connect's own cluster; null = it
    must name one."""


class ServiceConfig(Frozen):
    """Where people and programs watch links."""

    listen: Annotated[Address, Field(title="Listen")] = "127.0.0.1:8083"
    """Address of page, API and metrics. Others than this machine's own need `tokens_file` and
    `tls`. Port 0 = any free one."""
    health: Annotated[Address | None, Field(title="Health")] = None
    """Second address for `/livez`, `/readyz` and `/metrics` only, without tokens and TLS, as
    kubelet and Prometheus ask; null = none."""
    tls: Annotated[ServiceTls | Literal["terminated_elsewhere"] | None, Field(title="TLS")] = None
    """Certificate of the service, or `terminated_elsewhere` if a proxy before it has one."""
    tokens_file: Annotated[File | None, Field(title="Tokens")] = None
    """File with a line `name:role:sha256` for each token, the last in hexadecimal digits; roles are
    `view`, `operate` and `admin`. Only its owner may read it. It is read again when it changes."""
    home: Annotated[Alias | None, Field(title="Home")] = None
    """Cluster on which links that are made by API or Kafka Connect's API are kept, in the topic
    `heliostat.links`; null = links are in this file only."""
    allow: Annotated[Patterns, Field(title="Allowed")] = ()
    """Names or regular expressions of files, Python functions and expressions that call Java, which
    links made by API may name; none by default. What stands in this file needs no such entry."""
    connect: Annotated[ConnectConfig, Field(title="Kafka Connect's API")] = ConnectConfig()
    """For `kafkaconnect` and others of its clients, see docs/kafka-connect.md."""
    host_names: Annotated[tuple[str, ...], Strict(strict=False), Field(title="Host names")] = ()
    """Further names by which browsers may call a service on this machine's own address."""

    @model_validator(mode="after")
    def _is_guarded(self) -> Self:
        if is_loopback(parts_of(self.listen)[0]):
            return self
        if self.tokens_file is None or self.tls is None:
            raise ValueError(
                f"listen: {self.listen} can be reached from other machines: set tokens_file, and "
                "tls or tls: terminated_elsewhere"
            )
        return self


class MetricsTopics(Frozen):
    """Topics that have series of their own."""

    include: Annotated[Patterns, Field(title="Include")] = (".*",)
    """Patterns of topics that have them, by their names at the source."""
    max: Annotated[int, Field(title="At most", ge=0, le=100_000)] = 5_000
    """Greatest number of topics of a link that have them; the others are summed up as `(other)`."""


class MirrorMakerNames(Frozen):
    """Figures under the names of MirrorMaker 2's metrics, for boards and alerts made for it."""

    labels: Annotated[dict[LabelName, str] | None, Field(title="Labels")] = None
    """Labels that every series has, such as `strimzi_io_cluster`, where no relabelling adds
    them."""


class MetricsConfig(Frozen):
    """What is measured, for `/metrics` and InfluxDB."""

    topics: Annotated[MetricsTopics, Field(title="Topics")] = MetricsTopics()
    """Topics that have series of their own."""
    partitions: Annotated[Literal["problems", "all", "none"], Field(title="Partitions")] = (
        "problems"
    )
    """Partitions that have series of their own: those that are stopped or lag by more than a
    minute (200 at most), `all` or `none`."""
    groups: Annotated[Patterns, Field(title="Groups")] = ()
    """Patterns of consumer groups that have series of their own, of those whose offsets are
    published (100 at most); by default none has."""
    foreign: Annotated[bool, Field(title="Foreign links")] = False
    """Whether a service that stands alone writes series of links. A link's series come from the
    service beside its driver: with both scraped, sums would count everything twice."""
    mirrormaker2: Annotated[MirrorMakerNames | None, Field(title="MirrorMaker 2's names")] = None
    """Also serve figures under MirrorMaker 2's names, at `/metrics/mirrormaker2`; null = no."""
    progress_group: Annotated[GroupName | None, Field(title="Progress group")] = None
    """Name of a consumer group without members under which each link commits at its source what it
    has copied, so that any lag exporter sees it; null = none. `{link}` stands for the link's
    name."""
    influx: Annotated[InfluxConfig | None, Field(title="InfluxDB")] = None
    """An InfluxDB 1.x to which the same figures are written; null = none."""
