"""The driver of a drill's link: `heliostat run` as a process that ends with the one that drills."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from heliostat.names import LinkName

ENDS_WITHIN_S = 60.0
LOG_CHARS = 600
COMMAND = (sys.executable, "-m", "heliostat.cli.entry")


class Driver:
    """One such process.

    Parameters
    ----------
    config_file
        A configuration that has the drill's links only.
    link
        Which of them it runs.
    """

    def __init__(self, config_file: Path, link: LinkName) -> None:
        self._log = config_file.with_name(f"{link}.log")
        words = ["run", "-c", str(config_file), "--link", link, "--plain", "--no-serve"]
        words += ["--parent", str(os.getpid())]
        with self._log.open("ab") as out:
            self._process = self._started([*COMMAND, *words], out)

    @staticmethod
    def _started(command: list[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
        # A group of its own: Ctrl-C in a terminal ends the drill, which ends this one.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def last_words(self) -> str:
        """Return the end of its log."""
        text = self._log.read_text(encoding="utf-8", errors="replace").strip()
        return text[-LOG_CHARS:]

    def stop(self) -> None:
        """End it gracefully; may be called again."""
        if self.has_ended:
            return
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, with all that it has started in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(ENDS_WITHIN_S)
