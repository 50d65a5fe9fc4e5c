"""Ports that nobody listens on, each given away once on this machine."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

from heliostat.errors import SandboxError

LOOPBACK = "127.0.0.1"
FIRST_PORT = 15_000
"""Below it live well-known services."""
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
EPHEMERAL_DEFAULT = 32_768
TRIES = 200

_chance = random.SystemRandom()
_own: set[int] = set()
"""Given away by this process before; `lockf` knows other processes only."""


def free_ports(count: int) -> list[int]:
    """`count` different ports on loopback on which nobody listens right now.

    They stay this process's own until it ends: a broker that is down for a while finds its port
    free when it comes back, also when other processes start brokers meanwhile.

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
        if is_free(port) and _is_kept(port):
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


def _is_kept(port: int) -> bool:
    """Whether `port` is kept for us from now on; not if it was given away before."""
    if port in _own:
        return False
    try:
        # A byte of the file for each port: one descriptor holds all, and the kernel gives them
        # back when this process ends, however it ends.
        fcntl.lockf(_kept_ports(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _own.add(port)
    return True


@cache
def _kept_ports() -> int:
    """The file on which processes of this user agree; never closed, that would end its locks."""
    path = Path(tempfile.gettempdir()) / f"heliostat-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _first_ephemeral() -> int:
    try:
        first = int(EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        first = EPHEMERAL_DEFAULT
    return first if first > FIRST_PORT + 1_000 else 65_536
