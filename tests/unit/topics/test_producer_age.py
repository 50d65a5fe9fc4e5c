"""What preflight reports about records older than brokers remember producers."""

from __future__ import annotations

from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster
from support.simulated_settings import BROKER_SETTINGS

from heliostat.names import Offset, PartitionId, TopicName
from heliostat.topics.producer_age import EXPIRATION_KEY, old_backlog_note
from heliostat.topics.topic_plan import Mirror

HOUR_MS = 3_600_000
NOW_MS = 1000 * HOUR_MS
ESS = TopicName("ESS")


def source(*ages_h: int) -> SimulatedCluster:
    """One partition's records, by their age in hours."""
    made = SimulatedCluster()
    made.create(ESS)
    made.append(ESS, [NOW_MS - age * HOUR_MS for age in ages_h])
    return made


def note(
    source: SimulatedCluster,
    copied: int,
    start: str = "earliest",
    *,
    holes: int | None = 0,
    is_compacted: bool = False,
) -> str | None:
    """Return the note for a target with `copied` of them that keeps producers for a day.

    The source has `holes` before what comes next; None: nobody knows how many.
    """
    target = SimulatedCluster()
    target.create(ESS)
    target.append(ESS, copied)
    assert BROKER_SETTINGS[EXPIRATION_KEY] == str(24 * HOUR_MS)
    mirror = Mirror(ESS, ESS, None, None, 1, 1, start, 1_000_000, is_compacted, False)

    def position_at(_: Mirror, number: PartitionId, end: Offset) -> Offset | None:
        assert number == 0
        return None if holes is None else Offset(end + holes)

    both = SimulatedAdmin(source), SimulatedAdmin(target)
    return old_backlog_note([mirror], *both, NOW_MS, position_at)


def test_old_records_to_copy_are_counted_and_the_setting_is_named() -> None:
    """Given 3 of 5 records older than a day / when 1 is copied / then 2 are reported."""
    found = note(source(90, 60, 30, 5, 1), 1)
    assert found is not None
    assert found.startswith("2 records of ESS-0 ")
    assert "producer.id.expiration.ms=86400000 (1 d)" in found


def test_all_old_records_count_without_young_ones() -> None:
    """Given only old ones and no mirror yet / when checked / then all are reported."""
    found = note(source(90, 60, 30), 0)
    assert found is not None
    assert found.startswith("3 records")


def test_nothing_is_noted_without_old_records_to_copy() -> None:
    """Given young ones, copied ones, or `start: latest` / when checked / then nothing."""
    assert note(source(5, 1), 0) is None
    assert note(source(90, 5, 1), 1) is None
    assert note(source(90, 60), 0, start="latest") is None
    assert note(source(90, 5), 0, start=str(NOW_MS - 6 * HOUR_MS)) is None


def test_offsets_missing_for_holes_only_are_not_counted() -> None:
    """Given 2 of 5 copied and 2 holes before / when asked / then one is left, or it is unknown."""
    five = source(90, 60, 50, 40, 30)
    assert (note(five, 2) or "").startswith("3 records")
    assert (note(five, 2, holes=2) or "").startswith("1 records")
    assert note(five, 2, holes=3) is None
    assert note(five, 2, holes=None) is None


def test_before_the_first_record_of_a_compacted_log_nothing_is_old() -> None:
    """Given 2 of 5 copied / when a cleaner leaves only the last, a young one / then nothing."""
    cluster = source(90, 90, 60, 50, 1)
    assert note(cluster, 2, is_compacted=True) is not None
    cluster.topics[ESS].logs[0].clean(5)
    assert note(cluster, 2, is_compacted=True) is None


def test_a_log_without_records_has_no_old_ones() -> None:
    """Given an empty compacted log, or one whose records are gone / when asked / then nothing."""
    assert note(source(), 0, is_compacted=True) is None
    emptied = source(90, 60, 50)
    emptied.topics[ESS].logs[0].delete_before(3)
    assert note(emptied, 0, is_compacted=True) is None
    assert note(emptied, 1, is_compacted=True) is None
    assert note(emptied, 0, start=str(NOW_MS)) is None


def test_partitions_in_sync_are_not_asked_by_time() -> None:
    """Given a pair in sync / when asked / then one question was enough."""
    cluster = source(90, 60)
    assert note(cluster, 2) is None
    assert len(cluster.asked("list_offsets")) == 1
