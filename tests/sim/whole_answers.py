"""A group's answer in one piece, and requests with batches of compiled code, for the simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from heliostat.clusters.wire.scan import (
    ABORTED_AT,
    END,
    ERROR,
    HIGH_WATERMARK,
    LAST_STABLE_OFFSET,
    NEWS,
    NO_TAGS,
    ROW_FIELDS,
    START,
    WATCHED_FIELDS,
)
from heliostat.names import BrokerId
from heliostat.records.copier.network import (
    ASKED_FIELDS,
    Channel,
    Fetched,
    GroupAnswer,
    PlainSends,
    Send,
)


class OfCompiled(list[Send]):
    """A request with batches of compiled code."""

    def __init__(self, plain: PlainSends) -> None:
        super().__init__(plain.objects(with_bytes=True))
        self.plain = plain


def whole_answer(
    broker: BrokerId,
    channel: Channel,
    news: Sequence[Fetched],
    counted: Callable[[Fetched], Fetched],
) -> GroupAnswer:
    """A group's answer in one piece; each partition's batches follow the ones before."""
    data = bytearray()
    rows = np.full((len(news), ROW_FIELDS), -1, np.int64)
    watched = np.zeros((len(news), WATCHED_FIELDS), np.int64)
    watched[:, NEWS] = range(len(news))
    for row, event in zip(rows, news, strict=True):
        row[[ERROR, HIGH_WATERMARK]] = event.error, event.high_watermark
        row[[START, END]] = len(data), len(data) + len(event.buffer)
        row[LAST_STABLE_OFFSET] = event.last_stable_offset
        row[ABORTED_AT] = 0 if event.aborted else -1
        data += event.buffer
        data.append(NO_TAGS if event.diverging_epoch is None else 1)
    asked = np.array([event.want for event in news], np.int64).reshape(-1, ASKED_FIELDS)
    array = np.frombuffer(data, np.uint8)

    def fetched(place: int) -> Fetched:
        return counted(news[place])

    return GroupAnswer(broker, channel, array, rows, watched, len(news), asked, fetched)
