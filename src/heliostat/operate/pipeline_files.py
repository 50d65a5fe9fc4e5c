"""The files that a pipeline is made of: the configuration, and the modules of its functions."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from heliostat.config import LinkConfig

Stamp = tuple[int, int]
"""When a file was changed (ns), and its bytes."""


def packages_of(link: LinkConfig) -> frozenset[str]:
    """Return the packages, or modules that are in none, in which a link's functions are."""
    steps = (step for pipeline in link.pipelines for step in pipeline.steps)
    paths = (step.function for step in steps if step.function is not None)
    return frozenset(path.partition(":")[0].partition(".")[0] for path in paths)


def stamps_of(files: Iterable[Path], packages: Iterable[str]) -> dict[Path, Stamp]:
    """Return how these files, and those of these packages, are now; without those that are gone."""
    stamps: dict[Path, Stamp] = {}
    for path in {*files, *(file for name in packages for file in _files(name))}:
        with suppress(FileNotFoundError):
            state = path.stat()
            stamps[path] = state.st_mtime_ns, state.st_size
    return stamps


def forget(packages: Iterable[str]) -> None:
    """Have the next import read these packages again."""
    names = set(packages)
    for name in [
        module_name for module_name in sys.modules if module_name.partition(".")[0] in names
    ]:
        del sys.modules[name]
    importlib.invalidate_caches()


def _files(package: str) -> Iterator[Path]:
    try:
        spec = find_spec(package)
    except ValueError:  # of `__main__`, which no file has
        return
    if spec is None:
        return
    if spec.submodule_search_locations is not None:
        for folder in spec.submodule_search_locations:
            yield from Path(folder).rglob("*.py")
    elif spec.origin is not None:
        yield Path(spec.origin)
