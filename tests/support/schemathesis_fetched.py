"""Schemathesis, which asks all that an OpenAPI document allows and more."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from support.fetched import python_packages


def schemathesis() -> Any:
    """Return the module; install it into the cache if that lacks it."""
    folder = python_packages("schemathesis")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module("schemathesis")
