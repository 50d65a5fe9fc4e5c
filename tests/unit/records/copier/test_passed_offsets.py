"""Offsets without records that a round has passed: where the next look goes on."""

from __future__ import annotations

import pytest
from support.records import Sample, encode
from unit.records.copier.test_partition_copy import NOW_MS, OneMirror

from heliostat.names import Offset
from heliostat.records.batches.batch import forget_records, read_header
from heliostat.records.batches.copied_epochs import CopiedEpochs, CopiedTo
from heliostat.records.copier.partition_leave import continue_from
from heliostat.records.copier.partition_report import copied_in


@pytest.mark.parametrize(
    ("copied_to", "copied_end", "expected"),
    [(103, 100, 103), (103, 99, 100), (103, -1, 100), (90, 100, 100)],
)
def test_a_hole_after_the_last_record_is_known_from_the_noted_end(
    copied_to: int, copied_end: int, expected: int
) -> None:
    """Given a note of the link / when the target ends as it did then / then it continues there."""
    one = OneMirror()
    one.copy.progress.copied_to, one.copy.progress.copied_end = copied_to, copied_end
    one.begin(100)
    assert one.copy.progress.position == one.want().offset == expected


def passed(one: OneMirror) -> None:
    """Pass a batch of five offsets whose records others have brought, or a pipeline left out."""
    answer = bytearray(encode([Sample(b"k", b"v", NOW_MS)] * 5))
    answer[:16] = (10).to_bytes(8, "big") + answer[8:12] + (4).to_bytes(4, "big")
    header = read_header(answer, 0, len(answer))
    assert header is not None
    forget_records(answer, 0, header)
    one.copy.fetched(answer, 0, len(answer), high_watermark=15, now_s=0.0, now_ms=NOW_MS)


@pytest.mark.parametrize(("is_doubted", "expected"), [(False, 15), (True, 10)])
def test_what_was_passed_is_not_asked_for_again_after_an_interruption(
    *, is_doubted: bool, expected: int
) -> None:
    """Given offsets without records that a round has passed / when it reads the target's end again,

    as after a connection that was lost / then it goes on behind them: retention may have taken them
    from the source, which is no loss. But a source that lost records may have others there now.
    """
    one = OneMirror()
    passed(one)
    if is_doubted:
        one.copy.doubt(Offset(10), NOW_MS)
    else:
        one.copy.look_again(NOW_MS)
    one.begin(10)
    assert one.copy.progress.position == one.want().offset == expected


def test_a_copy_that_goes_on_for_another_one_begins_behind_what_that_has_passed() -> None:
    before, later = OneMirror(), OneMirror()
    passed(before)
    continue_from(later.copy, before.copy)
    later.begin(10)
    assert later.want().offset == 15


def test_a_round_of_which_a_pipeline_left_nothing_has_gone_on() -> None:
    """Given a batch without records / when the round ends / then it notes that it has passed it:

    the next one begins there, also if retention has taken its offsets from the source meanwhile.
    """
    one = OneMirror()
    one.copy.fetches.epochs = CopiedEpochs(CopiedTo(10, 4))
    one.copy.progress.copied_to = one.copy.progress.copied_end = 10
    assert copied_in([one.copy]) == []
    passed(one)
    assert (one.copy.progress.position, one.copy.progress.records) == (15, 0)
    [(_, *note)] = copied_in([one.copy])
    assert note == [15, 4, 10]
    later = OneMirror()
    later.copy.progress.copied_to, _, later.copy.progress.copied_end = note
    later.begin(10)
    assert later.want().offset == 15
