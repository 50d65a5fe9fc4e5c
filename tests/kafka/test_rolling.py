"""A running mirror becomes a merged topic in place, between two real brokers."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaProducer
from moving_groups import Logs, MovingGroup, logs_of
from support.cleaning import read_committed
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import Answer, heliostat, said
from support.deadline import deadline
from support.links import RunningLink, ends, wait_for
from support.merged import PARTITIONS, SiteProducer, assert_merged, is_level, written

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.errors import ConnectionLost
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.state.link_state import LinkState

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]
CLOSED_WITHIN_S, TURN_WITHIN_S, MOVE_WITHIN_S = 30.0, 240.0, 360.0
"""They take 5, 20 and 40 s; kafka-python's clients have no limit of their own in places."""


def config_of(path: Path, sites: dict[str, str], links: list[dict[str, Any]]) -> Path:
    config = {
        "clusters": {alias: {"bootstrap": each.split(",")} for alias, each in sites.items()},
        "spark": {"master": "local[2]"},
        "defaults": {
            "lanes": {"lease_s": 5},
            "groups": {"sync": True, "include": ["moves-.*"], "interval_s": 0.5},
        },
        "links": links,
    }
    path.write_text(yaml.safe_dump(config))
    return path


def start_late(bootstrap: str, topic: str) -> None:
    """Let the last partition begin at 5: what was before is gone."""
    last = PartitionId(PARTITIONS - 1)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(5):
        producer.send(topic, value=b"gone", partition=last)
    producer.close(CLOSED_WITHIN_S)
    with ClusterAdmin(bootstrap.split(",")) as admin:
        admin.delete_records({TopicPartition(TopicName(topic), last): Offset(5)})


def break_off(bootstrap: str, topic: str) -> None:
    """Abort transactions in each partition: what they wrote is not copied, and offsets part."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-aborts")
    producer.init_transactions()
    for count in range(1, 4):
        producer.begin_transaction()
        for number in range(count * PARTITIONS):
            producer.send(topic, value=b"aborted", partition=number % PARTITIONS)
        producer.flush()
        producer.abort_transaction()
    producer.close(CLOSED_WITHIN_S)


def moving_group(sites: Mapping[str, str], topic: str, here: str) -> MovingGroup:
    return MovingGroup(sites, topic, fresh_name("moves"), here, partitions=PARTITIONS)


def assert_groups_go_on(
    config: Path, logs: Logs, groups: list[MovingGroup], cuts: Mapping[str, int]
) -> None:
    """Groups that read the mirror or its source go to the other site, and back."""
    chance = random.Random(61)
    for group in groups:
        group.move(config, logs)
        group.read_on(chance, logs, least=0.9)
        assert min(group.places) > max(cuts.values())
    for group in groups:
        group.move(config, logs)


def lost(*_: object) -> None:
    raise ConnectionLost("lost before the last row")


def link_back(topic: str, file: Path, cuts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the link back of a turned topic."""
    file.write_text(json.dumps(cuts))
    topics = {"include": [topic], "refresh_interval_s": 1, "naming": "merge"}
    topics["start"] = {"offsets": str(file)}
    return {"name": fresh_name("back"), "source": "base", "target": "summit", "topics": topics}


def has_two_drivers(config: Path) -> bool:
    """Return whether both links run again, and copy nothing."""
    return [(each["state"], each["partitions"]) for each in said(config, "status")] == [
        ("running", 0),
        ("running", 0),
    ]


def assert_sent_back(answer: Answer, topic: str) -> None:
    """Assert that a finish went back: who writes at the source is told before and behind."""
    assert answer.returncode == 1, answer.said
    steps = {each["name"]: each for each in answer.json["steps"]}
    assert steps["still"]["state"] == "failed", answer.said
    assert re.search(rf"{topic}-[01]: \d+ records came", steps["still"]["text"])
    text = steps["preflight"]["text"]
    assert text.count("wrote at the source lately: producer") == 1, text


