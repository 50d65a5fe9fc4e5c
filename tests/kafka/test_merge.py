"""One topic that two sites write, between two real brokers, with links in both directions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.cleaning import read_committed
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name
from support.command import heliostat, said
from support.links import LinkProcess, RunningLink, ends, kill, wait_for
from support.merged import (
    PARTITIONS,
    PipedTopic,
    SiteProducer,
    assert_merged,
    config_of,
    delete_all,
    is_level,
)
from support.provoked import Provoked

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.errors import Refused
from heliostat.gaps.choices import GapChoice
from heliostat.gaps.facts import SharedAsk
from heliostat.link.own_records import OwnRecordsLook
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.store import read_maps
from heliostat.operate.resolve import DecisionOptions, decide, explain
from heliostat.rebuild import state as state_rebuild
from heliostat.state_topics import PRODUCERS_TOPIC, offsets_topic, state_topic
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

BEFORE = 20
"""Records of each site and partition from before the links."""
EXPIRED = {
    "producer.id.expiration.check.interval.ms": "300",
    "producer.id.expiration.ms": "1000",
}
"""Every producer is forgotten a second after the timestamp of its last record."""
REPEATS_MAX = 10
PIPED = 1
"""Partitions that go through a pipeline."""
CHAOS_S = 1.0
"""Between two faults: a link has begun by then."""


def stops(config: Path, code: str = "") -> list[dict[str, Any]]:
    problems = [row for status in said(config, "status") for row in status["problems"]]
    return [row for row in problems if code in {"", row["code"]}]


def verified(config: Path, *topics: str) -> int:
    """How many records both links' sites are proven to have."""
    named = [option for topic in topics for option in ("--topic", topic)]
    answer = heliostat(config, "verify", "--complete", "--json", *named)
    assert answer.returncode == 0, answer.said
    assert answer.json["not_compared"] == [], answer.said
    return int(answer.json["records"])


def lose(bootstrap: str, topic: str) -> None:
    """Delete a topic of a link, as where its brokers' disks are gone."""
    name = TopicName(topic)
    with ClusterAdmin(bootstrap.split(",")) as admin:
        assert admin.delete_topics([name]) == {name: None}
        wait_for("the topic to be gone", lambda: name not in admin.describe_topics())


def lose_map(config: Path, bootstrap: str, link: str) -> None:
    """Delete a running link's map: its partitions stop."""
    copying = [{"copying": PARTITIONS + PIPED}] * 2
    wait_for("both links", lambda: [each["states"] for each in said(config, "status")] == copying)
    lose(bootstrap, offsets_topic(link))
    lost = {"OFFSET_MAP_LOST"}
    wait_for("partitions without a map", lambda: {row["code"] for row in stops(config)} == lost)


def rebuild(config: Path, bootstrap: str, link: str) -> None:
    """Rebuild a link's map, then its state, which is deleted."""
    found = said(config, "offsets", "rebuild", "--link", link)
    assert [row["why_not"] for row in found] == [""] * (PARTITIONS + PIPED), found
    lose(bootstrap, state_topic(link))
    for way in ("--dry-run", "--yes"):
        answer = heliostat(config, "state", "rebuild", link, way, "--json")
        assert answer.returncode == 0, answer.said
        rows = [one for topic in answer.json["topics"] for one in topic["partitions"]]
        assert [(one["verdict"], one["map_made_anew"]) for one in rows] == [("mapped", False)] * (
            PARTITIONS + PIPED
        )


