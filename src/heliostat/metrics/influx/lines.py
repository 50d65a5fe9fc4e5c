r"""InfluxDB's line protocol: `measurement,tag=value field=1.5,text="so" time`; pure.

Of what it can't hold, a line break becomes a space, and backslashes go that stand at the end of a
name or tag, or before what must be escaped: InfluxDB would take them for the escape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_LOST = re.compile(r"\\+(?=[,= \n\r]|\Z)")
_MEASUREMENT = str.maketrans({",": r"\,", " ": r"\ ", "\n": r"\ ", "\r": r"\ "})
_KEY = str.maketrans({",": r"\,", " ": r"\ ", "=": r"\=", "\n": r"\ ", "\r": r"\ "})
_TEXT = str.maketrans({"\\": r"\\", '"': r"\"", "\n": " ", "\r": " "})


def series(measurement: str, tags: Mapping[str, str]) -> str:
    """Return what stands before the fields; a tag without a value is left out."""
    own = [f",{_key(name)}={_key(value)}" for name, value in sorted(tags.items()) if _key(value)]
    return "".join([_LOST.sub("", measurement).translate(_MEASUREMENT), *own])


def field(name: str, value: float | str) -> str | None:
    """Return a field; None if it can't be written: no number, or none that is finite.

    Every number is a float for ever: the type of a field can't change, and a count may become one.
    """
    if isinstance(value, str):
        return f'{_key(name)}="{value.translate(_TEXT)}"'
    return f"{_key(name)}={float(value)!r}" if math.isfinite(value) else None


def _key(text: str) -> str:
    return _LOST.sub("", text).translate(_KEY)
