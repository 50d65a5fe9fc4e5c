"""Keeps `heliostat serve` running beside a driver, as a process of its own.

The driver's interpreter answers leases, which requests must not delay.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from heliostat.ops.events import Events

AGAIN_S = 5.0
"""Between the end of one and the start of the next."""
AGAIN_MAX_S = 60.0
ENDS_WITHIN_S = 8.0
ASKED_TO_END = frozenset({0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP})
SERVING = "serving at "
"""What begins the line with the address."""
_EVENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z (?P<level>INFO|WARN) (?P<text>.*)")
"""A line of `heliostat.ops.events`, which the driver tells as its own."""


class ServeBeside:
    """One such process, started again when it dies.

    Parameters
    ----------
    config_file
        The configuration.
    link
        Serve only this link; None: all.
    events
        Told where it serves, and once for each reason why it can't.
    command
        How a verb is called.
    """

    def __init__(
        self,
        config_file: Path,
        link: str | None,
        events: Events,
        command: tuple[str, ...] = (sys.executable, "-m", "heliostat.cli.entry"),
    ) -> None:
        named = () if link is None else ("--link", link)
        self._command = [
            *command, "serve", "-c", str(config_file.resolve()), *named, "--ends-with-parent"
        ]  # fmt: skip
        self._events = events
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._last_told = ""
        self._is_renewed = False
        self.url: str | None = None
        """Where it serves, once it does."""
        self._thread = threading.Thread(target=self._keep, name="serve", daemon=True)

    def start(self) -> ServeBeside:
        """Start it; returns at once."""
        self._thread.start()
        return self

    @property
    def pid(self) -> int | None:
        """Id of the process that was started last."""
        return None if self._process is None else self._process.pid

    def begin_anew(self) -> None:
        """Have it end as soon as no job of it runs, and start it again at once.

        It reads its configuration when it starts.
        """
        with self._lock:
            process, self._is_renewed = self._process, True
        if process is not None and process.poll() is None:
            # No job runs in one that does not serve yet, and under nohup it ignores SIGHUP.
            process.send_signal(signal.SIGTERM if self.url is None else signal.SIGHUP)

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join(ENDS_WITHIN_S)

    def _keep(self) -> None:
        wait_s = AGAIN_S
        while not self._stopping.is_set():
            code, why = self._run()
            if self._stopping.is_set():
                return
            if code not in ASKED_TO_END:
                self._tell(self._events.warn, f"nothing is served for now: {why}")
            was_up, self.url = self.url is not None, None
            if self._is_renewed:
                continue
            wait_s = AGAIN_S if was_up else min(2 * wait_s, AGAIN_MAX_S)
            self._stopping.wait(wait_s)

    def _run(self) -> tuple[int, str]:
        """Run it once; return its exit code, and the last line that it wrote on errors."""
        with self._lock:
            if self._stopping.is_set():
                return 0, ""
            self._is_renewed = False
            # A group of its own: Ctrl-C in a terminal reaches the driver, which ends this one.
            process = self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline().strip()
            if line.startswith(SERVING):
                self.url = line.removeprefix(SERVING)
                self._tell(self._events.info, f"watch it at {self.url}")
            last = ""
            for line in process.stderr:
                event = _EVENT.match(line)
                if event is not None:
                    self._events.write(event["level"], f"service: {event['text']}")
                else:
                    last = line.strip() or last
            code = process.wait()
        return code, last or f"it ended with {code}"

    def _tell(self, say: Callable[[str], None], text: str) -> None:
        """Say it unless it was the last said: what is tried again and again is one fact."""
        if text != self._last_told:
            self._last_told = text
            say(text)
