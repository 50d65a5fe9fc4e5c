"""Bytes and times as people read them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime


def bytes_text(content: bytes) -> str:
    """Return bytes as text, or as hexadecimal digits after `0x` where they are none."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "0x" + content.hex()


def bytes_of(text: str) -> bytes:
    """Return what `bytes_text` shows as this: digits after `0x` are bytes, all else is text."""
    if text.startswith("0x"):
        with suppress(ValueError):
            return bytes.fromhex(text[2:])
    return text.encode()


def time_text(at_ms: int) -> str:
    """Return a time (ms since the epoch) as date and time of day in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def size_text(number: float) -> str:
    """Format bytes with a decimal unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError
