"""Codes of refused topics, and of errors that concern a whole link, each on real clusters.

All codes and their tests are listed in docs/reference/errors-provoked.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.group_sides import Sides, partition_of
from support.links import RunningLink, ends, wait_for, write_config
from support.one_partition import segment_of
from support.provoked import Provoked
from support.records import Sample, encode, write_batches

from heliostat.access import access_of
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteTopic
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import load_config
from heliostat.errors import GroupsFailed, InterchangeFailed
from heliostat.link.group_part import GroupPart
from heliostat.mm2.emitters import Interchange
from heliostat.names import ClusterId, LinkName, TopicName
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.events import Events
from heliostat.slots import Slot
from heliostat.state.link_state import LinkState
from heliostat.state_topics import progress_topic
from heliostat.status.reader import StatusReader
from heliostat.topics import select
from heliostat.topics.values import MirrorRecord
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.core]

LOST, BATCH_BYTES = 100, 1_000
"""To copy again what was lost takes so long: a driver that could not reach the target pauses before
it looks again, and records what the reports show then."""


@dataclass(frozen=True)
class Planned:
    """A link of its own name between both clusters, and a topic of the source."""

    pair: ClusterPair
    folder: Path
    topic: TopicName

    def configured(self, **link: Any) -> Path:
        """Its configuration, with these keys."""
        settings = {"name": fresh_name("link"), "topics": {"include": [self.topic]}, **link}
        source, target = self.pair.source.bootstrap, self.pair.target.bootstrap
        return write_config(self.folder, source, target, **settings)

    def refusal(self, topic: str | None = None, **link: Any) -> Mapping[str, str]:
        """What `heliostat plan` refuses a topic for."""
        return self.refusal_by(self.configured(**link), topic)

    def refusal_by(self, config: Path, topic: str | None = None) -> Mapping[str, str]:
        """As `refusal`, of a configuration that is written."""
        (plan,) = said(config, "plan")
        found: Mapping[str, str] = plan["refuse"][topic or self.topic]
        return found

    def remembered(self, **record: Any) -> Mapping[str, str]:
        """What is refused where the link remembers another mirror of the topic than there is."""
        config = self.configured()
        loaded = load_config(config)
        with ClusterAdmin(self.pair.source.bootstrap) as admin:
            cluster = admin.cluster_id()
        create_topic(self.pair.target, self.topic)
        facts = {"target": self.topic, "source_cluster": cluster, **record}
        mirror = MirrorRecord(
            source=self.topic,
            source_id=None,
            target_id=None,
            start="earliest",
            initial_partitions=1,
            **facts,
        )
        with closing(LinkState(loaded.links[0], loaded.clusters["west"])) as state:
            state.ensure()
            state.put_mirrors({self.topic: mirror})
        return self.refusal_by(config)


@pytest.fixture
def planned(cluster_pair: ClusterPair, tmp_path: Path) -> Planned:
    return Planned(cluster_pair, tmp_path, create_topic(cluster_pair.source))


def more_partitions(planned: Planned) -> Mapping[str, str]:
    create_topic(planned.pair.target, planned.topic, partitions=2)
    return planned.refusal()


def colliding(planned: Planned) -> Mapping[str, str]:
    """The source's heartbeats are called `east.heartbeats` at the target; so is another topic."""
    taken = create_topic(planned.pair.source, fresh_name("a.b").replace("-", "_"))
    create_topic(planned.pair.target, taken.replace(".", "_"))
    refusal = planned.refusal(taken, topics={"include": [taken]})
    assert refusal["code"] == "name_collision"
    assert taken.replace(".", "_") in refusal["reason"]
    with (
        ClusterAdmin(planned.pair.source.bootstrap) as admin,
        ByteTopic(planned.pair.source.bootstrap, TopicName("heartbeats"), "test") as heartbeats,
    ):
        heartbeats.ensure(admin)
        until(lambda: "heartbeats" in admin.describe_topics(), "the heartbeats' topic")
    other = create_topic(planned.pair.source, "east_heartbeats")
    return planned.refusal(other, topics={"include": [other]}, heartbeats={"emit": True})


def pinned(planned: Planned, **settings: Any) -> Mapping[str, str]:
    return planned.refusal(topics={"include": [planned.topic], **settings})


def beyond_the_end(planned: Planned) -> Mapping[str, str]:
    file = planned.folder / "offsets.csv"
    file.write_text(f"{planned.topic},0,7\n", encoding="utf-8")
    return pinned(planned, start={"offsets": str(file)})


