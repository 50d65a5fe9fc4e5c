"""A second copy of compiled code in the same process, compiled with index checks.

So an example is drawn once, and both copies must give the same result.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from zlib import crc32

from numba import config

_SCRATCH = tempfile.TemporaryDirectory(prefix="heliostat-checked-")


def with_checked_indexes(*names: str) -> list[Any]:
    """Copies of these modules, which are imported already; each sees the copies of those before it.

    Numba keeps no note of the setting: what is compiled with checks has a folder of its own, beside
    what is kept without, or else one that goes with the process. The copies have names of their
    own, for compiled code is found by its module's; and so has each list of modules a folder, for
    compiled code names the copies that it calls.
    """
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
        return [sys.modules[name] for name in names]
    finally:
        config.BOUNDSCHECK, config.CACHE_DIR = before
        sys.modules.update(originals)
