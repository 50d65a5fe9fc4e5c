"""Ports that nobody listens on."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from heliostat.errors import SandboxError

LOOPBACK = "127.0.0.1"
FIRST_PORT = 15_000
"""Below it live well-known services."""
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
EPHEMERAL_DEFAULT = 32_768
TRIES = 200

_chance = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """`count` different ports on loopback on which nobody listens right now.

    They lie below the range the kernel takes for outgoing connections. Inside it a client that
    keeps trying to reach a stopped broker sooner or later takes the broker's own port, even
    connects to itself, and the broker can't come back.

    Raises
    ------
    SandboxError
        None was found.
    """
    found: list[int] = []
    last = _first_ephemeral() - 1
    for _ in range(TRIES * count):
        if len(found) == count:
            break
        port = _chance.randint(FIRST_PORT, last)
        if port not in found and is_free(port):
            found.append(port)
    if len(found) < count:
        raise SandboxError("no free ports were found", wanted=count, between=(FIRST_PORT, last))
    return found


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now, as Java's do (with SO_REUSEADDR)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _first_ephemeral() -> int:
    try:
        first = int(EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        first = EPHEMERAL_DEFAULT
    return first if first > FIRST_PORT + 1_000 else 65_536
