"""`verify` on real brokers: damage is planted into a mirror and must be named."""

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.clusters import ClusterPair, fresh_name, until
from support.command import heliostat
from support.links import write_config
from support.own_mirrors import make_ours
from support.planted import CODECS, Planter, Record

from heliostat.cli.main import run
from heliostat.errors import ConnectionLost, Refused
from heliostat.names import TopicName
from heliostat.verify import pipeline
from heliostat.verify.pipeline import verify_pair
from heliostat.verify.ranges import RangeSpec, TopicPair
from heliostat.verify.report import VerifyReport

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

COUNT = 1_500


def records(number: int = COUNT, seed: int = 5) -> list[Record]:
    chance = random.Random(seed)
    return [
        (
            1_700_000_000_000 + n // 2,
            None if n % 97 == 3 else b"key-%d" % (n % 40),
            None if n % 89 == 5 else chance.randbytes(chance.choice([0, 12, 90, 300])),
            [("trace", chance.randbytes(6)), ("empty", b""), ("trace", None)],
        )
        for n in range(number)
    ]


@pytest.fixture(scope="module")
def source(cluster_pair: ClusterPair) -> Iterator[Planter]:
    with Planter(cluster_pair.source.bootstrap) as made:
        yield made


@pytest.fixture(scope="module")
def target(cluster_pair: ClusterPair) -> Iterator[Planter]:
    with Planter(cluster_pair.target.bootstrap) as made:
        yield made


Verify = Callable[..., VerifyReport]
Mirrored = Callable[..., str]


@pytest.fixture
def verify(spark: SparkSession, source: Planter, target: Planter) -> Verify:
    def compared(*names: str, **options: Any) -> VerifyReport:
        pairs = [TopicPair(TopicName(name), TopicName("mirror." + name)) for name in names]
        return verify_pair(spark, source.bootstrap, target.bootstrap, pairs, **options)

    return compared


@pytest.fixture
def mirrored(source: Planter, target: Planter) -> Mirrored:
    """Make a topic and its mirror in other batches and another codec; give the topic's name."""

    def make(
        source_rows: list[Record],
        target_rows: list[Record],
        codecs: tuple[str, str] = ("none", "lz4"),
        batches: tuple[int, int] = (100, 170),
    ) -> str:
        name = fresh_name("verify")
        source.topic(name)
        source.write(name, source_rows, codec=codecs[0], batch_records=batches[0])
        target.topic("mirror." + name)
        target.write("mirror." + name, target_rows, codec=codecs[1], batch_records=batches[1])
        return name

    return make


def counts(report: VerifyReport) -> tuple[int, int, int, int]:
    return report.lost, report.doubled, report.reordered, report.different


@pytest.mark.parametrize("place", [0, 700, COUNT - 2])
def test_a_lost_record_is_found(verify: Verify, mirrored: Mirrored, place: int) -> None:
    rows = records()
    name = mirrored(rows, rows[:place] + rows[place + 1 :])
    report = verify(name)
    assert counts(report) == (1, 0, 0, 0)
    assert not report.is_clean
    assert not report.offsets_equal
    first = report.first_difference
    assert first is not None
    assert (first["topic"], first["partition"], first["kind"]) == (name, 0, "lost")
    assert first["source_offset"] == place
    assert report.records == COUNT - 1  # the target's end is one lower
    assert report.behind_records == 1


@pytest.mark.core
def test_a_lost_last_record_is_late_until_the_mirror_should_be_complete(
    verify: Verify, mirrored: Mirrored
) -> None:
    rows = records()
    name = mirrored(rows, rows[:-1])
    late = verify(name)
    assert late.is_clean
    assert late.behind_records == 1
    assert "1 not copied yet" in late.summary_line()
    complete = verify(name, ranges=RangeSpec(is_complete=True))
    assert counts(complete) == (1, 0, 0, 0)
    assert complete.first_difference is not None
    assert complete.first_difference["source_offset"] == COUNT - 1


