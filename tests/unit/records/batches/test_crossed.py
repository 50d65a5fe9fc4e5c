"""Batches that links brought to a site are found and left out; the site's own are passed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.batches import Record, StoredBatch

from heliostat.merge.producers import SiteProducers
from heliostat.names import LinkName, ProducerId
from heliostat.records.batches.batch import each_header
from heliostat.records.batches.crossed import from_others, leave_crossed

LINK, SITE, NEW = 3, 5, 9


def stored(ids: list[int]) -> bytearray:
    batches = [StoredBatch(at, (Record(1, None, b"v"),), producer_id=i) for at, i in enumerate(ids)]
    return bytearray(b"".join(each.encode() for each in batches))


@given(st.lists(st.sampled_from([-1, LINK, SITE, NEW]), max_size=6), st.integers(0, 40))
def test_the_compiled_look_finds_the_first_batch_that_may_be_anothers(
    ids: list[int], cut: int
) -> None:
    """Given batches, the last one maybe cut / then all before the place that it returns are the
    site's own, by the rows as well; the others are emptied from there on.
    """
    buffer = stored(ids)
    end = max(0, len(buffer) - cut)
    whole = [at for at, _ in each_header(buffer, 0, end)]
    others = [at for at, each in zip(whole, ids, strict=False) if each in {LINK, NEW}]
    at = from_others(np.frombuffer(buffer, np.uint8), 0, end, np.array([SITE], np.int64))
    assert at == (others[0] if others else end)
    producers = SiteProducers()
    producers.rows_read({ProducerId(LINK): LinkName("back")}, {SITE, NEW})
    assert producers.site == [SITE, NEW]
    assert leave_crossed(buffer, at, end, producers).unknown == frozenset()
    left = [header.records_count for _, header in each_header(buffer, 0, end)]
    assert left == [0 if each == LINK else 1 for each in ids[: len(whole)]]