def assert_finished(config: Path, topic: str, group: MovingGroup, logs: Logs, *words: str) -> None:
    """Finish; it says how much a group reads again, and of which topic it was."""
    group.read_on(random.Random(62), logs)
    again = group.move(config, logs)
    done = heliostat(config, *words)
    assert done.returncode == 0, done.said
    [step] = [each for each in done.json["steps"] if each["name"] == "groups"]
    assert step["facts"]["rereads"].get(group.name, 0) == again, done.said
    left, _ = heliostat(config, *words[:3], "--last", "--json").json["topics"]
    assert left == {"topic": topic, "stage": "given_away", "partitions": PARTITIONS}


def assert_no_link_copies(
    config: Path, sites: Mapping[str, str], topic: str, producers: list[SiteProducer]
) -> None:
    """Assert that links which begin again leave each site's topic to itself."""
    left = {site: ends(each, {topic: PARTITIONS})[topic] for site, each in sites.items()}
    with RunningLink(config):
        for producer in producers:
            producer.write(1)
        wait_for("both drivers", lambda: has_two_drivers(config))
        time.sleep(2.0)  # two reconciliations
        for site, each in sites.items():
            assert ends(each, {topic: PARTITIONS})[topic] == [n + 1 for n in left[site]]


def wait_level(config: Path, sites: Mapping[str, str], topic: str, wanted: list[int]) -> None:
    """Wait until both sites have so many records; else say what the links say."""
    try:
        wait_for("both sites level", lambda: is_level(sites, topic, wanted))
    except AssertionError as error:
        there = {site: ends(each, {topic: PARTITIONS}) for site, each in sites.items()}
        raise AssertionError(f"{wanted} of {there}: {heliostat(config, 'status').said}") from error


def assert_moves(
    config: Path, sites: Mapping[str, str], producers: list[SiteProducer], link: str, topic: str
) -> None:
    """The first site's producer has stopped, the other one writes. While a transaction is open

    that has not crossed; once told that it has, nothing lacks. Who wrote is named, without links.
    """
    words = "switch", link, "--rolling", "--json"
    wait = *words, "--wait", topic
    last = KafkaProducer(bootstrap_servers=sites["summit"], transactional_id=f"{topic}-last")
    last.init_transactions()
    last.begin_transaction()
    last.send(topic, value=b"summit %06d" % producers[0].written[0], partition=0)
    last.flush()
    producers[0].written[0] += 1
    answer = heliostat(config, *wait, "--records-wait", "1")
    assert answer.returncode == 1, answer.said
    problem = answer.json["problems"][0]
    assert problem["code"] == "open_transactions", answer.said
    assert f"({topic}-last) is open since" in problem["text"]
    last.commit_transaction()
    last.close(CLOSED_WITHIN_S)
    answer = heliostat(config, *wait)
    assert answer.returncode == 0, answer.said
    for row in answer.json["partitions"]:
        assert row["position"] >= row["end"] > 0
        values = [each[3] or b"" for each in read_committed(sites["base"], topic, row["partition"])]
        own = sum(value.startswith(b"summit") for value in values)
        assert own == producers[0].written[row["partition"]]
    answer = heliostat(config, *words, "--writers")
    names = Counter[str]()
    for each in answer.json["writers"]:
        names[each["transactional_id"]] += len(each["partitions"])
    expected = {"": PARTITIONS + 1, f"{topic}-last": 1, f"{topic}-aborts": PARTITIONS}
    assert (names, answer.json["refused"]) == (expected, [])
    assert "not merged" in heliostat(config, *wait[:-1], f"{topic}-keys").said


def assert_proven(
    config: Path, sites: Mapping[str, str], topic: str, producers: list[SiteProducer]
) -> None:
    """Each record is once at each site, as the logs say, and as both links prove."""
    for link in load_config(config).links:  # ends alone count a marker as well
        assert heliostat(config, "switch", link.name, "--rolling", "--wait", topic).returncode == 0
    assert_merged(sites, topic, producers)
    proof = heliostat(config, "verify", "--complete", "--json", "--topic", topic)
    assert proof.returncode == 0, proof.said
    assert int(proof.json["records"]) == sum(written(producers))


