"""The socket at which a service listens, and how a browser finds it."""

from __future__ import annotations

import socket

from heliostat.config import ServiceConfig
from heliostat.config.service import ServiceTls, parts_of
from heliostat.errors import Refused

BACKLOG = 2048


def bound(address: str) -> socket.socket:
    """Return a socket that listens at an address.

    Raises
    ------
    Refused
        It is taken, or not ours.
    """
    host, port = parts_of(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)  # who is told the address may ask at once
    except OSError as error:
        listener.close()
        raise Refused(
            f"nothing can be served at {address}: {error.strerror}",
            hint="another program, maybe another heliostat, listens there: stop it, or choose "
            "another address with service.listen",
        ) from None
    return listener


def url_of(listener: socket.socket, service: ServiceConfig) -> str:
    """Return the address at which a browser finds what is served."""
    host, port = parts_of(service.listen)
    scheme = "https" if isinstance(service.tls, ServiceTls) else "http"
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listener.getsockname()[1] or port}/"
