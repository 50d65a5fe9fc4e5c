"""From when until when certificates of a PEM file are valid.

Python's `ssl` tells it only of authorities that it has loaded, and of a peer. What is needed of DER
(X.690) are lengths: a certificate's validity is at a fixed place (RFC 5280 section 4.1).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17
_BEFORE_VALIDITY = 3
"""Serial number, algorithm and issuer come before it, and the version where there is one."""
_CENTURY_FROM = 50
"""Two digits of a year from here on are of the last century (RFC 5280 section 4.1.2.5.1)."""


class Validity(NamedTuple):
    """From when until when a certificate is valid."""

    begin: datetime
    end: datetime


def validities(path: Path) -> tuple[Validity, ...]:
    """Return the validity of each certificate of a file, in its order.

    Raises
    ------
    OSError
        It can't be read.
    ValueError
        It holds no certificate, or one that is broken.
    """
    text = path.read_text(encoding="ascii", errors="replace")
    parts = [block.partition(_END)[0] for block in text.split(_BEGIN)[1:]]
    if not parts:
        raise ValueError("it holds no PEM certificate")
    try:
        return tuple(_validity(base64.b64decode("".join(part.split()))) for part in parts)
    except (IndexError, RuntimeError, StopIteration, ValueError) as error:
        raise ValueError("a certificate in it is broken") from error


def _validity(der: bytes) -> Validity:
    _, certificate = next(_parts(der))
    _, content = next(_parts(certificate))
    fields = list(_parts(content))
    first = 1 if fields[0][0] == _VERSION else 0
    tag, validity = fields[first + _BEFORE_VALIDITY]
    if tag != _SEQUENCE:
        raise ValueError("a certificate in it is broken")
    begin, end = (_time(*element) for element in _parts(validity))
    return Validity(begin, end)


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element."""
    start = 0
    while start < len(der):
        tag, size = der[start], der[start + 1]
        start += 2
        if size & 0x80:  # the long form: so many bytes hold the length
            count = size & 0x7F
            size = int.from_bytes(der[start : start + count], "big")
            start += count
        yield tag, der[start : start + size]
        start += size


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= _CENTURY_FROM else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
