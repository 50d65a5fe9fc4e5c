"""Asks the service for a link's status, as many clients do that each ask once a second.

A separate process, without an HTTP library: it shares the machine with what is measured, so it has
to cost little. Prints a line when all clients are connected, and JSON when told to end by SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time

ASK_EVERY_S = 1.0
LATE_S = 10.0
"""An answer that takes longer is a failure."""


class Clients:
    """Connections that stay open; each asks once a second, spread over the second.

    Parameters
    ----------
    host, port
        The service.
    path
        What to ask for.
    """

    def __init__(self, host: str, port: int, path: str) -> None:
        self._host, self._port = host, port
        self._request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
        self._connected = 0
        self.took_ms: list[float] = []
        self.failed = 0
        self.answer_bytes = 0

    async def ask(self, number: int, of: int) -> None:
        """Connect, and ask for ever; a failed question is followed by a new connection."""
        pipe = await asyncio.open_connection(self._host, self._port)
        self._connected += 1
        if self._connected == of:
            print("asking", flush=True)
        due_s = time.monotonic() + ASK_EVERY_S * number / of
        is_open = True
        while True:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            began_s = time.monotonic()
            try:
                if not is_open:
                    pipe = await asyncio.open_connection(self._host, self._port)
                    is_open = True
                await asyncio.wait_for(self._once(*pipe), LATE_S)
            except (OSError, TimeoutError, ValueError, EOFError):
                self.failed += 1
                pipe[1].close()
                is_open = False
            else:
                self.took_ms.append((time.monotonic() - began_s) * 1000)
            due_s += ASK_EVERY_S

    async def _once(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise ValueError(head)
        size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(size)
        self.answer_bytes = size


async def run(given: argparse.Namespace) -> Clients:
    """Ask until SIGTERM."""
    clients = Clients(given.host, given.port, given.path)
    tasks = [asyncio.create_task(clients.ask(n, given.clients)) for n in range(given.clients)]
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    for task in tasks:
        task.cancel()
    return clients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--clients", type=int, default=200)
    clients = asyncio.run(run(parser.parse_args()))
    print(
        json.dumps(
            {
                "took_ms": [round(ms, 2) for ms in clients.took_ms],
                "failed": clients.failed,
                "answer_bytes": clients.answer_bytes,
            }
        )
    )


if __name__ == "__main__":
    main()
