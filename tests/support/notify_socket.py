"""A stand-in of systemd: receives what a service of `Type=notify` tells."""

from __future__ import annotations

import socket


class NotifySocket:
    """The manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def messages(self) -> list[str]:
        received: list[str] = []
        try:
            while True:
                received.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return received

    def close(self) -> None:
        self._socket.close()
