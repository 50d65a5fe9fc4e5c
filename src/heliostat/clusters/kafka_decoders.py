"""Lets kafka-python make decoders of answers by one thread at a time.

It makes each one at its first use, and sets the class of the answer aside meanwhile
(`StructField.compiled_decode_from`, 3.0.12). Of two threads that did so at once, one kept a decoder
without a class: each later answer of that kind was a `TypeError`, as long as the process lived, and
a link that had just started copied nothing (2026-11-26, two probes of brokers).
"""

from __future__ import annotations

import threading
from typing import Any

from kafka.protocol.schemas.fields.struct import StructField

_MAKING = threading.Lock()
_made = StructField.compiled_decode_from


def _made_alone(self: Any, *args: Any, **named: Any) -> Any:
    with _MAKING:
        return _made(self, *args, **named)


def make_decoders_alone() -> None:
    """Do so from now on, in all of kafka-python's clients. May be called again."""
    StructField.compiled_decode_from = _made_alone