REFUSED: dict[str, Callable[[Planned], Mapping[str, str]]] = {
    "name": lambda planned: pinned(planned, naming={"prefix": "x" * 240}),
    "name_collision": colliding,
    "source_changed": lambda planned: planned.remembered(source_cluster=ClusterId("another")),
    "renamed": lambda planned: planned.remembered(target=TopicName("another")),
    "fan_in_changed": lambda planned: planned.remembered(slot=Slot(0, 2)),
    "target_has_more_partitions": more_partitions,
    "configs": lambda planned: pinned(planned, config_set={"max.message.bytes": "1000"}),
    "replication_factor": lambda planned: pinned(planned, replication_factor=3),
    "start": beyond_the_end,
}


@pytest.mark.provokes(
    "refused:name",
    "refused:name_collision",
    "refused:source_changed",
    "refused:renamed",
    "refused:fan_in_changed",
    "refused:target_has_more_partitions",
    "refused:configs",
    "refused:replication_factor",
    "refused:start",
)
def test_a_topic_that_cannot_be_mirrored_is_refused_with_its_code(
    cluster_pair: ClusterPair, tmp_path: Path, provoked: Provoked
) -> None:
    """Given an obstacle to a mirror / when planned / then its topic is refused with that code."""
    for code, refused in REFUSED.items():
        planned = Planned(cluster_pair, tmp_path, create_topic(cluster_pair.source))
        found = refused(planned)
        provoked(f"refused:{code}", found)
        assert found["reason"], code