@pytest.mark.parametrize(("place", "again"), [(0, 1), (700, 701), (3, 1_400), (9, COUNT)])
def test_a_duplicated_record_is_found(
    verify: Verify, mirrored: Mirrored, place: int, again: int
) -> None:
    rows = records()
    name = mirrored(rows, [*rows[:again], rows[place], *rows[again:]])
    report = verify(name)
    assert counts(report) == (0, 1, 0, 0)
    assert not report.offsets_equal
    first = report.first_difference
    assert first is not None
    assert (first["kind"], first["source_offset"], first["target_offset"]) == (
        "doubled",
        place,
        again,
    )


@pytest.mark.core
def test_two_swapped_records_are_found(verify: Verify, mirrored: Mirrored) -> None:
    rows = records()
    target = list(rows)
    target[640], target[641] = target[641], target[640]
    report = verify(mirrored(rows, target))
    assert counts(report) == (0, 0, 1, 0)
    first = report.first_difference
    assert first is not None
    assert first["kind"] == "reordered"
    assert min(first["source_offset"], first["target_offset"]) == 640


def _header(row: Record, headers: list[tuple[str, bytes | None]]) -> Record:
    return (*row[:3], headers)


ALTERED: dict[str, tuple[str, Callable[[Record], Record]]] = {
    "value byte": ("value", lambda r: (*r[:2], bytes([r[2][0] ^ 1]) + r[2][1:], r[3])),
    "value to null": ("value", lambda r: (*r[:2], None, r[3])),
    "key": ("key", lambda r: (r[0], b"other", *r[2:])),
    "key to empty": ("key", lambda r: (r[0], b"", *r[2:])),
    "timestamp": ("timestamp", lambda r: (r[0] + 1, *r[1:])),
    "header value": ("header", lambda r: _header(r, [("trace", b"other!"), *r[3][1:]])),
    "header order": ("header", lambda r: _header(r, [r[3][2], r[3][1], r[3][0]])),
    "header null": ("header", lambda r: _header(r, [*r[3][:2], ("trace", b"")])),
    "header dropped": ("header", lambda r: _header(r, r[3][:2])),
}


CORE_CHANGES = dict.fromkeys(["value byte", "timestamp"], pytest.mark.core)


@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=CORE_CHANGES.get(name, ())) for name in ALTERED]
)
def test_an_altered_record_is_found(verify: Verify, mirrored: Mirrored, change: str) -> None:
    field, alter = ALTERED[change]
    rows = records()
    place = next(n for n in range(500, COUNT) if rows[n][2] and rows[n][1])
    target = list(rows)
    target[place] = alter(rows[place])
    report = verify(mirrored(rows, target))
    assert counts(report) == (0, 0, 0, 1)
    assert report.offsets_equal
    first = report.first_difference
    assert first is not None
    assert (first["kind"], first["field"], first["source_offset"]) == ("different", field, place)
    assert first["source"] != first["target"]


def test_an_empty_value_instead_of_null_is_found(verify: Verify, mirrored: Mirrored) -> None:
    rows = records()
    place = next(n for n in range(COUNT) if rows[n][2] is None)
    target = list(rows)
    target[place] = (*rows[place][:2], b"", rows[place][3])
    first = verify(mirrored(rows, target)).first_difference
    assert first is not None
    assert (first["source"], first["target"]) == ("null", "b''")


@pytest.mark.parametrize("codec", list(CODECS))
def test_equal_records_in_another_codec_are_equal(
    verify: Verify, mirrored: Mirrored, codec: str
) -> None:
    rows = records()
    one = mirrored(rows, rows, codecs=(codec, "none"))
    two = mirrored(rows, rows, codecs=("zstd", codec), batches=(1_000, 1_000))
    report = verify(one, two)
    assert report.is_clean
    assert report.records == 2 * COUNT
    assert report.summary_line() == (
        "verified: 2 topics, 3,000 records, offsets equal, 0 lost, 0 duplicated, 0 different"
    )