def assert_one_stops_all(turned: Path, words: tuple[str, ...], topic: TopicName) -> None:
    """A compacted topic among all is named by a dry run, and by the turn, which changes nothing."""
    tried = heliostat(turned, *words, "--dry-run").json
    assert (tried["topics"], [*tried["refused"]]) == ([topic], [f"{topic}-keys"])
    assert "compacted" in heliostat(turned, *words).said


def test_a_running_mirror_is_merged_and_its_producers_move(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a mirror with breaks, of a source that is written / when the turn dies before its last
    row / then it goes on as a mirror. When it is turned / then its driver does not; with a link
    back from the cut, and producers at both sites, each record is once at each, in order. When it
    is finished while one still writes at the source / then that is named, and both links go on;
    afterwards they copy the topic no more, also once they begin again. Groups from before the cut
    go on at the other site: nothing is skipped, and what they read again was foretold.
    """
    topic, name = fresh_name("rolling"), fresh_name("away")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    create_topic(cluster_pair.source, topic, partitions=PARTITIONS)
    create_topic(cluster_pair.source, f"{topic}-keys", configs={"cleanup.policy": "compact"})
    topics = {"include": [f"{topic}.*"], "refresh_interval_s": 1}
    away = {"name": name, "source": "summit", "target": "base", "topics": topics}
    merged = {**away, "topics": {**topics, "naming": "merge"}}
    mirror = config_of(tmp_path / "mirror.yaml", sites, [away])
    turned = config_of(tmp_path / "turned.yaml", sites, [merged])
    start_late(sites["summit"], topic)
    producers = [SiteProducer(site, each, topic) for site, each in sites.items()]
    groups = [moving_group(sites, topic, site) for site in sites]
    words = "switch", name, "--rolling", "--yes", "--json", "--topics", topic

    def at_base() -> list[int]:
        return list(ends(sites["base"], {topic: PARTITIONS})[topic])

    def more_than(before: list[int]) -> bool:
        return min(now - was for now, was in zip(at_base(), before, strict=True)) > 20

    with ExitStack() as writing:
        writing.enter_context(producers[0].at_work())
        with deadline("a mirror that is turned", TURN_WITHIN_S), RunningLink(mirror):
            wait_for("the mirror", lambda: more_than([0] * PARTITIONS))
            break_off(sites["summit"], topic)
            assert_one_stops_all(turned, words[:-2], topic)
            assert "topics.naming: merge" in heliostat(mirror, *words).said
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(LinkState, "put_mirrors", lost)
                assert "lost before" in heliostat(turned, *words).said
            wait_for("a mirror as before", partial(more_than, at_base()))
            for group in groups:
                group.read_on(random.Random(40))
            groups[0].published(mirror)
            answer = heliostat(turned, *words)
            assert answer.returncode == 0, answer.said
            cuts = answer.json["cuts"]
            wait_for("its refusal", lambda: "begun as merged" in json.dumps(said(mirror, "status")))
            assert at_base() == list(cuts[topic].values())
        assert heliostat(turned, *words).json["cuts"] == cuts
        back = link_back(topic, tmp_path / "cuts.json", cuts)
        both = config_of(tmp_path / "both.yaml", sites, [merged, back])
        end = *words[:4], "--finish", *words[4:], "--still-s", "1", "--watch-s", "0"
        with deadline("producers and groups that move", MOVE_WITHIN_S), RunningLink(both):
            writing.enter_context(producers[1].at_work())
            assert_sent_back(heliostat(both, *end, "--producers-wait", "0"), topic)
            more = [number + 200 for number in cuts[topic].values()]
            wait_for("both", lambda: is_level(sites, topic, more))
            producers[0].rest()
            assert_moves(both, sites, producers, name, topic)
            writing.close()
            wait_level(both, sites, topic, written(producers))
            assert_proven(both, sites, topic, producers)
            logs = logs_of(sites, topic, PARTITIONS)
            assert_groups_go_on(both, logs, groups, cuts[topic])
            assert_finished(both, topic, groups[0], logs, *end)
        with deadline("links that begin again", TURN_WITHIN_S):
            assert_no_link_copies(both, sites, topic, producers)
    for each in producers:
        each.close()
