"""Options of the Spark driver's JVM, and the classes that are kept ready for it.

The driver only schedules, Python does the work. So collection is serial, and compilation stops at
its quick first stage: a session then takes 5.6 instead of 10.5 s of processor time to begin
(2026-11-21, 2 cores, local[2]).

A session loads thousands of classes before it does anything. They are kept in an archive as a JVM
maps them (class data sharing, JEP 350), which `scripts/setup` makes: 9.9 s of processor time until
the first job has run, 4.5 with it (2026-11-22, beside other work, Java 17). A JVM that it doesn't
fit leaves it aside.
"""

from __future__ import annotations

import sys
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "share" / "heliostat" / "spark-classes.jsa"
"""Beside the packages that it is made of; some 120 MB."""
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A JVM that begins soon and never has much to do."""
_QUICK = " ".join(QUICK_JVM)
_QUIET = "-Xlog:disable -Xlog:all=error"
"""A JVM that leaves the archive aside would say so in what users see."""


def driver_java_options() -> str:
    """For a session, with the archive if there is one."""
    return f'{_QUICK} -XX:SharedArchiveFile="{ARCHIVE}" {_QUIET}' if ARCHIVE.is_file() else _QUICK


def archiving_java_options(draft: Path) -> str:
    """For a session whose JVM writes what it has loaded into `draft` when it ends."""
    return f'{_QUICK} -XX:ArchiveClassesAtExit="{draft}" {_QUIET}'
