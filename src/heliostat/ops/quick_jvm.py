"""Options of JVMs that should start fast and never have much to do: Spark's and the sandbox's.

A driver only schedules, Python does the work. So garbage collection is serial, and compilation
stops at its quick first stage: a session then takes 5.6 instead of 10.5 s of processor time to
start (2026-11-21, 2 cores, local[2]).

A session loads thousands of classes before it does anything. `scripts/setup` writes them to an
archive that a JVM maps into memory (class data sharing, JEP 350): 9.9 s of processor time until the
first job has run, 4.5 s with it (2026-11-22, beside other work, Java 17). A JVM that doesn't match
the archive ignores it. A sandbox does the same for the classes of its brokers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "share" / "heliostat" / "spark-classes.jsa"
"""Classes of Spark's driver, beside the packages that they come from; about 70 MB."""
ROWS_ARCHIVE = ARCHIVE.with_name("spark-rows-classes.jsa")
"""The same for a driver through which the rows of pipelines go: Spark SQL has as many again, and
each driver that maps them needs 65 MB more (2026-11-26, Java 17)."""
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For a JVM that should start fast and never has much to do."""
SMALL_HEAP = ("-Xms48m", "-Xmn16m")
"""Of a driver's heap: a JVM fills its young generation before it collects, and its default, a
third of the heap, was 100 MB of garbage where 15 MB were in use (2026-11-25). The heap still grows
up to `spark.driver.memory`."""
ENDS_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""Else Spark ends its JVM by hooks that wait for one another, and a job's caller waits for ever."""
BUSY_JVM = ("-XX:+UseSerialGC", "-Xmn128m", ENDS_WITHOUT_MEMORY)
"""For a JVM through which the rows of pipelines go: all stages of compilation, and room for what
lives for milliseconds."""
_PLAIN_JVM = (*QUICK_JVM, *SMALL_HEAP, ENDS_WITHOUT_MEMORY)
UNMOVED = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
)
"""The archive where it was written for, if that place is free: a moved one has every page patched,
84 MB of memory (2026-11-25, Java 17). JVMs without this option ignore it."""
_QUIET = ("-Xlog:disable", "-Xlog:all=error")
"""A JVM that ignores the archive would print a warning that users see."""


def archive_options(archive: Path) -> tuple[str, ...]:
    """Return arguments of a JVM that maps its classes from `archive`; none if it doesn't exist."""
    if not archive.is_file():
        return ()
    return (*UNMOVED, f"-XX:SharedArchiveFile={archive}", *_QUIET)


def archiving_options(draft: Path) -> tuple[str, ...]:
    """Return arguments of a JVM that writes its loaded classes to `draft` when it ends."""
    return (f"-XX:ArchiveClassesAtExit={draft}", *_QUIET)


def driver_java_options(*, has_rows: bool = False) -> str:
    """Return the options of a session, with the archive if there is one.

    `has_rows`: Spark itself works on records.
    """
    kind, archive = (BUSY_JVM, ROWS_ARCHIVE) if has_rows else (_PLAIN_JVM, ARCHIVE)
    return _as_setting((*kind, *archive_options(archive)))


def archiving_java_options(draft: Path, *, has_rows: bool = False) -> str:
    """Return the options of a session whose JVM writes its classes to `draft` when it ends."""
    kind = BUSY_JVM if has_rows else _PLAIN_JVM
    return _as_setting((*kind, *archiving_options(draft)))


def _as_setting(arguments: Sequence[str]) -> str:
    """Join and quote as Spark splits `extraJavaOptions`: a path may contain spaces."""
    return " ".join(f'"{argument}"' if " " in argument else argument for argument in arguments)