@pytest.mark.provokes("refused:internal", how="the names of internal topics are let through")
def test_an_internal_topic_is_refused_though_its_name_is_not_excluded(
    planned: Planned, provoked: Provoked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given the brokers' own topic / when its name is not excluded / then refused as internal."""
    monkeypatch.setattr(select, "BUILT_IN_EXCLUDE", ())
    own = "__consumer_offsets"
    with ClusterAdmin(planned.pair.source.bootstrap) as admin:
        until(lambda: admin.committed_offsets([fresh_name("group")]), "the topic of offsets")
        until(lambda: own in admin.describe_topics(), "the topic of offsets")
    provoked("refused:internal", planned.refusal(own, topics={"include": [own]}))


@pytest.fixture
def sides(cluster_pair: ClusterPair) -> Iterator[Sides]:
    with Sides(cluster_pair) as made:
        yield made


@pytest.mark.provokes("INTERCHANGE_FAILED", "GROUPS_FAILED")
def test_auxiliary_topics_that_cannot_be_created(
    sides: Sides, planned: Planned, provoked: Provoked
) -> None:
    """Given more replicas than brokers / when a link's other topics are created / then reported.

    It concerns no record, so copying continues.
    """
    replicas = {"replication_factor": 3}
    path = planned.configured(
        offset_syncs={"emit": True, "location": "target", **replicas},
        groups={"sync": True},
        state=replicas,
    )
    # Another alias than other tests' links have: the topic's name holds it.
    path.write_text(path.read_text().replace("east", fresh_name("east")))
    config = load_config(path)
    (link,) = config.links
    access = [access_of(where) for where in (sides.source_bootstrap, sides.target_bootstrap)]
    interchange = Interchange(
        link,
        sides.source,
        sides.target,
        source_access=access[0],
        target_access=access[1],
        mirrors=dict,
        maps=MapReader,
        landed=dict,
        clock=SystemClock(),
    )
    with closing(interchange):
        (part,) = interchange.parts()
        with pytest.raises(InterchangeFailed) as failed:
            part.turn()
        provoked("INTERCHANGE_FAILED", failed.value)
        groups = GroupPart(
            link,
            source_access=access[0],
            target_access=access[1],
            mirrors=dict,
            maps=MapReader,
            positions=dict,
            foreign=ForeignRecords(),
            interchange=interchange,
            clock=SystemClock(),
            events=Events(SystemClock().wall_ms),
            guard=lambda: None,
        )
        with closing(groups), pytest.raises(GroupsFailed) as refused:
            groups.turn()
        provoked("GROUPS_FAILED", refused.value)


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.provokes(
    "gap:target_truncated", how="its broker is killed and the end of its segment file cut off"
)
def test_acknowledged_records_that_the_target_lost_are_copied_again(
    cluster_pair: ClusterPair,
    start_cluster: Callable[..., Cluster],
    tmp_path: Path,
    provoked: Provoked,
) -> None:
    """Given a running link / when the target returns with less / then copied again, recorded.

    It is copied again within milliseconds: reports show nothing of it, or a part. The round lasts
    longer than the outage: one submitted during it does not know what was acknowledged just before
    (docs/reliability.md).
    """
    # The records are of long ago: a second after its start a broker looks which it may delete.
    target = start_cluster("target", settings={"log.retention.ms": "-1"})
    topic, name = create_topic(cluster_pair.source), fresh_name("link")
    config = write_config(
        tmp_path,
        cluster_pair.source.bootstrap,
        target.bootstrap,
        name=name,
        topics={"include": [topic], "refresh_interval_s": 0.5},
        lanes={"lease_s": 20},
    )
    batch = encode([Sample(b"k", bytes(BATCH_BYTES), 1_790_000_000_000)])

    def copied(end: int) -> None:
        at_target = {topic: 1}
        wait_for(f"{end} records", lambda: ends(target.bootstrap, at_target)[topic] == [end], 60)

    def told() -> bool:
        with closing(RecentRecords(target.bootstrap, progress_topic(LinkName(name)))) as progress:
            reader = StatusReader(LinkName(name), progress)
            reader.begin()
        landed = reader.board.landed()
        return {each: at.position for each, at in landed.items()} == {partition_of(topic): 1 + LOST}

    def all_rows() -> list[dict[str, Any]]:
        rows = sorted(said(config, "gaps")[0]["rows"], key=lambda row: row["first"])
        return rows if sum(row["last"] - row["first"] + 1 for row in rows) >= LOST else []

    (broker,) = target.brokers
    with RunningLink(config) as link:
        write_batches(cluster_pair.source.bootstrap, topic, [batch])
        copied(1)
        kept = segment_of(target, partition_of(topic)).stat().st_size
        write_batches(cluster_pair.source.bootstrap, topic, [batch] * LOST)
        copied(1 + LOST)
        wait_for("the lane's word that it was acknowledged", told, 30)
        broker.kill()
        os.truncate(segment_of(target, partition_of(topic)), kept)
        broker.start()
        try:
            rows = wait_for("what was lost in the ledger", all_rows, 90)
        except AssertionError as error:
            seen = said(config, "gaps"), said(config, "status")[0]["problems"]
            raise AssertionError(f"{error}\n{seen}\n{link.text()[-3000:]}") from None
        provoked("gap:target_truncated", rows[0])
        assert [row["first"] for row in rows] == [1, *(row["last"] + 1 for row in rows[:-1])]
        assert (rows[-1]["last"], {row["count"] for row in rows}) == (LOST, {0})
        copied(1 + LOST)


@pytest.mark.thorough
@pytest.mark.spark
def test_verify_reports_a_refused_topic_as_refused_not_different(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a mirror recreated by others, and a sound one / when verified / then it is refused.

    The topic of its name is no copy, so that each of its records would seem lost or different.
    """
    source, target = cluster_pair.source, cluster_pair.target
    prefix = fresh_name("refused")
    sound, remade = (create_topic(source, f"{prefix}-{word}") for word in ("sound", "remade"))
    mine, foreign = (
        encode([Sample(b"k", value, 1_790_000_000_000)] * 20) for value in (b"mine", b"foreign")
    )
    for topic in (sound, remade):
        write_batches(source.bootstrap.split(","), topic, [mine])
    settings = {"include": [f"{prefix}-.*"], "refresh_interval_s": 0.5}
    name = fresh_name("link")
    config = write_config(tmp_path, source.bootstrap, target.bootstrap, name=name, topics=settings)
    with RunningLink(config):
        both, whole = {sound: 1, remade: 1}, {sound: [20], remade: [20]}
        wait_for("the copies", lambda: ends(target.bootstrap, both) == whole)
    with ClusterAdmin(target.bootstrap) as admin:
        admin.delete_topics([remade])
        until(lambda: remade not in admin.describe_topics(), "the mirror's end")
    create_topic(target, remade)
    write_batches(target.bootstrap.split(","), remade, [foreign])
    answer = heliostat(config, "verify", "--complete", "--json", "--master", "local[2]")
    found = answer.json
    assert (answer.returncode, found["clean"]) == (1, False), answer.said
    assert (found["records"], found["lost"], found["different"]) == (20, 0, 0)
    [left] = found["not_compared"]
    assert (left["source"], left["records"], left["is_problem"]) == (remade, 20, True)
    assert left["reason"].startswith(
        f"the link refuses it: {remade} was deleted and created again at the target"
    )
    told = heliostat(config, "verify", "--topic", sound, "--master", "local[2]")
    assert told.returncode == 0, told.said
