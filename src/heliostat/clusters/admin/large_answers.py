"""Answers about thousands of topics: decoded once, and again only if they have changed.

kafka-python makes an object of every field: the settings of 3,000 topics, 100,000 of them, took
seconds of CPU each time. Two answers mostly are the same bytes, and most topics have the same
settings, so bytes that were decoded before are recognised: whole answers here, one topic's in
`config_answers`.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from kafka.protocol.admin import DescribeConfigsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from heliostat.errors import ProtocolError

_Decoded = TypeVar("_Decoded")
QUESTIONS_MAX = 16
"""A reconciliation asks a few: all topics, settings of 1,000 topics. An answer is a few MB."""
_BEHIND_THROTTLE = 4
"""`throttle_time_ms` comes first in these answers, in the versions used here, and varies."""


class LargeAnswer:
    """The body of an answer, not decoded."""

    __slots__ = ("body", "version")

    def __init__(self, body: bytes, version: int) -> None:
        self.body = body
        self.version = version

    @classmethod
    def decode(cls, body: memoryview, version: int) -> LargeAnswer:
        """Return it, as the response classes of kafka-python do."""
        return cls(bytes(body), version)


class DescribeConfigs(DescribeConfigsRequest, init=False):  # type: ignore[misc,call-arg]  # untyped
    """Request whose answer is a `LargeAnswer`."""

    RESPONSE = LargeAnswer


class Metadata(MetadataRequest, init=False):  # type: ignore[misc,call-arg]  # untyped
    """Request whose answer is a `LargeAnswer`."""

    RESPONSE = LargeAnswer


class ListGroups(ListGroupsRequest, init=False):  # type: ignore[misc,call-arg]  # untyped
    """Request whose answer is a `LargeAnswer`; from version 1 on."""

    RESPONSE = LargeAnswer


class OffsetFetch(OffsetFetchRequest, init=False):  # type: ignore[misc,call-arg]  # untyped
    """Request whose answer is a `LargeAnswer`; from version 3 on."""

    RESPONSE = LargeAnswer


class Remembered:
    """The last answer to each question, as bytes and decoded. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: OrderedDict[Hashable, tuple[bytes, object]] = OrderedDict()

    def decoded(
        self, question: Hashable, answer: LargeAnswer, decode: Callable[[LargeAnswer], _Decoded]
    ) -> _Decoded:
        """Decode an answer; for the same bytes as last time return the same object.

        Parameters
        ----------
        question
            Identifies the question; the newest `QUESTIONS_MAX` keep their last answer.

        Raises
        ------
        ProtocolError
            The bytes do not follow the format.
        """
        body = answer.body[_BEHIND_THROTTLE:]
        with self._lock:
            last = self._last.get(question)
            if last is not None:
                self._last.move_to_end(question)
        if last is not None and last[0] == body:
            return last[1]  # type: ignore[return-value]  # `decode` made it of this question
        try:
            made = decode(answer)
        except (IndexError, struct.error, ValueError) as error:
            raise ProtocolError("an answer is malformed", why=str(error)) from error
        with self._lock:
            self._last[question] = (body, made)
            self._last.move_to_end(question)
            while len(self._last) > QUESTIONS_MAX:
                self._last.popitem(last=False)
        return made
