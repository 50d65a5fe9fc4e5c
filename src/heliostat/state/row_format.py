"""Which versions may read a link's rows: an older one refuses rows that it would misread.

    format    {"format": 2, "version": "0.3.0"}: the least format that a reader must know

Fields and keys that a version does not know are left alone, and cost no new format. A version whose
rows mean something else to older ones raises `FORMAT`, and writes this row once it has claimed the
link, before any other. Without the row the format is 1, as in 0.1 and 0.2.

Format 2 has merged topics, whose records an older version would take for the mirror's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from heliostat import __version__
from heliostat.errors import Refused

FORMAT = 2
FORMAT_KEY = "format"
MERGED: Mapping[str, Any] = MappingProxyType({"format": 2, "version": "0.3.0"})
"""The row of a link that merges, with the first version that knows it."""


def check_format(topic: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse rows of a format that this version does not know.

    Raises
    ------
    Refused
        A later version has written them: nothing may be concluded from them here.
    """
    row = rows.get(FORMAT_KEY)
    if row is None:
        return
    needed, version = int(row["format"]), str(row["version"])
    if needed > FORMAT:
        raise Refused(
            f"the link's rows are of Heliostat {version}, in format {needed}: {__version__} reads "
            f"formats up to {FORMAT}",
            hint=f"install {version} or later here, too; docs/upgrade.md says how to go back",
            topic=topic,
        )
