"""Has Numba compile all loops before the first lane begins, once for a machine and a version.

A fresh installation has no machine code: its first lane would make it, 14 to 30 s of processor time
in which a link seems to do nothing (docs/adr/0053). A file beside Numba's cache says that all of it
is there. Run as a program, this module compiles.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import heliostat
from heliostat.ops.spark_session import is_local

PACKAGE = Path(heliostat.__file__).parent
MODULES = (
    "clusters.wire.scan",
    "records.batches.claimed_offsets",
    "records.batches.compiled_bytes",
    "records.batches.crossed",
    "records.batches.reencode",
    "records.batches.replaced_ids",
    "records.batches.schema_frames",
    "records.batches.schema_places",
    "records.copier.plain_compiled",
    "records.rows.avro_walk",
    "records.rows.field_cuts",
    "records.rows.header_changes",
    "records.rows.in_place",
    "records.rows.json_cuts",
    "records.rows.json_members",
    "records.rows.json_walk",
    "records.rows.origin_texts",
    "records.rows.record_columns",
    "records.rows.splice",
    "records.transport.plain_requests",
)
"""All that import `ops.compiled`; importing them compiles."""
BEGINS = (
    "compiling the loops that copy records, once for this machine and version: some 15 s of "
    "processor time ('heliostat prepare' does it beforehand)"
)
PROGRAM = (sys.executable, "-m", __name__)
PROCESSOR = Path("/proc/cpuinfo")
Tell = Callable[[str], None]


def stamp() -> Path:
    """Return the file that says that this machine's code of this version is there."""
    digest = hashlib.sha256(platform.python_version().encode() + _processor())
    digest.update(importlib.metadata.version("numba").encode())
    for name in MODULES:
        digest.update(PACKAGE.joinpath(*name.split(".")).with_suffix(".py").read_bytes())
    return _folder() / f"heliostat-{digest.hexdigest()[:16]}.compiled"


def is_there() -> bool:
    """Return whether all loops have been compiled here."""
    return stamp().is_file()


def compile_loops() -> None:
    """Compile all loops in this process, and note that they are there."""
    for name in MODULES:
        importlib.import_module(f"heliostat.{name}")
    path = stamp()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


class LoopsAhead:
    """A process that compiles them, beside Spark's start.

    Parameters
    ----------
    master
        Spark's master: on a cluster, each executor compiles for its own machine.
    tell
        Receives a line when it begins and one when it ends; none if nothing is to be done.
    """

    def __init__(self, master: str, tell: Tell) -> None:
        self._tell = tell
        self._began_s = time.monotonic()
        self._process: subprocess.Popen[str] | None = None
        if is_local(master) and not is_there():
            tell(BEGINS)
            self._process = subprocess.Popen(
                PROGRAM,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )

    def wait(self) -> None:
        """Wait until it has ended. If it has failed, lanes compile by themselves."""
        if self._process is None:
            return
        _, errors = self._process.communicate()
        if self._process.returncode == 0:
            self._tell(f"compiled in {time.monotonic() - self._began_s:.0f} s")
        elif self._process.returncode > 0:
            last = next(reversed(errors.strip().splitlines()), "no reason given")
            self._tell(f"not compiled beforehand, the first lane does it: {last}")

    def end(self) -> None:
        """End it, whatever it has done."""
        if self._process is not None:
            self._process.terminate()


def _processor() -> bytes:
    """Return what tells one kind of processor from another: code fits only the kind it is for."""
    try:
        lines = PROCESSOR.read_bytes().splitlines()
    except OSError:  # not Linux
        return platform.processor().encode() + platform.machine().encode()
    kinds = (b"model name", b"flags", b"Features", b"CPU part")
    return b"\n".join(sorted({line for line in lines if line.startswith(kinds)}))


def _folder() -> Path:
    """Return where Numba keeps code of ours, as far as it can be known without loading it."""
    if kept := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(kept)
    if os.access(PACKAGE / "ops", os.W_OK):
        return PACKAGE / "ops" / "__pycache__"
    if os.access(Path.home(), os.W_OK):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    return Path(tempfile.gettempdir()) / f"heliostat-compiled-{os.getuid()}"


if __name__ == "__main__":
    compile_loops()
