"""What a topic that two sites write in turn costs, without brokers: `python bench/merge_cost.py`.

Each batch of the other site is a break. Lanes write the breaks of a fetch as one row, which is
written again as it grows (docs/adr/0007); so bytes depend on how many breaks come with each fetch.
Times are the process's CPU time, the best of several passes.

2026-11-28, CPython 3.11, two cores with other work on them: a break takes 2.0 bytes; with 1, 4 and
16 breaks a fetch 587, 148 and 38 bytes a break in rows of 512 breaks, 149, 38 and 10 in rows of 64;
1.4 us to tell whose a batch is; 7 us for a group's place in a map of 5,000 breaks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import accumulate, cycle, islice, pairwise

from convert_speed import answer

from heliostat.merge.crossing import Crossing
from heliostat.merge.landed_log import LandedLog, OwnBatches, Stretch
from heliostat.merge.own_end import BatchPlace, OwnNote
from heliostat.merge.places import Site, place_at, read_to
from heliostat.merge.producers import SiteProducers
from heliostat.names import LinkName, Offset, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import ROW_BREAKS_MAX, Break, OffsetMap, encode_breaks
from heliostat.records.batches.crossed import leave_crossed

PASSES = 20
SIZES = (1, 3, 1, 10, 2, 40)
"""Records of the batches of both sites, again and again."""
BREAKS = 5_000
FRAME_BYTES = 12
"""What a record takes in its batch beside key and value."""
LINK_ID = 7
"""What `convert_speed.answer` writes with."""


def breaks(count: int) -> list[Break]:
    """Return the breaks of two sites that write in turn."""
    own = list(islice(cycle(SIZES), count))
    others = list(islice(cycle(SIZES[1:]), count))
    numbers = [0, *accumulate(own)]
    crossed = list(accumulate(others))
    return [Break(numbers[at], numbers[at] + crossed[at]) for at in range(count)]


def row_bytes(found: list[Break], each_fetch: int, row_max: int) -> tuple[int, int]:
    """Return how many rows these breaks take, of how many bytes, if so many come with a fetch."""
    rows = size = begin = 0
    for end in range(each_fetch, len(found) + 1, each_fetch):
        row = found[begin:end]
        mirror = TopicPartition(TopicName("topic.of.usual.length"), PartitionId(12))
        key = RowKey(mirror, "7EEQ7YVnTWSBEKLV1Pmg8w", row[0].target, Stamp(3, 1200))
        rows, size = rows + 1, size + len(key.encode()) + len(encode_breaks(row)) + FRAME_BYTES
        if len(row) >= row_max:
            begin = end
    return rows, size


def best_s(work: Callable[[], object]) -> float:
    """Return the shortest CPU time of one pass."""
    best = float("inf")
    for _ in range(PASSES):
        before_s = time.process_time()
        work()
        best = min(best, time.process_time() - before_s)
    return best


def landed_log(found: list[Break], end: Offset) -> LandedLog:
    """Return a log that was read once, with the link's batches between others'."""
    own = [
        BatchPlace(LINK_ID, one.target, one.source, one.source + following.target - one.target)
        for one, following in pairwise(found)
    ]
    kept = OwnBatches({LINK_ID})
    kept.take(Offset(0), Stretch(own, end))
    note = OwnNote(found[-1].target, end)
    return LandedLog(kept, lambda offset: Stretch([], offset), note, Offset(0), end)


def main() -> None:
    """Print the table."""
    found = breaks(BREAKS)
    alone = len(encode_breaks(found)) / len(found)
    print(f"a break takes {alone:.1f} bytes, kept once")
    for each_fetch in (1, 4, 16, 64):
        for row_max in (ROW_BREAKS_MAX, 64):
            rows, size = row_bytes(found, each_fetch, row_max)
            print(
                f"{each_fetch} a fetch, rows of {row_max}: {size / rows:.0f} bytes a row, "
                f"{size / len(found):.0f} bytes a break"
            )
    stored = answer(1000, 10, (100, 100))
    for name, links in (("own", {}), ("crossed", {ProducerId(LINK_ID): LinkName("a-b")})):
        producers = SiteProducers(links)
        producers.rows_read(links, [LINK_ID])
        buffer = bytearray(stored)
        each_us = best_s(partial(leave_crossed, buffer, 0, len(buffer), producers)) * 1e3
        print(f"a batch that is {name}: {each_us:.2f} us to tell")
    here, there = Site("here"), Site("there")
    end = Offset(found[-1].source)
    crossing = Crossing(OffsetMap.of(found), landed_log(found, end))
    read = read_to(here, end, {there: crossing})
    each_us = best_s(lambda: place_at(here, read, {there: crossing}, end)) * 1e6
    print(f"a group's place in a map of {len(found)} breaks: {each_us:.0f} us")


if __name__ == "__main__":
    main()
