"""Where executors keep machine code that Numba made of our functions.

They import this package from an archive in a folder of their own, and Numba caches code by the
path of its source: each new executor compiled everything again, 4 to 7 s of processor time before
its first lane copied, and left a cache that nothing would find again (2026-11-23, Numba 0.68). The
archive's name holds a hash of all its files, so code is cached under that name: compiled once per
machine and version, and never reused after any file has changed.

Numba's own `NUMBA_CACHE_LOCATOR_CLASSES` names the class; Numba's own locators follow it, for code
that isn't in such an archive.
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
        The compiled function.
    path
        Path of its source, within the archive.
    """

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        super().__init__(function, path)
        match = _SHIPPED.search(path)
        assert match is not None, path
        self._archive = match["archive"]
        base = Path(config.CACHE_DIR or AppDirs(appname="numba", appauthor=False).user_cache_dir)
        self._cache_path = str(base / self._archive / Path(match["module"]).parent.name)

    def get_source_stamp(self) -> str:
        """Return a stamp for all files of the package, not only the function's."""
        return self._archive

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Self | None:
        """Return a locator for a shipped function if its cache is writable, else None."""
        if _SHIPPED.search(py_file) is None:
            return None
        locator = cls(py_func, py_file)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator
