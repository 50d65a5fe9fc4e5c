"""Two instances of a link: one copies, the other waits and takes over, without damage."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from multiprocessing.synchronize import Barrier

import psutil
import pytest
from pyspark.sql import SparkSession
from support.clusters import create_topic, fresh_name
from support.faults import DAY_MS, Stage, Trial, small_load, stage_of
from support.links import Link, LinkProcess, RunningLink, ends, wait_for
from support.provoked import Provoked
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.fenced_writer import FencedWriter
from heliostat.clusters.keyed_topic import KeyedTopic, ensure_own_topics
from heliostat.clusters.recent_records import AN_HOUR
from heliostat.config import load_config
from heliostat.errors import BrokerError
from heliostat.names import Alias, LaneId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import (
    Announcement,
    CopySettings,
    LaneSpec,
    PartitionSpec,
    WantedRound,
)
from heliostat.records.spark.copy_round import copy_round
from heliostat.records.spark.warm_up import warm_up
from heliostat.records.transport.plan_rows import encode_announcement
from heliostat_sandbox.shapes import GenericShape, Timestamps

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.core]

LEASE_S = 3
SILENT_S = 60.0
"""A successor waits as long as the owner's record lasts (some 4 s here, 10 s of a fresh claim), and
needs its own start on a busy machine."""
AT_ONCE_S = 6.0
"""A resigned predecessor is not waited for."""
BEGIN_WITHIN_S = 150.0
RIVALS_BEGIN_S = 5.0
"""Three processes start and connect, then begin at the same moment."""
ROUNDS_LAST_S = 60.0
"""Limit: rounds are told to end when all is copied."""
STOPPED_S = 0.2
"""Pause of each turn: longer than another copier's pause between retries."""
LOADED_S = 90.0
HALTS_WITHIN_S = 120.0
"""Its rounds end or are cancelled, then Spark."""
REMEMBERED_MS = 1_800_000
"""Less than brokers take (`message.timestamp.after.max.ms`, an hour)."""
FORGETFUL = {
    "producer.id.expiration.ms": "1000",
    "producer.id.expiration.check.interval.ms": "300",
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("owners")
    lanes = {"lanes": {"lease_s": LEASE_S}}
    with stage_of(folder, spark, has_process=True, target=FORGETFUL, link=lanes) as made:
        yield made


def runs(link: Link) -> bool:
    return "east → west runs" in link.text()


def waits(link: Link) -> bool:
    return ": waiting for its owner on" in link.text()


def signal_all(link: LinkProcess, number: signal.Signals) -> None:
    """To the driver, Spark's JVM and the workers, which have groups of their own."""
    for process in link.tree():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def wait_runs(link: Link, within_s: float) -> float:
    """Wait until it drives the link; seconds that took."""
    began_s = time.monotonic()
    try:
        wait_for("the link to run", lambda: runs(link), within_s)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{link.text()[-4000:]}") from None
    return time.monotonic() - began_s


def working(stage: Stage) -> LinkProcess:
    """The stage's instance, a process that drives the link."""
    if not isinstance(stage.link, LinkProcess) or stage.link.has_ended:
        stage.start_link()
    wait_runs(stage.process, BEGIN_WITHIN_S)
    return stage.process


def standby_of(stage: Stage, stack: contextlib.ExitStack) -> RunningLink:
    """A second instance, which waits."""
    link = stack.enter_context(RunningLink(stage.config))
    try:
        wait_for("an instance that waits", lambda: waits(link), BEGIN_WITHIN_S)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{link.text()[-4000:]}") from None
    return link


@pytest.mark.thorough
def test_a_standby_takes_over(stage: Stage) -> None:
    """Given two started at once / when the owner is killed, or stopped / then the other copies.

    A waiting standby ends at once when stopped, without having taken over.
    """
    with contextlib.ExitStack() as stack:
        pair = [stage.process, stack.enter_context(LinkProcess(stage.config))]
        wait_for(
            "one to work and one to wait",
            lambda: (
                sorted((runs(link), waits(link)) for link in pair) == [(False, True), (True, False)]
            ),
            BEGIN_WITHIN_S,
        )
        first, second = sorted(pair, key=runs, reverse=True)
        stage.link = first
        with Trial(stage) as trial:
            third = standby_of(stage, stack)
            began_s = time.monotonic()
            assert third.stop(within_s=30) == 0
            print(f"a waiting instance ended within {time.monotonic() - began_s:.1f} s")
            assert not runs(third)
            assert "takes over" not in third.text().replace("this instance takes over when", "")

            signal_all(first, signal.SIGKILL)
            first.kill_all()
            stage.link = second
            print(f"killed: taken over after {wait_runs(second, SILENT_S):.1f} s")
            trial.wait_copied(100)

            fourth = standby_of(stage, stack)
            began_s = time.monotonic()
            assert second.stop(signal.SIGTERM) == 0
            stage.link = fourth
            wait_runs(fourth, AT_ONCE_S)
            print(f"told to end: ended and taken over within {time.monotonic() - began_s:.1f} s")
            trial.wait_copied(100)


def says_since(link: LinkProcess, text: str) -> bool:
    """Whether a driver has said that since it was taken over."""
    return text in link.text().partition("[LINK_TAKEN_OVER]")[2]


def stopped_and_woken(stage: Stage, trial: Trial) -> tuple[str, str]:
    """Stop all processes of the owner, let another take over and copy on, then wake the first.

    It notices that, stands by, and takes over itself when the other ends. What both have said.
    """
    first = working(stage)
    with contextlib.ExitStack() as stack:
        second = standby_of(stage, stack)
        trial.fill(20_000)
        signal_all(first, signal.SIGSTOP)
        stage.link = second
        stack.pop_all()  # the stage ends it
        try:
            print(f"stopped in mid copy: taken over after {wait_runs(second, SILENT_S):.1f} s")
            trial.wait_copied(300)
            trial.fill(20_000)
        finally:
            signal_all(first, signal.SIGCONT)
        try:
            waits = "waiting for its owner"
            wait_for("a standby", lambda: says_since(first, waits), HALTS_WITHIN_S)
            trial.wait_copied(300)
            trial.fill(20_000)
            assert second.stop() == 0
            wait_for("the next", lambda: says_since(first, "east → west runs"), SILENT_S)
            trial.wait_copied(300)
        except BaseException:
            first.kill_all()
            raise
        stage.link = first
    return first.text(), second.text()


@pytest.mark.thorough
@pytest.mark.provokes("LINK_TAKEN_OVER")
def test_a_paused_owner_that_resumes_after_a_takeover_does_no_harm(
    stage: Stage, provoked: Provoked
) -> None:
    """Given a paused owner under load / when it resumes after a takeover / then it stands by,

    and takes over when its successor ends.

    Records are two days old and producers are forgotten at once: brokers refuse no late append.
    """
    shape = GenericShape(value_bytes=200, timestamps=Timestamps.AGED, age_ms=2 * DAY_MS)
    load = small_load(fresh_name("fault"), shape=shape, configs={"retention.ms": "-1"})
    working(stage)
    with Trial(stage, load) as trial:
        first, second = stopped_and_woken(stage, trial)
    provoked("LINK_TAKEN_OVER", first)
    assert "producer.id.expiration.ms=1000 (1 s)" in second


def control_of(topic: TopicName) -> str:
    return f"heliostat.{topic}.control"


def say_wanted(stage: Stage, topic: TopicName, lanes: int) -> None:
    """Announce the first rounds of so many lanes, and leases for them; others end."""
    access = load_config(stage.config).clusters[Alias("west")].access()
    with contextlib.closing(KeyedTopic(access, control_of(topic))) as control:
        control.ensure(1)
        ids = {LaneId(number): f"{number}/1/0" for number in range(lanes)}
        wanted = {number: WantedRound(its_id) for number, its_id in ids.items()}
        answered = dict.fromkeys(ids.values(), 10**9)  # whatever they report
        plan = Announcement(wanted, tuple(ids.values()), answered)
        control.write("lanes", encode_announcement(0, plan))


def two_lanes(
    stage: Stage, topic: TopicName, partitions: int, fetch_bytes: Sequence[int]
) -> list[LaneSpec]:
    """Lanes that each serve all partitions of a topic, with batch boundaries of their own."""
    clusters = load_config(stage.config).clusters
    access = [clusters[Alias(alias)].access() for alias in ("east", "west")]
    control, progress = control_of(topic), f"heliostat.{topic}.progress"
    offsets = f"heliostat.{topic}.offsets"
    with ClusterAdmin(access[0]) as source, ClusterAdmin(access[1]) as target:
        producer = target.init_producer_id()
        ids = [admin.describe_topics([topic])[topic].topic_id for admin in (source, target)]
        ensure_own_topics(target, {TopicName(progress): AN_HOUR}, 1)
    with contextlib.closing(KeyedTopic(access[1], offsets)) as maps:
        maps.ensure(1)
    say_wanted(stage, topic, len(fetch_bytes))
    here = [TopicPartition(topic, PartitionId(number)) for number in range(partitions)]
    rows = tuple(
        PartitionSpec(each, each, ids[0], ids[1], Offset(0), 1024 * 1024, is_compacted=False)
        for each in here
    )
    return [
        LaneSpec(
            link=LinkName("rivals"),
            lane=LaneId(number),
            generation=1,
            round_number=0,
            lease_s=ROUNDS_LAST_S,
            source_access=access[0],
            target_access=access[1],
            producer_id=producer,
            partitions=rows,
            control_topic=control,
            progress_topic=progress,
            offsets_topic=offsets,
            settings=CopySettings(
                fetch_bytes_max=size * partitions, partition_fetch_bytes_max=size
            ),
        )
        for number, size in enumerate(fetch_bytes)
    ]


def load_and_meet(barrier: Barrier) -> None:
    """Load the code in another copier's process; on a busy machine that takes a varying time."""
    warm_up()
    barrier.wait(LOADED_S)


@pytest.mark.thorough
def test_concurrent_owners_leave_one_copy(stage: Stage) -> None:
    """Given three copiers of the same fresh records, paused in turn / then each record is once."""
    partitions, turns, batches, size = 3, 40, 15, 50
    records = turns * batches * size
    topic = fresh_name("rivals")
    for cluster in (stage.source, stage.target):
        create_topic(cluster, topic, partitions=partitions)
    # A time that is yet to come: this target forgets producers of anything older than a second,
    # and concurrent copiers are safe only because it remembers ours.
    times_ms = int(time.time() * 1000) + REMEMBERED_MS
    batch = encode([Sample(b"k%d" % at, b"v%d" % at * 20, times_ms) for at in range(size)])
    fetch_bytes, spawn = [30_000, 70_000, 300_000], multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(1 + len(fetch_bytes))
    with spawn.Pool(len(fetch_bytes), load_and_meet, (barrier,)) as pool:
        barrier.wait(LOADED_S)
        lanes = two_lanes(stage, topic, partitions, fetch_bytes)
        pending = pool.map_async(copy_round, lanes, chunksize=1)
        processes = [psutil.Process(child.pid) for child in multiprocessing.active_children()]
        pending.wait(RIVALS_BEGIN_S)
        for turn in range(turns):  # whoever copies now is stopped soon: another one must continue
            processes[turn % len(processes)].suspend()
            try:
                for number in range(partitions):
                    write_batches(
                        stage.source.bootstrap, topic, [batch] * batches, partition=number
                    )
                pending.wait(STOPPED_S)
            finally:
                processes[turn % len(processes)].resume()
        wanted = {topic: [records] * partitions}
        wait_for(
            "all to be copied",
            lambda: ends(stage.target.bootstrap, {topic: partitions}) == wanted,
            ROUNDS_LAST_S,
        )
        say_wanted(stage, topic, 0)  # their rounds end; what is under way is answered before
        reports = pending.get(60)
    copied = [report.records for report in reports]
    assert sum(count > 0 for count in copied) > 1, f"they were no rivals: {copied}"
    print(f"records copied by each rival: {copied}")
    assert ends(stage.target.bootstrap, {topic: partitions}) == wanted
    report = stage.verify([topic])
    assert report.is_clean, report.lines()
    assert report.offsets_equal
    assert report.records == records * partitions


@pytest.mark.provokes("PRODUCER_FENCED")
def test_an_earlier_writer_is_fenced(stage: Stage, provoked: Provoked) -> None:
    """Given a writer / when another one fences it / then it is refused, until it fences back."""
    name = fresh_name("heliostat.writers")
    bootstrap = stage.target.bootstrap.split(",")
    with (
        KeyedTopic(bootstrap, name) as topic,
        contextlib.closing(FencedWriter(bootstrap, name, f"{name}.owner")) as first,
        contextlib.closing(FencedWriter(bootstrap, name, f"{name}.owner")) as second,
    ):
        topic.ensure(1)
        first.fence()
        for number in range(3):
            first.write("owner", {"number": number})
        second.fence()
        assert topic.read_all() == {"owner": {"number": 2}}
        with pytest.raises(BrokerError) as refused:
            first.write("owner", {"number": 99})
        provoked(refused.value.kafka_name, refused.value)
        assert refused.value.is_fenced
        assert not first.is_ready
        second.write("owner", {"number": 3})
        first.fence()
        assert topic.read_all() == {"owner": {"number": 3}}
