"""JSON lines by which a `heliostat verify` tells its parent, the service, how far it is.

Each is an object with one key: `progress`, and at the end `result` or `problem`. Who writes them
ends when its standard input does, so that it never outlives its parent, however that ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from heliostat.cli.exit_codes import INTERRUPTED
from heliostat.config import LinkConfig
from heliostat.errors import HeliostatError
from heliostat.verify.progress import CountedWork, VerifyProgress
from heliostat.verify.report import VerifyReport

EVERY_S = 0.3
ENDS_WITHIN_S = 8.0
"""From the end of standard input; Spark is stopped meanwhile."""
NICENESS = 10
"""A link that copies on the same machine goes first."""
SHOWN_MAX = 200
"""Entries of each list of a result, which a service keeps in memory."""


class ProgressLines:
    """Writes them, from the moment that it is made."""

    def __init__(self) -> None:
        self._told_s = 0.0
        self._last = VerifyProgress()
        os.nice(NICENESS)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored, as behind `&`
        threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()

    def counted(self, link: LinkConfig) -> CountedWork:
        """Return what is told how far a link is."""
        del link
        return CountedWork(self.progress)

    def progress(self, progress: VerifyProgress) -> None:
        """Tell how far it is, not too often."""
        now_s = time.monotonic()
        if progress.phase != self._last.phase or now_s - self._told_s >= EVERY_S:
            self._told_s = now_s
            _write({"progress": progress.to_json()})
        self._last = progress

    def result(self, report: VerifyReport) -> None:
        """Tell the report, in short."""
        _write({"progress": self._last.to_json()})
        _write({"result": {**in_short(report.to_json()), "summary": report.summary_line()}})

    def problem(self, error: HeliostatError) -> None:
        """Tell why there is none."""
        _write({"problem": {"code": error.code, "detail": error.text, "hint": error.hint or None}})


def in_short(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report whose lists are cut; `left_out` says how many entries each has more."""
    short, left_out = dict(report), dict[str, int]()
    for name, value in report.items():
        if isinstance(value, list) and len(value) > SHOWN_MAX:
            short[name] = value[:SHOWN_MAX]
        elif isinstance(value, dict) and len(value) > SHOWN_MAX:
            short[name] = dict(list(value.items())[:SHOWN_MAX])
        else:
            continue
        left_out[name] = len(value) - SHOWN_MAX
    return {**short, "left_out": left_out}


def _write(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 4096):  # no buffer, whose lock would hold up the end
        pass
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # Spark's handler cancels its jobs
    time.sleep(ENDS_WITHIN_S)
    os._exit(INTERRUPTED)