def test_log_append_time_is_compared_as_consumers_see_it(
    verify: Verify, source: Planter, target: Planter
) -> None:
    """A LogAppendTime batch shows its max timestamp for all its records (KIP-32)."""
    name = fresh_name("verify")
    source.topic(name, configs={"message.timestamp.type": "LogAppendTime"})
    rows = records(200)
    source.write(name, rows, batch_records=50, codec="gzip")
    seen = source.read_timestamps(name)
    assert len(set(seen)) < len(seen)
    assert seen[0] != rows[0][0]
    stamped = [(stamp, *row[1:]) for stamp, row in zip(seen, rows, strict=True)]
    target.topic("mirror." + name)
    target.write("mirror." + name, stamped, batch_records=30)
    assert verify(name).is_clean
    wrong = fresh_name("verify")
    source.topic(wrong)
    source.write(wrong, stamped)
    target.topic("mirror." + wrong)
    target.write("mirror." + wrong, [(stamped[0][0] + 1, *stamped[0][1:]), *stamped[1:]])
    assert verify(wrong).different == 1


def test_many_records_over_many_partitions_give_no_false_alarm(
    verify: Verify, source: Planter, target: Planter
) -> None:
    name = fresh_name("verify")
    shares = [70_000, 40_000, 9_000, 1_000, 1, 0]
    sides = ((source, name, 400, "none"), (target, "mirror." + name, 950, "lz4"))
    for planter, topic, size, codec in sides:
        planter.topic(topic, partitions=len(shares))
        for partition, share in enumerate(shares):
            rows = records(share, seed=partition)
            planter.write(topic, rows, partition=partition, batch_records=size, codec=codec)
    report = verify(name)
    assert report.is_clean, report.lines()
    assert report.records == sum(shares)
    assert len(report.results) == len(shares)
    answer = report.to_json()
    assert answer["records"] == sum(shares)
    assert answer["first_difference"] is None
    assert verify(name, decode_all=True, tasks=1).records == sum(shares)
    part = verify(name, ranges=RangeSpec(start=900, until=1_100))
    assert part.is_clean
    assert part.records == 3 * 200 + 100


@pytest.mark.core
def test_batches_that_were_copied_whole_are_not_decoded(verify: Verify, mirrored: Mirrored) -> None:
    rows = records()
    name = mirrored(rows, rows, codecs=("lz4", "lz4"), batches=(100, 100))
    assert verify(name).results[0].batches_equal == COUNT // 100
    decoded = verify(name, decode_all=True)
    assert decoded.results[0].batches_equal == 0
    assert decoded.is_clean
    assert decoded.records == COUNT


def test_records_outside_the_range_are_not_compared(verify: Verify, mirrored: Mirrored) -> None:
    rows = records()
    target = list(rows)
    target[300] = (*rows[300][:2], b"altered", rows[300][3])
    name = mirrored(rows, target)
    assert verify(name, ranges=RangeSpec(until=300)).is_clean
    assert verify(name, ranges=RangeSpec(start=301)).is_clean
    assert verify(name, ranges=RangeSpec(start=300, until=301)).different == 1


@pytest.mark.core
def test_log_starts_that_differ_are_named(
    verify: Verify, source: Planter, target: Planter, mirrored: Mirrored
) -> None:
    rows = records()
    name = mirrored(rows, rows)
    source.delete_before(name, 0, 120)  # retention at the source
    assert verify(name).records == COUNT - 120
    target.delete_before("mirror." + name, 0, 250)  # and a shorter one at the target
    report = verify(name)
    assert report.is_clean
    assert report.records == COUNT - 250
    [left_out] = report.not_compared
    assert (left_out.records, left_out.is_problem) == (130, False)


