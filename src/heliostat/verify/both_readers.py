"""Readers of both sides of a link, opened beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from heliostat.access import ClusterAccess
from heliostat.errors import BrokerError
from heliostat.names import TopicPartition
from heliostat.ops.asked import each_answer
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import FetchedPart, LogReader


class BothReaders(NamedTuple):
    """The source's committed records, and the target's: all, unless said else. For one thread."""

    source: LogReader
    target: LogReader


@contextmanager
def both_readers(
    source: ClusterAccess, target: ClusterAccess, of_target: Isolation = Isolation.READ_UNCOMMITTED
) -> Iterator[BothReaders]:
    """Open readers of both sides at once, and close them at the end.

    Parameters
    ----------
    of_target
        What is read there; of the source it is what was committed.

    Raises
    ------
    ConnectionLost
        One of the clusters does not answer.
    """
    opening: dict[str, Callable[[], LogReader]] = {
        "source": partial(LogReader, source, Isolation.READ_COMMITTED),
        "target": partial(LogReader, target, of_target),
    }
    opened = each_answer(opening, len(opening))
    with ExitStack() as stack:
        for reader in opened.values():
            if isinstance(reader, LogReader):
                stack.enter_context(reader)
        yield BothReaders(_sound(opened["source"]), _sound(opened["target"]))


def _sound(reader: LogReader | BaseException) -> LogReader:
    if isinstance(reader, BaseException):
        raise reader
    return reader


def first_parts(
    reader: LogReader, positions: Mapping[TopicPartition, int], partition_bytes: int
) -> dict[TopicPartition, FetchedPart]:
    """Fetch the first part of many partitions at once; after an error each is read alone."""
    if len(positions) < 2:  # one is read alone anyway
        return {}
    try:
        found = reader.fetch(positions, partition_bytes)
    except BrokerError:
        return {}
    return {one: fetched for one, fetched in found.items() if fetched.data}
