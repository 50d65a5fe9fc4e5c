"""Points say what the samples for Prometheus say, one for each subject."""

from __future__ import annotations

from unit.metrics.influx.test_lines import parsed
from unit.metrics.test_link_samples import LINK, samples_of
from unit.status.test_truth import CASES, told

from heliostat.config import MetricsConfig
from heliostat.metrics import families as f
from heliostat.metrics.influx.points import LINES_MAX, Places, PointSamples
from heliostat.metrics.link_samples import LinkSamples, WatchedLink
from heliostat.metrics.text import labels
from heliostat.status.cluster_watch import Reach
from heliostat.status.follower import Observation
from heliostat.status.reports import Totals

NAMES = {"link": "l", "source": "summit", "target": "usdf"}
AT_MS = 1_700_000_000_123
Read = dict[tuple[str, str], dict[str, float | str]]


def points_of(samples: PointSamples) -> Read:
    """Fields by measurement and the last tag."""
    found: Read = {}
    for batch in samples.batches(AT_MS):
        for line in batch:
            assert line.endswith(f" {AT_MS}")
            measurement, tags, fields = parsed(line)
            own = [value for name, value in tags.items() if name not in NAMES]
            assert (measurement, "/".join(own)) not in found
            found[measurement, "/".join(own)] = fields
    return found


def test_points_say_what_samples_say() -> None:
    for case in CASES.values():
        status, _ = told(case)
        watched = WatchedLink(Observation(status, Totals()), Reach({1: True}), Reach())
        points = PointSamples(Places("h"))
        LinkSamples(LINK, MetricsConfig()).write(points, watched)
        read, values = points_of(points), samples_of(status)
        link = read["heliostat_link", ""]
        assert link["state"] == case.state
        assert link["in_sync"] == (not case.why)
        assert read["heliostat_broker", "1/source"] == {"reachable": 1.0}
        for topic in status.topics:
            fields = read["heliostat_topic", topic.source]
            key = (f.LAG_SECONDS.name, frozenset({("topic", topic.source)}))
            assert fields.get("lag_seconds") == values.get(key)
            assert fields[f"partitions_{case.partition}"] == 1.0


def test_each_subject_has_a_measurement_and_states_are_no_tags() -> None:
    samples = PointSamples(Places("here"))
    partition = labels({**NAMES, "topic": 't"\\\n', "partition": 3})
    samples.add(f.PARTITION_STATE, f'{partition},state="gap"', 1)
    samples.add(f.PARTITION_STOPPED, f'{partition},code="GAP"', 12.5)
    samples.add(f.PARTITION_LAG_RECORDS, partition, None)
    samples.add(f.TOPICS, f'{labels(NAMES)},state="refused"', 2)
    samples.add(f.LANE_SILENT, f'{labels(NAMES)},lane="0"', 0.5)
    samples.add(f.BUILD_INFO, labels({"version": "1", "python": "3"}), 1)
    samples.add(f.INFLUX_POINTS, 'result="written"', 7)
    assert points_of(samples) == {
        ("heliostat_partition", '3/t" '): {
            "state": "gap", "stopped_timestamp_seconds": 12.5, "code": "GAP",
        },
        ("heliostat_link", ""): {"topics_refused": 2.0},
        ("heliostat_lane", "0"): {"silent_seconds": 0.5},
        ("heliostat_service", "here"): {
            "build_info": 1.0, "version": "1", "python": "3", "influx_points_total_written": 7.0,
        },
    }  # fmt: skip


def test_percentiles_are_of_what_was_copied_since_the_last_points() -> None:
    places, mine = Places("h"), labels(NAMES)
    told_p99: list[object] = []
    for counts in ([0] * 8 + [10], [0] * 8 + [10] + [0] * 20 + [5], [0] * 8 + [10]):
        samples = PointSamples(places)
        samples.add_latency(f.COPY_LATENCY, mine, counts)
        told_p99.append(points_of(samples)["heliostat_link", ""]["copy_latency_seconds_p99"])
    first, second, again = told_p99
    assert first == again, "a driver that was started again counts from 0"
    assert isinstance(first, float)
    assert isinstance(second, float)
    assert second > 5 * first


def test_a_request_has_so_many_lines_at_most() -> None:
    samples = PointSamples(Places("h"))
    for number in range(LINES_MAX + 1):
        samples.add(f.LAG_RECORDS, labels({**NAMES, "topic": f"t{number}"}), 0)
    assert [len(batch) for batch in samples.batches(AT_MS)] == [LINES_MAX, 1]