def test_skipped_partitions_are_reported(verify: Verify, source: Planter, target: Planter) -> None:
    missing, narrow, empty = (fresh_name("verify") for _ in range(3))
    source.topic(missing)
    source.write(missing, records(10))
    source.topic(narrow, partitions=2)
    target.topic("mirror." + narrow, partitions=1)
    source.write(narrow, records(10), partition=1)
    source.topic(empty)
    target.topic("mirror." + empty)
    source.write(empty, records(10))
    report = verify(missing, narrow, empty, "verify-unheard-of")
    assert not report.is_clean
    told = {(one.source, one.partition): one for one in report.not_compared}
    assert told[missing, None].reason == "the target has no such topic"
    assert told[narrow, 1].reason == "the target lacks this partition"
    assert told[empty, 0].reason == "the target has no record of it yet"
    assert not told[empty, 0].is_problem
    assert told["verify-unheard-of", None].reason == "the source has no such topic"
    assert report.to_json()["source_only"] == [missing]


def test_a_target_with_more_than_its_source_is_reported(verify: Verify, mirrored: Mirrored) -> None:
    rows = records(100)
    foreign: Record = (1, b"who", b"wrote this", [])
    report = verify(mirrored(rows, [*rows, foreign]))
    assert counts(report) == (0, 0, 0, 1)
    first = report.first_difference
    assert first is not None
    assert (first["kind"], first["target_offset"]) == ("foreign", 100)


@pytest.mark.core
def test_a_topic_is_not_verified_against_itself(spark: SparkSession, source: Planter) -> None:
    name = fresh_name("verify")
    source.topic(name)
    with pytest.raises(Refused, match="itself"):
        verify_pair(spark, source.bootstrap, source.bootstrap, [TopicPair(name, name)])


@pytest.mark.core
def test_an_unreachable_cluster_is_reported(
    spark: SparkSession, source: Planter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliostat.verify.reader.ENTER_WITHIN_S", 0.5)
    with pytest.raises(ConnectionLost, match=r"no broker of 127\.0\.0\.1:9 answers"):
        verify_pair(spark, source.bootstrap, "127.0.0.1:9", [])


def test_a_link_may_run_while_it_is_verified(
    verify: Verify, source: Planter, target: Planter, cluster_pair: ClusterPair
) -> None:
    """Both sides grow all the time, the target always lags: never a false alarm."""
    name = fresh_name("verify")
    source.topic(name)
    target.topic("mirror." + name)
    stop = threading.Event()
    failed: list[BaseException] = []

    def copy() -> None:
        try:
            with (
                Planter(cluster_pair.source.bootstrap) as one,
                Planter(cluster_pair.target.bootstrap) as two,
            ):
                for seed in range(10_000):
                    rows = records(40, seed=seed)
                    one.write(name, rows, batch_records=7)
                    two.write("mirror." + name, rows)
                    if stop.is_set():
                        return
        except BaseException as error:  # noqa: BLE001  # told to the test below
            failed.append(error)

    copier = threading.Thread(target=copy)
    copier.start()
    try:
        until(lambda: verify(name).records > 0, "the first records on both sides")
        reports = [verify(name) for _ in range(6)]
    finally:
        stop.set()
        copier.join()
    assert not failed
    assert all(report.is_clean for report in reports), [report.lines() for report in reports]
    seen = [report.records for report in reports]
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]
    assert verify(name, ranges=RangeSpec(is_complete=True)).is_clean


