"""The samples of a link say what its status says, whatever has failed; absent is not known."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from unit.status.test_truth import CASES, DRIVER, NOW_MS, Case, partition, told

from heliostat.config import LinkConfig, MetricsConfig
from heliostat.metrics import families as f
from heliostat.metrics.link_samples import OTHER, LinkSamples, WatchedLink
from heliostat.metrics.text import Samples, labels
from heliostat.names import BrokerId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.ops.latency import LatencyHistogram
from heliostat.ops.process_use import ProcessUse
from heliostat.ops.request_times import RequestCounts
from heliostat.records.copier.lane import PartitionState
from heliostat.status.board import StatusBoard
from heliostat.status.cluster_watch import Reach
from heliostat.status.follower import Observation
from heliostat.status.latencies import Percentiles
from heliostat.status.loss import Rereads
from heliostat.status.reports import Totals
from heliostat.status.values import LinkStatus, TopicStatus

LINK = LinkConfig.model_validate({"name": "l", "source": "summit", "target": "usdf"})
NAMES = {"link": "l", "source": "summit", "target": "usdf"}
ALL = MetricsConfig()
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(text: str) -> Values:
    """Samples as Prometheus reads them, each under its name and labels but the link's own."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    keys = [
        (each.name, frozenset(item for item in each.labels.items() if item not in NAMES.items()))
        for each in samples
    ]
    assert len(set(keys)) == len(keys), "a series is there twice"
    return dict(zip(keys, (each.value for each in samples), strict=True))


def samples_of(
    status: LinkStatus,
    totals: Totals | None = None,
    config: MetricsConfig = ALL,
    source: Reach = Reach(),  # noqa: B008  # a value
    board: StatusBoard | None = None,
) -> Values:
    samples = Samples()
    partitions = list if board is None else partial(board.partitions, NOW_MS)
    watched = WatchedLink(Observation(status, totals or Totals()), source, Reach(), partitions)
    LinkSamples(LINK, config).write(samples, watched)
    return scraped(samples.text())


