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
from io import BytesIO
from typing import Any, TypeVar

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliostat.errors import ProtocolError

_Decoded = TypeVar("_Decoded")
_INT32 = struct.Struct(">i")
QUESTIONS_MAX = 16
"""A reconciliation asks a few: all topics, settings of 1,000 topics. An answer is a few MB."""
_BEHIND_THROTTLE = 4
"""`throttle_time_ms` comes first in these answers, in the versions used here, and varies."""


class LargeAnswer:
    """The body of an answer, not decoded."""

    __slots__ = ("body", "throttle_time_ms", "version")

    def __init__(self, body: bytes, version: int) -> None:
        self.body = body
        self.version = version
        self.throttle_time_ms: int = _INT32.unpack_from(body)[0]
        """kafka-python's connection reads and obeys it."""


class _Undecoded:
    """Stands in for a response class of kafka-python, and does not decode the body."""

    def __init__(self, response: Any, version: int) -> None:
        self._response = response[version]
        self._version = version

    def parse_header(self, buffer: BytesIO) -> Any:
        return self._response.parse_header(buffer)

    def decode(self, buffer: BytesIO) -> LargeAnswer:
        return LargeAnswer(buffer.read(), self._version)


class _Header:
    """kafka-python's header of a request, except that the answer is not decoded."""

    def __init__(self, header: Any, response: Any) -> None:
        self._header = header
        self._response = response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)

    def get_response_class(self) -> _Undecoded:
        return _Undecoded(self._response, self._header.request_api_version)


class DescribeConfigs(DescribeConfigsRequest, init=False):  # type: ignore[misc,call-arg]  # untyped
    """Request whose answer is a `LargeAnswer`."""

    @property
    def header(self) -> _Header:
        """kafka-python's, with the answer not decoded."""
        return _Header(super().header, DescribeConfigsResponse)


class Metadata(MetadataRequest, init=False):  # type: ignore[misc,call-arg]  # untyped
    """Request whose answer is a `LargeAnswer`."""

    @property
    def header(self) -> _Header:
        """kafka-python's, with the answer not decoded."""
        return _Header(super().header, MetadataResponse)


class ListGroups(ListGroupsRequest, init=False):  # type: ignore[misc,call-arg]  # untyped
    """Request whose answer is a `LargeAnswer`; from version 1 on."""

    @property
    def header(self) -> _Header:
        """kafka-python's, with the answer not decoded."""
        return _Header(super().header, ListGroupsResponse)


class OffsetFetch(OffsetFetchRequest, init=False):  # type: ignore[misc,call-arg]  # untyped
    """Request whose answer is a `LargeAnswer`; from version 3 on."""

    @property
    def header(self) -> _Header:
        """kafka-python's, with the answer not decoded."""
        return _Header(super().header, OffsetFetchResponse)


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