def assert_goes_on_without_a_record(
    config: Path, sites: Mapping[str, str], topic: str, crossed: int
) -> None:
    """Decide on a record that is gone before it crosses; what crossed before is at both sites."""
    loaded, at = load_config(config), TopicPartition(TopicName(topic), PartitionId(0))
    link = next(each for each in loaded.links if each.source == "summit")
    here, there = (loaded.clusters[each].access() for each in (link.source, link.target))
    with ClusterAdmin(there) as admin:
        topic_id = admin.describe_topics([at.topic])[at.topic].topic_id
    known = read_maps(there, LinkName(link.name)).of(at, id_text(topic_id))
    for same_below in (None, known.source_of(crossed // 2)):
        ask = SharedAsk(at, at, known, Offset(crossed), same_below, is_compacted=False)
        with closing(OwnRecordsLook(link, here, there)) as look:
            assert look.ends([(at, id_text(topic_id))]) == {at: crossed}
            shared = look.shared_end(ask)
        assert shared is not None
        assert shared.offset == known.source_of(crossed - 1) + 1
    assert heliostat(config, "pause", link.name, "--topic", topic).returncode == 0
    with closing(KafkaProducer(bootstrap_servers=sites["summit"].split(","))) as producer:
        producer.send(topic, value=b"gone", partition=0)
        behind = producer.send(topic, value=b"behind it", partition=0).get(10.0).offset
    with ClusterAdmin(here) as admin:
        admin.delete_records({at: Offset(behind)})
    assert heliostat(config, "resume", link.name, "--topic", topic).returncode == 0

    def options() -> list[DecisionOptions]:
        try:
            return explain(loaded, link, at.topic)
        except Refused:
            return []

    [found] = wait_for("a record that is gone", options)
    choices = [each.choice for each in found.options if not each.why_not]
    assert choices == [GapChoice.CONTINUE, GapChoice.WAIT]
    assert (found.facts.is_merged, found.facts.target_end) == (True, crossed)
    end = ends(sites["base"], {topic: 1})[topic]
    decide(loaded, link, [found], GapChoice.CONTINUE, "somebody")
    wait_for("the record behind it", lambda: ends(sites["base"], {topic: 1})[topic] != end)
    values = [row[3] for row in read_committed(sites["base"], topic, 0)]
    assert values[-1] == b"behind it"
    assert [len(values)] == [end[0] + 1]


@pytest.mark.provokes("PRODUCERS_LOST", "refused:merge")
def test_two_sites_write_one_topic_and_each_has_each_record_once(
    cluster_pair: ClusterPair,
    tmp_path: Path,
    provoked: Provoked,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given producers at both sites and both links / when their driver is killed, and one link's
    map and state are deleted and rebuilt / then nothing lacks, is there twice, or is out of a
    site's order, and `verify` proves it, also of what goes through pipelines. When a record is
    gone before it crosses, and somebody decides / then the one behind it crosses. When the rows of
    producer ids are deleted / then nothing is copied any more, and `verify` proves nothing.
    """
    monkeypatch.setattr(state_rebuild, "HEAR_S", 0.5)
    topic = fresh_name("merged")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    for cluster in (cluster_pair.source, cluster_pair.target):
        create_topic(cluster, topic, partitions=PARTITIONS)
        create_topic(cluster, f"{topic}-keys", configs={"cleanup.policy": "compact"})
    piped = PipedTopic(sites, topic)
    for cluster in (cluster_pair.source, cluster_pair.target):
        create_topic(cluster, piped.name)
    producers = [SiteProducer(site, bootstrap, topic) for site, bootstrap in sites.items()]
    for each in producers:
        each.write(BEFORE)
    piped.write(BEFORE)
    config = config_of(tmp_path, sites, topic, pipelines=[piped.pipeline])
    name = next(each.name for each in load_config(config).links if each.source == "summit")
    with producers[0].at_work(), producers[1].at_work():
        with LinkProcess(config) as link:
            wait_for("records of the other site", lambda: is_level(sites, topic, [100, 100]))
            piped.write(BEFORE)
            link.kill_driver()
        with RunningLink(config):
            marks = [sum(each.written[n] for each in producers) for n in range(PARTITIONS)]
            wait_for("records since the kill", lambda: is_level(sites, topic, marks))
            wait_for("both sites level behind the pipeline", piped.is_level)
            lose_map(config, sites["base"], name)
        rebuild(config, sites["base"], name)
    with RunningLink(config) as link:
        wanted = [sum(each.written[n] for each in producers) for n in range(PARTITIONS)]
        wait_for("both sites level", lambda: is_level(sites, topic, wanted))
        assert_merged(sites, topic, producers)
        piped.assert_merged()
        through = len(sites) * len(piped.crossed)
        assert verified(config, topic, piped.name) == sum(wanted) + through
        provoked("refused:merge", said(config, "plan")[0]["refuse"][f"{topic}-keys"])
        assert_goes_on_without_a_record(config, sites, topic, producers[0].written[0])
        with ClusterAdmin(sites["summit"].split(",")) as admin:
            admin.delete_topics([TopicName(PRODUCERS_TOPIC)])
        for each in wait_for("stopped partitions", lambda: stops(config, "PRODUCERS_LOST")):
            provoked("PRODUCERS_LOST", each)
        assert link.stop() == 0
    answer = heliostat(config, "verify", "--complete", "--json", "--topic", topic)
    assert answer.returncode != 0
    assert PRODUCERS_TOPIC in answer.said
    for each in producers:
        each.close()


def test_in_a_mesh_of_three_each_site_has_each_record_once(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given producers at three sites and six links in one driver / when it is killed / then each
    site has each record once, in each site's order: what crossed goes no further.
    """
    with Cluster.start("coast", heap_mb=HEAP_MB) as third:
        clusters = (cluster_pair.source, cluster_pair.target, third)
        sites = dict(
            zip(("summit", "base", "coast"), (each.bootstrap for each in clusters), strict=True)
        )
        topic = fresh_name("merged")
        for cluster in clusters:
            create_topic(cluster, topic, partitions=PARTITIONS)
        producers = [SiteProducer(site, bootstrap, topic) for site, bootstrap in sites.items()]
        config = config_of(tmp_path, sites, topic)
        with ExitStack() as at_work:
            for each in producers:
                at_work.enter_context(each.at_work())
            with LinkProcess(config) as link:
                wait_for("records of all sites", lambda: is_level(sites, topic, [100, 100]))
                link.kill_driver()
            marks = [sum(each.written[n] for each in producers) for n in range(PARTITIONS)]
            at_work.enter_context(RunningLink(config))
            wait_for("records since the kill", lambda: is_level(sites, topic, marks))
            for each in producers:
                each.rest()
            wanted = [sum(each.written[n] for each in producers) for n in range(PARTITIONS)]
            wait_for("all sites level", lambda: is_level(sites, topic, wanted))
            assert_merged(sites, topic, producers)
        for each in producers:
            each.close()


@pytest.mark.long
def test_forgotten_producers_killed_brokers_and_emptied_logs_do_no_harm(tmp_path: Path) -> None:
    """Given brokers that forget producers at once / when workers and brokers are killed /
    then each record is once at each site. When all is level, the links have ended and all records
    are deleted / then links go on with the next one: a closed note says where.
    """
    with ExitStack() as stack:
        clusters = {
            site: stack.enter_context(Cluster.start(site, settings=EXPIRED, heap_mb=HEAP_MB))
            for site in ("summit", "base")
        }
        sites = {site: cluster.bootstrap for site, cluster in clusters.items()}
        topic = fresh_name("merged")
        for cluster in clusters.values():
            create_topic(cluster, topic, partitions=PARTITIONS)
        producers = [SiteProducer(site, bootstrap, topic) for site, bootstrap in sites.items()]
        config = config_of(tmp_path, sites, topic)
        link = stack.enter_context(LinkProcess(config))
        with producers[0].at_work(), producers[1].at_work():
            wait_for("records of the other site", lambda: is_level(sites, topic, [100, 100]))
            for cluster in clusters.values():
                kill(link.workers())
                time.sleep(CHAOS_S)
                cluster.brokers[0].kill()
                cluster.brokers[0].start()
                time.sleep(CHAOS_S)
        wanted = [sum(each.written[n] for each in producers) for n in range(PARTITIONS)]
        wait_for("both sites level", lambda: is_level(sites, topic, wanted))
        assert_merged(sites, topic, producers, repeats_max=REPEATS_MAX)
        assert link.stop() == 0
        for bootstrap in sites.values():
            delete_all(bootstrap, topic)
        level = ends(sites["base"], {topic: PARTITIONS})[topic]
        begins = [list(each.written) for each in producers]
        for each in producers:
            each.write(BEFORE)
        stack.enter_context(LinkProcess(config))
        wait_for("new records", lambda: is_level(sites, topic, [n + 2 * BEFORE for n in level]))
        assert_merged(sites, topic, producers, begins)
        assert verified(config, topic) == 2 * BEFORE * PARTITIONS
        for each in producers:
            each.close()