def test_a_target_recreated_while_it_was_read_is_no_proof(
    verify: Verify, target: Planter, mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = records(50)
    name = mirrored(rows, rows)
    compare = pipeline._compare

    def compare_and_replace(*arguments: Any) -> Any:
        answer = compare(*arguments)
        target.delete_topic("mirror." + name)
        target.topic("mirror." + name)
        target.write("mirror." + name, rows)
        return answer

    monkeypatch.setattr(pipeline, "_compare", compare_and_replace)
    report = verify(name)
    assert not report.is_clean
    assert [one.reason for one in report.not_compared] == [
        "target: the topic was recreated while it was read"
    ]


@pytest.mark.core
def test_markers_are_accounted_for_and_aborted_records_are_not_compared(
    verify: Verify, source: Planter, target: Planter
) -> None:
    committed, aborted = fresh_name("verify"), fresh_name("verify")
    rows = [(*row[:2], b"value", [("trace", b"1")]) for row in records(30)]
    for planter, prefix in ((source, ""), (target, "mirror.")):
        for name in (committed, aborted):
            planter.topic(prefix + name)
            planter.write(prefix + name, rows[:10])
            planter.write_transaction(prefix + name, rows[10:20], commit=name == committed)
            planter.write(prefix + name, rows[20:])
    report = verify(committed)
    assert report.is_clean, report.lines()
    assert report.records == 30
    [result] = report.results
    assert (result.control_batches, result.source_holes, result.target_holes) == (1, 1, 1)
    assert result.hole_ranges == [(20, 21)]
    assert result.to_json()["hole_ranges"] == [[20, 21]]
    # The target's copy of the aborted ones is visible to readers that the source hides them from.
    report = verify(aborted)
    assert not report.is_clean
    assert counts(report) == (0, 0, 0, 10)
    first = report.first_difference
    assert first is not None
    assert (first["kind"], first["target_offset"]) == ("foreign", 10)


@pytest.fixture
def config_file(tmp_path: Path, cluster_pair: ClusterPair) -> Path:
    return write_config(
        tmp_path,
        cluster_pair.source.bootstrap,
        cluster_pair.target.bootstrap,
        name=fresh_name("verify-cli"),
        topics={"include": ["verify-cli-.*"], "naming": {"prefix": "mirror."}},
    )


@pytest.mark.core
@pytest.mark.usefixtures("spark")
def test_the_command_answers_in_text_json_and_exit_code(
    source: Planter, target: Planter, config_file: Path
) -> None:
    """A clean topic, then a damaged one in a run of the program as a user starts it."""
    clean, damaged = fresh_name("verify-cli"), fresh_name("verify-cli")
    rows = records(300)
    for name in (clean, damaged):
        source.topic(name)
        source.write(name, rows)
        target.topic("mirror." + name)
    target.write("mirror." + clean, rows, codec="zstd")
    target.write(
        "mirror." + damaged, [*rows[:7], (*rows[7][:2], b"altered", rows[7][3]), *rows[8:]]
    )

    said = heliostat(config_file, "verify", "--topic", clean)
    assert said.returncode == 1, said
    assert said.stdout.startswith(f"the link refuses {clean}: mirror.{clean} exists at the target")
    make_ours(config_file, "mirror.", [clean, damaged])
    said = heliostat(config_file, "verify", "--topic", clean)
    assert said.returncode == 0, said
    assert said.stdout.splitlines()[-1] == (
        "verified: 1 topics, 300 records, offsets equal, 0 lost, 0 duplicated, 0 different"
    )
    command = [sys.executable, "-m", "heliostat.cli.entry", "verify", "-c", str(config_file)]
    answer = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=False, timeout=120
    )
    assert answer.returncode == 1, answer
    told = json.loads(answer.stdout)
    assert (told["records"], told["partitions"], told["offsets_equal"]) == (600, 2, True)
    assert (told["lost"], told["doubled"], told["reordered"], told["different"]) == (0, 0, 0, 1)
    first = told["first_difference"]
    assert (first["topic"], first["source_offset"], first["field"]) == (damaged, 7, "value")


@pytest.mark.core
def test_the_command_refuses_a_topic_that_is_not_mirrored(
    config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "-c", str(config_file), "--topic", "elsewhere"]) == 2
    assert "not mirrored: elsewhere" in capsys.readouterr().err
    assert run(["verify", "-c", str(config_file), "--from", "5", "--until", "4"]) == 2
