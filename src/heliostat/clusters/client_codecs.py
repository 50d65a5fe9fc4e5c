"""Let kafka-python's consumer decompress what it lacks libraries for, by aiokafka's codecs.

kafka-python looks for python-snappy, lz4 and zstandard, which are not installed: aiokafka's codecs
do the same with cramjam. Without them its consumer fails at the first batch that was compressed.
"""

from __future__ import annotations

from typing import Any

from aiokafka import codec as lent
from kafka import codec as own
from kafka.record import default_records, legacy_records

LENT = ("snappy", "lz4", "zstd")


def lend_codecs() -> None:
    """Fill in what is missing; what kafka-python has itself stays. May be called again."""
    for name in LENT:
        has: Any = getattr(own, f"has_{name}")
        if has():
            continue
        setattr(own, f"has_{name}", getattr(lent, f"has_{name}"))
        for users in (own, default_records, legacy_records):
            for verb in ("encode", "decode"):
                if hasattr(users, f"{name}_{verb}"):  # they have imported them by their names
                    setattr(users, f"{name}_{verb}", getattr(lent, f"{name}_{verb}"))
