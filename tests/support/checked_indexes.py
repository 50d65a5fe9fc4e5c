"""A second copy of compiled code in the same process, compiled with index checks.

So an example is drawn once, and both copies must give the same result.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

from numba import config
from typing_extensions import override

_SCRATCH = tempfile.TemporaryDirectory(prefix="heliostat-checked-")


class CheckedModule:
    """A module's copy, made when something of it is first asked for: of a whole set at once.

    Every process that runs tests loads all of them, and only one runs these.
    """

    __slots__ = ("_copies", "_name")  # without a dictionary of its own pytest undoes a replacement
    _name: str
    _copies: Callable[[], Mapping[str, ModuleType]]

    def __init__(self, name: str, copies: Callable[[], Mapping[str, ModuleType]]) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_copies", copies)

    @override
    def __setattr__(self, attribute: str, value: object) -> None:
        """Set it in the copy, as a test that replaces something does."""
        setattr(self._copies()[self._name], attribute, value)

    def __getattr__(self, attribute: str) -> Any:
        """Return what the copy has by that name; pytest asks each object for some of its own."""
        if attribute not in vars(sys.modules[self._name]):
            raise AttributeError(attribute)
        return getattr(self._copies()[self._name], attribute)


def with_checked_indexes(*names: str) -> list[CheckedModule]:
    """Copies of these modules, which are imported already; each sees the copies of those before it.

    Numba keeps no note of the setting: what is compiled with checks has a folder of its own, beside
    what is kept without, or else one that goes with the process. The copies have names of their
    own, for compiled code is found by its module's; and so has each list of modules a folder, for
    compiled code names the copies that it calls.
    """
    copies = functools.cache(functools.partial(_copies, names))
    return [CheckedModule(name, copies) for name in names]


def _copies(names: Sequence[str]) -> dict[str, ModuleType]:
    originals = {name: sys.modules[name] for name in names}
    before = config.BOUNDSCHECK, config.CACHE_DIR
    kept = config.CACHE_DIR or _SCRATCH.name
    folder = Path(kept) / "checked" / f"{crc32(' '.join(names).encode()):08x}"
    config.BOUNDSCHECK, config.CACHE_DIR = 1, str(folder)
    try:
        for name, original in originals.items():
            assert original.__file__ is not None
            spec = spec_from_file_location(f"checked.{name}", original.__file__)
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = sys.modules[spec.name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return {name: sys.modules[name] for name in names}
    finally:
        config.BOUNDSCHECK, config.CACHE_DIR = before
        sys.modules.update(originals)
