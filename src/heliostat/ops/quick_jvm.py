"""Options of JVMs that begin soon and never have much to do: Spark's, and those of a sandbox.

A driver only schedules, Python does the work. So collection is serial, and compilation stops at
its quick first stage: a session then takes 5.6 instead of 10.5 s of processor time to begin
(2026-11-21, 2 cores, local[2]).

A session loads thousands of classes before it does anything. They are kept in an archive as a JVM
maps them (class data sharing, JEP 350), which `scripts/setup` makes: 9.9 s of processor time until
the first job has run, 4.5 with it (2026-11-22, beside other work, Java 17). A JVM that it doesn't
fit leaves it aside. A sandbox keeps those of brokers likewise.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "share" / "heliostat" / "spark-classes.jsa"
"""Of Spark's driver; beside the packages that it is made of, some 120 MB."""
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A JVM that begins soon and never has much to do."""
_QUIET = ("-Xlog:disable", "-Xlog:all=error")
"""A JVM that leaves the archive aside would say so in what users see."""


def archive_options(archive: Path) -> tuple[str, ...]:
    """Arguments of a JVM that maps its classes from an archive; none where there is none."""
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive.is_file() else ()


def archiving_options(draft: Path) -> tuple[str, ...]:
    """Arguments of a JVM that writes what classes it has loaded into `draft` when it ends."""
    return (f"-XX:ArchiveClassesAtExit={draft}", *_QUIET)


def driver_java_options() -> str:
    """For a session, with the archive if there is one."""
    return _as_setting((*QUICK_JVM, *archive_options(ARCHIVE)))


def archiving_java_options(draft: Path) -> str:
    """For a session whose JVM writes what it has loaded into `draft` when it ends."""
    return _as_setting((*QUICK_JVM, *archiving_options(draft)))


def _as_setting(arguments: Sequence[str]) -> str:
    """As Spark splits `extraJavaOptions`: a path may have blanks in it."""
    return " ".join(f'"{each}"' if " " in each else each for each in arguments)
