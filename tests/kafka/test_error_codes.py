"""Codes of partitions that no other test provokes, each between real brokers.

Run by the product's copier in this process, without Spark. All codes and their tests are listed in
docs/reference/errors-provoked.md.
"""

from __future__ import annotations

import pytest
from support.clusters import ClusterPair
from support.one_partition import OnePartition, damage, segment_of
from support.provoked import Provoked
from support.records import write_transaction

from heliostat.access import access_of
from heliostat.errors import BatchError
from heliostat.names import Offset
from heliostat.offsets.map_rows import Stamp
from heliostat.offsets.offset_map import Break, MapTail, encode_breaks
from heliostat.records.copier import markers as filling
from heliostat.records.copier.lane import PartitionState
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader
from heliostat.verify.stream import PartitionStream

pytestmark = [pytest.mark.kafka, pytest.mark.core]

OF_ONE_BEFORE = ("codes/0/1/0",)
"""Rounds before this one: a successor does not ask who wrote the mirror's end at first."""


@pytest.mark.provokes("FOREIGN_TAIL")
def test_a_mirror_that_ends_with_foreign_records(
    cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given a mirror / when another producer appends between two rounds / then DIVERGED."""
    one = OnePartition(cluster_pair)
    one.write_source(10)
    one.copy_to(10)
    one.write_target(3)
    told = one.copy_until("FOREIGN_TAIL")
    assert told.state is PartitionState.DIVERGED
    provoked("FOREIGN_TAIL", told)


@pytest.mark.provokes("APPENDED_ELSEWHERE")
def test_a_batch_that_lands_after_foreign_records(
    cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given a round that copies / when another producer appends in the middle / then DIVERGED."""
    one = OnePartition(cluster_pair)
    one.write_source(10)
    steps = iter([lambda: one.write_target(3), lambda: one.write_source(5)])

    def is_found(item: PartitionCopy) -> bool:
        if item.progress.position >= 10 and not item.appends.in_flight:
            for step in steps:
                step()
        return item.standing.code == "APPENDED_ELSEWHERE"

    told = one.copy(is_found)
    assert (told.state, told.position) == (PartitionState.DIVERGED, 10)
    provoked("APPENDED_ELSEWHERE", told)


@pytest.mark.provokes("TARGET_REFUSES_SEQUENCE")
def test_a_takeover_after_foreign_records_that_follow_our_own(
    cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given our records, then foreign ones / when taken over from there / then DIVERGED."""
    one = OnePartition(cluster_pair)
    one.write_source(20)
    one.copy_to(20)
    one.write_target(3)
    one.write_source(10)
    told = one.copy_until("TARGET_REFUSES_SEQUENCE", spec={"adopted_at": Offset(23)})
    assert told.state is PartitionState.DIVERGED
    provoked("TARGET_REFUSES_SEQUENCE", told)


@pytest.mark.provokes("TARGET_TRUNCATED", how="the lane is told a map that begins behind its end")
def test_a_mirror_that_ends_before_its_map_begins(
    cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given only the end of a map / when the mirror ends before that / then DIVERGED."""
    one = OnePartition(cluster_pair)
    one.write_source(10)
    one.copy_to(10)
    told = one.copy_until(
        "TARGET_TRUNCATED", maps=((0, MapTail(Stamp(0, 0), 50, encode_breaks([]))),)
    )
    assert told.state is PartitionState.DIVERGED
    provoked("TARGET_TRUNCATED", told)


@pytest.mark.provokes("OFFSETS_GO_BACK")
def test_a_decision_to_go_back_in_an_exact_mirror(
    cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given `offsets: exact` / when a decision continues at an earlier offset / then BLOCKED."""
    one = OnePartition(cluster_pair, fills=True)
    one.write_source(10)
    one.copy_to(10)
    told = one.copy_until("OFFSETS_GO_BACK", spec={"jump": Break(10, 5)})
    assert told.state is PartitionState.BLOCKED
    provoked("OFFSETS_GO_BACK", told)


@pytest.mark.provokes("HOLE_TOO_LARGE", how="the limit is lowered from ten million to four")
def test_a_hole_larger_than_can_be_filled(
    cluster_pair: ClusterPair, provoked: Provoked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given `offsets: exact` / when a transaction of many records was aborted / then BLOCKED."""
    monkeypatch.setattr(filling, "HOLE_MARKERS_MAX", 4)
    one = OnePartition(cluster_pair, fills=True)
    write_transaction(cluster_pair.source.bootstrap, one.topic, 8, commit=False)
    one.write_source(1)
    told = one.copy_until("HOLE_TOO_LARGE")
    assert told.state is PartitionState.BLOCKED
    provoked("HOLE_TOO_LARGE", told)


@pytest.mark.provokes("LEASE_ENDED", how="a lane that nobody answers any more")
def test_a_lane_without_answers(cluster_pair: ClusterPair, provoked: Provoked) -> None:
    """Given a lease that is over / when records come / then nothing is sent, and it says why."""
    one = OnePartition(cluster_pair)
    one.write_source(3)
    assert one.copy_to(3).position == 3

    def is_found(item: PartitionCopy) -> bool:
        if item.standing.code != "LEASE_ENDED":
            return False
        one.write_source(4)
        return True

    told = one.copy(is_found, lease_s=2.0)
    assert (told.state, told.position) == (PartitionState.RETRYING, 3)
    provoked("LEASE_ENDED", told)


@pytest.mark.provokes("MARKERS_MISSING", how="another producer's records come between markers")
def test_a_mirror_that_does_not_end_after_its_markers(
    cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given markers in flight / when others append meanwhile / then the end is read again."""
    one = OnePartition(cluster_pair, fills=True)
    # Several requests of markers: with one, the records might land after the check of the end.
    hole = 3 * filling.MARKERS_MAX
    write_transaction(cluster_pair.source.bootstrap, one.topic, hole, commit=False)
    steps = iter([lambda: one.write_target(2)])

    def is_found(item: PartitionCopy) -> bool:
        if item.filling.is_sending:
            for step in steps:
                step()
        return item.standing.code == "MARKERS_MISSING"

    told = one.copy(is_found)
    assert told.state is PartitionState.RETRYING
    provoked("MARKERS_MISSING", told)


@pytest.mark.provokes(
    "CORRUPT", "BATCH_MALFORMED", how="a byte of the source's segment file is changed"
)
def test_a_batch_stored_with_damage(cluster_pair: ClusterPair, provoked: Provoked) -> None:
    """Given a segment with a changed byte / when copied and verified / then BLOCKED, reported."""
    one = OnePartition(cluster_pair)
    one.write_source(10)
    one.write_source(10)
    damage(segment_of(cluster_pair.source, one.partition))
    told = one.copy(lambda item: item.standing.state is PartitionState.BLOCKED)
    assert told.position == 10
    provoked("CORRUPT", told)
    with LogReader(
        access_of([cluster_pair.source.bootstrap]), Isolation.READ_UNCOMMITTED
    ) as reader:
        reader.topics([one.topic])
        with pytest.raises(BatchError) as caught:
            list(PartitionStream(reader, one.partition, 0, 20))
    provoked("BATCH_MALFORMED", caught.value)
