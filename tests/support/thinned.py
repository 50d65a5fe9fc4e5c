"""Pipelines for tests of faults: they leave every fourth record out and change the others.

A record that went around one, twice through it, or is missing differs from what they give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from soak_audit import Seen

PIPELINE: dict[str, Any] = {
    "name": "thin",
    "topics": [r"[mf]\.(s-)?piped.*"],
    "steps": [
        {"where": "CAST(split_part(decode(value, 'UTF-8'), ' ', 1) AS bigint) % 4 != 1"},
        {"set": {"value": "encode(concat(decode(value, 'UTF-8'), ' thinned'), 'UTF-8')"}},
        {"insert_headers": {"through": "thin"}},
    ],
}
"""Of a link's configuration; its records are rows of Spark."""
IN_PLACE: dict[str, Any] = {
    "name": "mark",
    "topics": [r"m\.marked.*"],
    "steps": [
        {"drop_with_header": {"name": "fourth"}},
        {"rename_headers": {"n": "number"}},
        {"insert_headers": {"through": "mark"}},
    ],
}
"""The same for steps that are done on batches' bytes."""


def is_piped(topic: str) -> bool:
    """Whether the topic's records go through the pipeline."""
    (pattern,) = PIPELINE["topics"]
    return re.fullmatch(pattern, topic) is not None


def thinned(records: Iterable[Seen]) -> list[Seen]:
    """Return what the pipeline makes of these.

    One that went around it differs from this, or is not here.
    """
    return [
        each._replace(
            value=(each.value or b"") + b" thinned", headers=(*each.headers, ("through", b"thin"))
        )
        for each in records
        if each.number % 4 != 1
    ]


def marked(records: Iterable[Seen]) -> list[Seen]:
    """Return what `IN_PLACE` makes of these."""
    return [
        each._replace(headers=(("number", b"%d" % each.number), ("through", b"mark")))
        for each in records
        if each.number % 4 != 1
    ]
