"""Where executors keep machine code that Numba made of our functions.

They import this package from an archive in a folder of their own, and Numba keeps code by the path
of its source: each new executor compiled everything anew, 4 to 7 s of processor time before its
first lane copied, and left a cache that nobody would find again (2026-11-23, Numba 0.68). The
archive's name holds a sum of all its files, so code is kept by that name: one compilation a machine
and version, and never code of another state of any file.

Numba's own `NUMBA_CACHE_LOCATOR_CLASSES` names the class; what isn't in such an archive goes to
Numba's own ones behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from numba.core import config
from numba.core.caching import UserWideCacheLocator
from numba.misc.appdirs import AppDirs

_SHIPPED = re.compile(r"(?:^|/)(?P<archive>heliostat-[0-9a-f]{12})\.zip/(?P<module>.+)\.py$")
"""As `spark_session.zip_package` names it."""


class ShippedCode(UserWideCacheLocator):  # type: ignore[misc]  # Numba has no types
    """Finds the folder for a function of a shipped archive: the user's cache, or NUMBA_CACHE_DIR.

    Parameters
    ----------
    function
        What is compiled.
    path
        Of its source, within the archive.
    """

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        super().__init__(function, path)
        found = _SHIPPED.search(path)
        assert found is not None, path
        self._archive = found["archive"]
        base = Path(config.CACHE_DIR or AppDirs(appname="numba", appauthor=False).user_cache_dir)
        self._cache_path = str(base / self._archive / Path(found["module"]).parent.name)

    def get_source_stamp(self) -> str:
        """Stand for all files of the package, not for the function's alone."""
        return self._archive

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Self | None:
        """Give one for a function of a shipped archive whose cache can be written, else None."""
        if _SHIPPED.search(py_file) is None:
            return None
        found = cls(py_func, py_file)
        try:
            found.ensure_cache_path()
        except OSError:
            return None
        return found
