"""How loops are compiled by Numba: once for all processes, beside other threads, and plainly.

Numba counts references of each array that a function is given, and of each row that it takes of
one: by calls that no compiler can see through, a microsecond for a record of some headers. Whoever
calls such a loop holds its arrays, so nothing has to be counted (docs/adr/0031).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from numba import config, njit

if not config.CACHE_DIR and not any(
    os.access(folder, os.W_OK) for folder in (Path(__file__).parent, Path.home())
):
    # Numba caches compiled code beside the source or at home; an executor may write to neither.
    config.CACHE_DIR = str(Path(tempfile.gettempdir()) / f"heliostat-compiled-{os.getuid()}")


def compiled(signature: Any, *, makes_arrays: bool = False) -> Any:
    """Compile a function for these types.

    Unless it `makes_arrays` it can make none, and assign no row of one as a whole.
    """
    return njit(signature, cache=True, nogil=True, _nrt=makes_arrays)


def inlined(signature: Any) -> Any:
    """Compile a function for these types, as a part of each function that calls it.

    For what is called for each record or byte: Numba hands on an array as seven numbers.
    """
    return njit(signature, cache=True, nogil=True, _nrt=False, forceinline=True)