def at(family: f.Family, **labelled: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return family.name, frozenset(labelled.items())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_samples_say_what_the_status_says_while_a_fault_lasts(case: Case) -> None:
    status, _ = told(case)
    values = samples_of(status)
    states = {name: values[at(f.LINK_STATE, state=name)] for name in f.LINK_STATES}
    assert [name for name, value in states.items() if value] == [case.state]
    assert values[at(f.LINK_IN_SYNC)] == (not case.why)
    assert values[at(f.LOSS_EXACT)] == (status.would_be_lost.truth == "exact")
    for topic in status.topics:
        assert values.get(at(f.LAG_RECORDS, topic=topic.source)) == case.lag
        assert values.get(at(f.LAG_SECONDS, topic=topic.source)) == case.age_s
        assert values[at(f.LAG_UNKNOWN, topic=topic.source)] == case.unknown
        loss = topic.would_be_lost
        assert values.get(at(f.LOSS_RECORDS, topic=topic.source)) == loss.records
        assert values.get(at(f.LOSS_SECONDS, topic=topic.source)) == loss.age_s
        shown = {key: n for key, n in values.items() if key[0] == f.TOPIC_PARTITIONS.name}
        assert shown == {at(f.TOPIC_PARTITIONS, topic=topic.source, state=case.partition): 1}


def status_of(topics: list[TopicStatus]) -> LinkStatus:
    status = StatusBoard(LinkName("l")).status(NOW_MS)
    status.topics = topics
    return status


def topic(name: str, **fields: Any) -> TopicStatus:
    return replace(TopicStatus(name, name), states={"copying": 1}, **fields)


def test_a_link_that_has_halted_says_how_it_goes_on_and_why() -> None:
    status = status_of([])
    assert f.LINK_HALTED.name not in {name for name, _ in samples_of(status)}
    status.state = "halted"
    how = {"phase": "gave_up", "code": "PROTOCOL", "reason": "x", "text": "it has given up"}
    status.restarts = {**how, "total": 7, "next_ms": None}
    assert samples_of(status)[at(f.LINK_HALTED, phase="gave_up", code="PROTOCOL")] == 1


def test_topics_without_series_of_their_own_are_summed_up() -> None:
    """Given at most one topic, and one that is left out / then the others are `(other)`."""
    config = MetricsConfig.model_validate({"topics": {"include": ["a.*", "b.*"], "max": 1}})
    topics = [
        topic("b", lag_records=2, lag_s=3.0),
        topic("a", lag_records=1, lag_s=9.0),
        topic("c", lag_records=5, lag_s=1.0),
    ]
    totals = Totals()
    for number, name in enumerate("abc", 1):
        totals.copied[TopicPartition(TopicName(name), PartitionId(0))] = (number, 10 * number)
    values = samples_of(status_of(topics), totals, config)
    assert values[at(f.LAG_RECORDS, topic="a")] == 1
    assert values[at(f.LAG_RECORDS, topic=OTHER)] == 7
    assert values[at(f.LAG_SECONDS, topic=OTHER)] == 3.0
    assert values[at(f.RECORDS_COPIED, topic="a")] == 1
    assert values[at(f.RECORDS_COPIED, topic=OTHER)] == 5
    assert values[at(f.BYTES_COPIED, topic=OTHER)] == 50
    assert values[at(f.TOPIC_PARTITIONS, topic=OTHER, state="copying")] == 2
    assert not any(("topic", "b") in key[1] for key in values)


def test_the_sum_of_topics_is_not_known_where_one_is_not() -> None:
    config = MetricsConfig.model_validate({"topics": {"max": 0}})
    topics = [topic("a", lag_records=1, lag_s=1.0), topic("b", lag_records=None, lag_s=None)]
    values = samples_of(status_of(topics), config=config)
    assert at(f.LAG_RECORDS, topic=OTHER) not in values
    assert at(f.LAG_SECONDS, topic=OTHER) not in values


def test_a_stopped_partition_has_a_series_and_the_time_since_when() -> None:
    stopped = partition(
        state=PartitionState.BLOCKED, code="RECORD_TOO_LARGE", reason="x", since_ms=NOW_MS - 5000
    )
    status, board = told(Case(report=stopped, driver=DRIVER))
    values = samples_of(status, board=board)
    state = at(f.PARTITION_STATE, topic="t", partition="0", state="blocked")
    since = at(f.PARTITION_STOPPED, topic="t", partition="0", code="RECORD_TOO_LARGE")
    assert values[state] == 1
    assert values[since] == (NOW_MS - 5000) / 1000
    none = MetricsConfig(partitions="none")
    assert state not in samples_of(status, config=none, board=board)


@pytest.mark.parametrize(
    ("which", "late_s", "is_there"),
    [("problems", 61, True), ("problems", 59, False), ("all", 0, True), ("none", 99, False)],
)
def test_which_partitions_have_series_of_their_own(
    which: str, late_s: int, *, is_there: bool
) -> None:
    late = partition(high_watermark=12, missing_ms=NOW_MS - late_s * 1000)
    status, board = told(Case(report=late, driver=DRIVER))
    totals = Totals({TopicPartition(TopicName("t"), PartitionId(0)): (7, 700)})
    values = samples_of(
        status, totals, MetricsConfig.model_validate({"partitions": which}), board=board
    )
    lag = values.get(at(f.PARTITION_LAG_RECORDS, topic="t", partition="0"))
    assert lag == (3 if is_there else None)
    assert (at(f.PARTITION_POSITION, topic="t", partition="0") in values) == is_there
    copied = (f.PARTITION_RECORDS_COPIED, f.PARTITION_BYTES_COPIED)
    amounts = [values.get(at(family, topic="t", partition="0")) for family in copied]
    assert amounts == ([7, 700] if is_there else [None, None])


def test_brokers_that_do_not_answer_are_told() -> None:
    reach = Reach({BrokerId(1): True, BrokerId(2): False}, 17.0)
    values = samples_of(status_of([]), source=reach)
    assert values[at(f.BROKER_REACHABLE, side="source", broker="1")] == 1
    assert values[at(f.BROKER_REACHABLE, side="source", broker="2")] == 0
    assert values[at(f.SOURCE_END_AGE)] == 17.0


@pytest.mark.parametrize("latency_ms", [0.0, 0.9, 2.4, 30.0, 999.0, 59_000.0, 90_000.0])
def test_no_latency_looks_shorter_than_it_was(latency_ms: float) -> None:
    histogram = LatencyHistogram()
    histogram.add(latency_ms, 3)
    values = samples_of(status_of([]), Totals(latency=histogram))
    name = f.COPY_LATENCY.name
    below = {
        float(dict(key[1])["le"]): value
        for key, value in values.items()
        if key[0] == f"{name}_bucket"
    }
    assert sorted(below) == [*f.LATENCY_BOUNDS_S, float("inf")]
    assert all(not count for bound, count in below.items() if bound < latency_ms / 1000)
    assert all(
        count == 3 for bound, count in below.items() if bound > 1.1 * latency_ms / 1000 + 1e-3
    )
    assert values[f"{name}_count", frozenset()] == 3
    assert values[f"{name}_sum", frozenset()] >= 3 * latency_ms / 1000


METERS = {
    "processes": {"driver": [1.5, 100, 3, 10, 20], "jvm": [2.5, 200, 4, 30, 40]},
    "errors": [["CONNECTION_LOST", "source", 3], ["REQUEST_TIMED_OUT", "", 1]],
    "admin": [["source", "Metadata", 0.25, [0, 1, *([0] * 10), 2]]],
}


def metered() -> LinkStatus:
    driver = {
        **DRIVER,
        "meters": METERS,
        "gaps": {"rows": 2, "records_lost": 9, "unknown": 0, "dead_letters": 1},
        "interchange": {"beats": [["summit", "1", NOW_MS - 2000], ['ba"se', "3+", NOW_MS]]},
    }
    status, _ = told(Case(report=partition(), driver=driver))
    (lane,) = status.lanes
    lane["process"] = ProcessUse(0.5, 50, 2, 7, 8)._asdict()
    return status


def test_what_the_driver_has_counted() -> None:
    values = samples_of(metered())
    assert values[at(f.ERRORS, side="source", **{"class": "CONNECTION_LOST"})] == 3
    assert values[at(f.ERRORS, side="", **{"class": "REQUEST_TIMED_OUT"})] == 1
    asked = {"side": "source", "request": "Metadata"}
    bucket = f"{f.ADMIN_SECONDS.name}_bucket"
    assert values[bucket, frozenset({**asked, "le": "0.005"}.items())] == 0
    assert values[bucket, frozenset({**asked, "le": "30.0"}.items())] == 1
    assert values[bucket, frozenset({**asked, "le": "+Inf"}.items())] == 3
    assert values[f"{f.ADMIN_SECONDS.name}_sum", frozenset(asked.items())] == 0.25
    assert [values[at(each)] for each in (f.GAPS, f.GAP_RECORDS, f.DEAD_LETTERS)] == [2, 9, 1]
    assert values[at(f.UPSTREAM_BEAT_AGE, origin="summit", hops="1")] == 2.0
    assert values[at(f.UPSTREAM_BEAT_AGE, origin='ba"se', hops="3+")] == 0.0


def test_limits_are_told_with_what_held_lanes_back() -> None:
    rows = [
        {"topic": topic, "bytes_per_second": rate, "by": "ops", "at_ms": 1, "why": ""}
        for topic, rate in ((None, 20_000_000), ("t", 5_000))
    ]
    use = {"topic": "t", "used_bytes_per_second": 4_999, "throttled_s": 2.5}
    driver = {"wishes": {"limits": rows}, "limits": [use]}
    values = samples_of(told(Case(driver=driver))[0])
    assert [values[at(f.LIMIT_BYTES, topic=topic)] for topic in ("", "t")] == [20_000_000, 5_000]
    assert [values[at(f.LIMIT_THROTTLED, topic=topic)] for topic in ("", "t")] == [0.0, 2.5]


@pytest.mark.parametrize("with_driver", [True, False])
def test_what_processes_use(*, with_driver: bool) -> None:
    """A driver's processes stand at one of its links; those of a silent driver are not known."""
    samples = Samples()
    status = metered()
    LinkSamples(LINK, ALL).write_processes(samples, status, with_driver=with_driver)
    values = scraped(samples.text())
    worker = {"process": "worker", "lane": "0"}
    assert values[at(f.PART_CPU, **worker)] == 0.5
    assert values[at(f.PART_BYTES, **worker, direction="read")] == 7
    assert values.get(at(f.PART_MEMORY, process="jvm")) == (200 if with_driver else None)
    assert values.get(at(f.PART_SOCKETS, process="driver")) == (3 if with_driver else None)
    status.state = "silent"
    silent = Samples()
    LinkSamples(LINK, ALL).write_processes(silent, status, with_driver=with_driver)
    assert not silent.text()


def test_latency_and_retention_of_topics_with_series_of_their_own() -> None:
    samples = Samples()
    a, b = TopicName("a"), TopicName("b")
    latencies, kept = (
        dict.fromkeys((a, b), Percentiles(3.0, 250.0, 1.0, 300.0, 9.0)),
        dict.fromkeys((a, b), 60.0),
    )
    observation = Observation(status_of([topic("a"), topic("b")]), Totals())
    watched = WatchedLink(observation, Reach(), Reach(), list, lambda: latencies, lambda: kept)
    config = MetricsConfig.model_validate({"topics": {"include": ["a"]}})
    LinkSamples(LINK, config).write(samples, watched)
    values = scraped(samples.text())
    assert values[at(f.TOPIC_LATENCY, topic="a", q="p50")] == 0.003
    assert values[at(f.TOPIC_LATENCY, topic="a", q="p99")] == 0.25
    assert values[at(f.TOPIC_RETENTION, topic="a")] == 60.0
    assert not any(("topic", "b") in key[1] for key in values)


def test_rounds_by_result_and_why_lanes_began_anew() -> None:
    status = status_of([])
    ends = [["failed", "CONNECTION_LOST", 2], ["failed", "UNKNOWN", 1], ["ended", "planned", 4]]
    status.driver = {"round_ends": ends}
    values = samples_of(status)
    assert values[at(f.ROUNDS, result="ended")] == 4
    assert values[at(f.ROUNDS, result="failed")] == 3
    assert values[at(f.LANE_RESTARTS, reason="CONNECTION_LOST")] == 2
    assert values[at(f.LANE_RESTARTS, reason="planned")] == 4


def test_a_driver_without_rounds_has_counters_at_zero() -> None:
    """A counter that appears with its first value has no increase in Prometheus."""
    status = status_of([])
    status.driver = {"gaps": {"skipped": {"record_failed": 0}}}
    values = samples_of(status)
    assert values[at(f.ROUNDS, result="failed")] == 0
    assert values[at(f.RECORDS_SKIPPED, reason="record_failed")] == 0
    assert values[at(f.THROTTLE_SECONDS, side="target")] == 0


def test_all_refused_topics_are_counted_though_a_hundred_are_named() -> None:
    status = status_of([])
    status.driver = {"topics": {"mirrored": 5, "refused": 300, "left_out": 2, "waiting": 1}}
    status.refused = {f"t{number}": "why" for number in range(100)}
    values = samples_of(status)
    assert values[at(f.TOPICS, state="refused")] == 300
    assert values[at(f.TOPICS, state="left_out")] == 2
    assert values[at(f.TOPICS, state="waiting")] == 1


def test_how_long_requests_took_and_for_how_long_brokers_throttled() -> None:
    fetches, appends = RequestCounts(), RequestCounts()
    fetches.took(0.004)
    appends.took(0.02)
    appends.took(40.0)
    appends.throttled_ms = 1_500
    totals = Totals(requests=fetches.numbers() + appends.numbers())
    values = samples_of(status_of([]), totals)
    name = f.REQUEST_SECONDS.name
    append = {"side": "target", "api": "produce"}
    assert values[f"{name}_bucket", frozenset({**append, "le": "0.025"}.items())] == 1
    assert values[f"{name}_count", frozenset(append.items())] == 2
    assert values[f"{name}_sum", frozenset(append.items())] == pytest.approx(40.02)
    assert values[f"{name}_count", frozenset({"side": "source", "api": "fetch"}.items())] == 1
    assert values[at(f.THROTTLE_SECONDS, side="target")] == 1.5


def test_groups_that_metrics_name() -> None:
    status = status_of([])
    status.driver = {"groups": {"measured": [['a"b', 7, 1_500, 4], ["new", None, None]]}}
    status.rereads = Rereads(40, "bound", 2, 0, NOW_MS, {}, is_synced=True)
    values = samples_of(status)
    assert values[at(f.GROUP_LAG, group='a"b')] == 7
    assert values[at(f.GROUP_PUBLISHED, group='a"b')] == 1.5
    assert values[at(f.GROUP_REREAD, group='a"b')] == 4
    assert values[at(f.GROUPS_REREAD)] == 40
    assert not any(("group", "new") in key[1] for key in values), "absent is not known"


def test_labels_survive_what_a_name_may_hold() -> None:
    samples = Samples()
    odd = 'a"b\\c\nd'
    samples.add(f.LANE_SILENT, labels({"link": odd}), 1)
    assert scraped(samples.text()) == {(f.LANE_SILENT.name, frozenset({("link", odd)})): 1}


def test_each_family_is_named_as_prometheus_wants() -> None:
    for family in f.FAMILIES:
        assert family.name.endswith("_total") == (family.kind is f.Kind.COUNTER)
        assert not family.name.endswith(("_ms", "_kb")), "base units"
        assert family.meaning.endswith(".")
    assert len({family.name for family in f.FAMILIES}) == len(f.FAMILIES)


def test_schemas_that_were_copied_and_waited_for() -> None:
    waits = RequestCounts()
    waits.took(1.5)
    status = status_of([])
    status.driver = {"schemas": {"waiting": [7], "waits": waits.numbers(), "copied": 3}}
    values = samples_of(status)
    assert values[at(f.SCHEMAS_COPIED)] == 3
    assert values[at(f.SCHEMA_WAITING)] == 1
    assert values[f"{f.SCHEMA_WAIT_SECONDS.name}_sum", frozenset()] == 1.5


def test_drift_is_counted_by_kind_and_not_told_where_it_is_not_known() -> None:
    status = status_of([])
    assert not [name for name, _ in samples_of(status) if name == f.DRIFT.name]
    status.drift = {"count": 3, "kinds": {"config": 1, "replication_factor": 2, "partitions": 0}}
    values = samples_of(status)
    assert values[at(f.DRIFT, kind="replication_factor")] == 2
    assert values[at(f.DRIFT, kind="partitions")] == 0


def test_by_what_configuration_a_link_goes_is_told_while_its_driver_reports() -> None:
    def told(state: str, driver: dict[str, Any]) -> list[float | None]:
        board = StatusBoard(LinkName("l"))
        board.consume("driver", {**DRIVER, "state": state, **driver})
        values = samples_of(board.status(NOW_MS))
        families = f.CONFIGURATION_LIVE, f.CONFIGURATION_REFUSED, f.CONFIGURATION_HELD
        return [values.get(at(family)) for family in families]

    live = {"configuration": {"live_ms": 7_500, "refused": False, "held": 2}}
    refused = {"configuration": {"live_ms": 7_500, "refused": True, "held": 0}}
    assert told("running", live) == [7.5, 0, 2]
    assert told("running", refused) == [7.5, 1, 0]
    assert told("ended", refused) == told("running", {}) == [None] * 3


def test_rights_that_follow_and_how_mirrors_are_protected() -> None:
    status = status_of([])
    names = {f.RIGHTS.name, f.RIGHTS_WAITING.name, f.MIRRORS_PROTECTED.name}
    for driver in ({}, {"access": {}, "protection": {}}, {"access": {"error": "no right"}}):
        status.driver = driver
        assert not [name for name, _ in samples_of(status) if name in names], "nothing is known"
    rights = {"in_step": 5, "kept_ready": 2, "foreign": 1, "refused_count": 0, "failed_count": 3}
    rights |= {"waiting": 4, "made": 9, "removed": 1, "at_ms": 1_500}
    protection = {"mirrors": 7, "protected": 6, "rules": 12}
    status.driver = {"access": rights, "protection": protection}
    values = samples_of(status)
    assert values[at(f.RIGHTS, state="in_step")] == 5
    assert values[at(f.RIGHTS, state="somebody_elses")] == 1
    assert values[at(f.RIGHTS, state="failed")] == 3
    assert values[at(f.RIGHTS_WAITING)] == 4
    assert values[at(f.RIGHTS_CHANGED, what="made")] == 9
    assert values[at(f.RIGHTS_COMPARED)] == 1.5
    found = (f.MIRRORS_PROTECTED, f.MIRRORS_UNPROTECTED, f.PROTECTION_RULES)
    assert [values[at(each)] for each in found] == [6, 1, 12]
