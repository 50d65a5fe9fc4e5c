"""Free ports, each given to only one process on this machine."""

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
"""Well-known services use lower ones."""
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
EPHEMERAL_DEFAULT = 32_768
TRIES = 200

_chance = random.SystemRandom()
_own: set[int] = set()
"""Ports that this process already has; `lockf` only excludes other processes."""


def free_ports(count: int) -> list[int]:
    """Return `count` different ports on loopback on which no process listens now.

    They are reserved for this process until it ends, so that a stopped broker finds its port free
    when it comes back, even if other processes have started brokers in the meantime.

    They are below the range that the kernel uses for outgoing connections. In that range, a client
    that keeps trying to reach a stopped broker would sooner or later get the broker's own port,
    even connect to itself, and the broker could not come back.

    Raises
    ------
    SandboxError
        Too few were found.
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
    """Return whether a server could listen on `port` now, with SO_REUSEADDR as Java's do."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _is_kept(port: int) -> bool:
    """Reserve `port`; return False if it was reserved before, by us or another process."""
    if port in _own:
        return False
    try:
        # One byte of the file per port: one descriptor has all locks, and the kernel releases them
        # when this process ends, however it ends.
        fcntl.lockf(_kept_ports(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _own.add(port)
    return True


@cache
def _kept_ports() -> int:
    """Open the lock file shared by this user's processes; closing it would release the locks."""
    path = Path(tempfile.gettempdir()) / f"heliostat-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _first_ephemeral() -> int:
    try:
        first = int(EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        first = EPHEMERAL_DEFAULT
    return first if first > FIRST_PORT + 1_000 else 65_536
