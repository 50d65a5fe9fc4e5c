"""Tells for a lane which batches of its source a link has brought there, by rows of producer ids.

An id that is in no row is judged once all rows were read to an end that was asked for after its
batch had come; until then the batch is held back (docs/adr/0059).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heliostat.access import ClusterAccess
from heliostat.clusters.producer_rows import ProducerReader
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.errors import BatchError, HeliostatError
from heliostat.merge.producers import SiteProducers
from heliostat.names import TopicName, id_text
from heliostat.records.batches.crossed import from_others, leave_crossed
from heliostat.records.copier.merged_lane import MergedLane
from heliostat.state_topics import PRODUCERS_TOPIC

AGAIN_AFTER_S = 1.0
"""After a failure the rows are not asked for again so soon: a lane does nothing else meanwhile."""


class SiteJudge:
    """Judges the producer ids of one round's source.

    Parameters
    ----------
    access, source
        The source, for a reader of the rows, and for what its brokers say of their topic.
    merged
        What the driver has noted of that topic.
    monotonic_s
        Monotonic clock (s).
    """

    def __init__(
        self,
        access: ClusterAccess,
        source: WireCluster,
        merged: MergedLane,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._source = source
        self._reader = ProducerReader(access)
        self._topic_id = merged.producers_id
        self._end = merged.producers_end
        self._monotonic_s = monotonic_s
        self._producers = SiteProducers()
        self._site = np.empty(0, np.int64)
        self._not_before_s = -1e9
        self._why = ""

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()

    def leave_crossed(self, buffer: bytearray | memoryview, data: Any, start: int, end: int) -> str:
        """Empty what links have appended in `buffer[start:end]`.

        Parameters
        ----------
        data
            The buffer as an array.

        Returns
        -------
        Why that can't be told now; empty: it is done.
        """
        at = from_others(data, start, end, self._site)
        if at >= end:
            return ""
        try:
            found = leave_crossed(buffer, at, end, self._producers)
            if found.unknown:
                if why := self._read(found.unknown):
                    return why
                leave_crossed(buffer, found.end, end, self._producers)
        except BatchError as error:
            return error.text
        return ""

    def _read(self, asked: frozenset[int]) -> str:
        """Read all rows, and judge these ids; return why that fails."""
        if self._monotonic_s() < self._not_before_s:
            return self._why
        self._why = self._why_not(asked)
        if self._why:
            self._not_before_s = self._monotonic_s() + AGAIN_AFTER_S
        return self._why

    def _why_not(self, asked: frozenset[int]) -> str:
        try:
            topic = self._source.metadata([TopicName(PRODUCERS_TOPIC)])[TopicName(PRODUCERS_TOPIC)]
            rows, end = self._reader.read()
        except (HeliostatError, KeyError) as error:
            return f"{PRODUCERS_TOPIC} can't be read at the source: {error}"
        if topic.error or id_text(topic.topic_id) != self._topic_id or end < self._end:
            return f"{PRODUCERS_TOPIC} is not there at the source as it was"
        self._end = end
        self._producers.rows_read(dict(rows), asked)
        self._site = np.array(self._producers.site, np.int64)
        return ""
