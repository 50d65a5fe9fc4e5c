"""What a process has used: processor time, memory, sockets, bytes; from Linux' `/proc` alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PROCESSES = Path("/proc")
_USER, _SYSTEM, _PAGES = 11, 12, 21
"""Fields of `stat` after the process's name."""


class ProcessUse(NamedTuple):
    """What a process has used since it began, and has now."""

    cpu_s: float
    """Processor time, of its threads but not of its children."""
    memory_bytes: int
    """Memory that is resident."""
    sockets: int
    """Open sockets."""
    read_bytes: int
    """Bytes that it read from files, pipes and connections."""
    written_bytes: int
    """Bytes that it wrote to them."""


def use_of(pid: int, moved: tuple[int, int] | None = None) -> ProcessUse | None:
    """Return what a process has used; None if that is not known: it is gone, or this is no Linux.

    Parameters
    ----------
    moved
        Bytes that it read and wrote, where that is known better: the kernel does not count what
        Python's sockets receive.
    """
    folder = PROCESSES / str(pid)
    try:
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        sockets = sum(_is_socket(entry) for entry in (folder / "fd").iterdir())
        read, written = moved or _moved(folder)
        ticks = int(fields[_USER]) + int(fields[_SYSTEM])
        memory = int(fields[_PAGES]) * PAGE_BYTES
        return ProcessUse(round(ticks / TICKS_PER_S, 2), memory, sockets, read, written)
    except (OSError, LookupError, ValueError):
        return None


def _moved(folder: Path) -> tuple[int, int]:
    lines = (folder / "io").read_text().splitlines()
    values = {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
    return values["rchar"], values["wchar"]


def _is_socket(path: Path) -> bool:
    try:
        return str(path.readlink()).startswith("socket:")
    except OSError:
        return False
