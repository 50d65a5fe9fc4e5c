"""Decoders of kafka-python that threads make at the same time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.schemas.fields.struct import StructField

from heliostat.clusters.kafka_decoders import make_decoders_alone

ANSWERS = {0: bytes(6), 1: bytes(10)}
"""Answers without content, by version."""


@pytest.mark.thorough
def test_threads_that_make_decoders_at_once_get_whole_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given two threads that see an answer for the first time / then both can decode it."""
    make_decoders_alone()
    make_decoders_alone()
    emit: Any = StructField.emit_decode_from

    def slow(*args: Any, **named: Any) -> None:
        time.sleep(0.05 + 0.1 * named["version"])  # the second still works as the first is done
        emit(*args, **named)

    monkeypatch.setattr(StructField, "emit_decode_from", slow)
    monkeypatch.setattr(ApiVersionsResponse._struct, "_compiled_encoders", {})
    with ThreadPoolExecutor(2) as threads:

        def decoded(version: int) -> Any:
            return ApiVersionsResponse.decode(ANSWERS[version], version=version)

        found = list(threads.map(decoded, ANSWERS))
    assert [type(each) for each in found] == [ApiVersionsResponse] * 2
