"""Classes of Kafka's brokers, kept ready for their JVM; `scripts/setup` makes them.

A broker loads some ten thousand classes before it serves. They are kept in an archive as a JVM
maps them (class data sharing, JEP 350): 2.0 instead of 3.6 s of processor time until a broker
answers (2026-11-22, 2 cores, Java 17). A JVM that it does not fit leaves it aside.
"""

from __future__ import annotations

import os
from pathlib import Path

from heliostat.ops.quick_jvm import archive_options, archiving_options
from heliostat_sandbox.jars import cache_folder

MAKING_VARIABLE = "HELIOSTAT_KEEP_BROKER_CLASSES"
"""Names the file into which a broker that is started writes its classes when it ends."""


def archive_of(jar_set: str) -> Path:
    """Where the classes of a set of jars are kept; beside the jars, some 50 MB."""
    return cache_folder() / f"{jar_set}.classes.jsa"


def class_options(jar_set: str) -> tuple[str, ...]:
    """Options of a broker's JVM, with the archive if there is one."""
    draft = os.environ.get(MAKING_VARIABLE)
    return archiving_options(Path(draft)) if draft else archive_options(archive_of(jar_set))
