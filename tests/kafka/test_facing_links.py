"""Links in opposite directions, of one file or several: no mirror is mirrored back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name
from support.command import heliostat, said
from support.group_sides import write_values
from support.links import RunningLink, ends, wait_for
from support.provoked import Provoked

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

ALIASES = ("summit", "usdf", "base")
RECORDS = [b"%d" % number for number in range(10)]
MORE_TURNS = 3
"""Turns of each link after which what had to come back would have."""

Sites = Mapping[str, Cluster]
Way = tuple[str, str]


@pytest.fixture(scope="module")
def sites(cluster_pair: ClusterPair) -> Iterator[Sites]:
    with Cluster.start("facing-base", heap_mb=HEAP_MB) as base:
        clusters = (cluster_pair.source, cluster_pair.target, base)
        yield dict(zip(ALIASES, clusters, strict=True))


def file_of(folder: Path, sites: Sites, ways: Sequence[Way], **topics: Any) -> Path:
    """A file with a link for each way; its links' names are in no other file."""
    config = {
        "clusters": {
            alias: {"bootstrap": each.bootstrap.split(",")} for alias, each in sites.items()
        },
        "spark": {"master": "local[2]"},
        "defaults": {"lanes": {"lease_s": 5}},
        "links": [
            {
                "name": fresh_name(f"{source}-{target}"),
                "source": source,
                "target": target,
                "topics": {"refresh_interval_s": 0.5, **topics},
            }
            for source, target in ways
        ],
    }
    path = folder / fresh_name("file")
    path.mkdir()
    path /= "heliostat.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def topics_of(cluster: Cluster, part: str) -> set[str]:
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        return {name for name in admin.describe_topics() if part in name}


def end(sites: Sites, alias: str, topic: str) -> int:
    return ends(sites[alias].bootstrap, {topic: 1})[topic][0]


def wait_turns(*configs: Path) -> None:
    """Until each link has looked at both clusters some more times."""

    def turns() -> list[int]:
        rows = [row for config in configs for row in said(config, "status")]
        return [row["driver"].get("turns", 0) for row in rows]

    began = turns()
    wait_for(
        "more turns",
        lambda: all(now >= was + MORE_TURNS for now, was in zip(turns(), began, strict=True)),
    )


def plans(*configs: Path) -> list[dict[str, Any]]:
    return [plan for config in configs for plan in said(config, "plan")]


def left_out(topic: str, *configs: Path) -> list[bool]:
    return [topic in plan["left_out"] for plan in plans(*configs)]


def one_left_out(topic: str, *configs: Path) -> list[bool] | None:
    """Return which link leaves a topic out, once all have planned again and still agree."""
    before = left_out(topic, *configs)
    if sum(before) != 1:
        return None
    wait_turns(*configs)
    return before if left_out(topic, *configs) == before else None


@pytest.mark.provokes("refused:cycle")
def test_two_links_with_prefixes_copy_each_topic_once(
    sites: Sites, tmp_path: Path, provoked: Provoked
) -> None:
    """Given `.*` in both directions / when both start at once / then no mirror is mirrored back."""
    name = fresh_name("prefixed")
    mine, theirs = f"{name}.q", f"{name}.r"
    for alias, topic, count in (("summit", mine, 10), ("usdf", theirs, 5)):
        create_topic(sites[alias], topic)
        write_values(sites[alias].bootstrap, topic, RECORDS[:count])
    there = file_of(
        tmp_path, sites, [("summit", "usdf")], include=[f".*{name}.*"], naming={"prefix": "summit."}
    )
    back = file_of(
        tmp_path, sites, [("usdf", "summit")], include=[f".*{name}.*"], naming={"prefix": "usdf."}
    )
    with RunningLink(there) as first, RunningLink(back) as second:
        wait_for("q", lambda: end(sites, "usdf", f"summit.{mine}") == 10)
        wait_for("r", lambda: end(sites, "summit", f"usdf.{theirs}") == 5)
        wait_turns(there, back)
        assert topics_of(sites["usdf"], name) == {theirs, f"summit.{mine}"}
        assert topics_of(sites["summit"], name) == {mine, f"usdf.{theirs}"}
        told = heliostat(back, "plan")
        verified = heliostat(back, "verify", "--json", "--master", "local[2]")
        assert (told.returncode, verified.returncode) == (0, 0), told.said + verified.said
        [left] = verified.json["not_compared"]
        assert left["source"] == f"summit.{mine}"
        assert left["reason"].startswith("the link leaves it out: its records come from")
        assert f"leave out summit.{mine}: its records come from summit" in told.stdout
        [status] = said(back, "status")
        assert any("not mirrored back" in note for note in status["driver"]["notes"]), status
        assert not status["driver"]["refused"]
        assert (first.stop(), second.stop()) == (0, 0), first.text() + second.text()
    named = file_of(
        tmp_path, sites, [("usdf", "summit")], include=[f"summit.{mine}"], naming={"prefix": "x."}
    )
    answer = heliostat(named, "plan", "--json")
    assert answer.returncode == 1, answer.said
    provoked("refused:cycle", answer.json[0]["refuse"][f"summit.{mine}"])


def test_one_of_two_links_that_start_with_the_same_empty_topic_copies(
    sites: Sites, tmp_path: Path
) -> None:
    """Given both sides empty / when two files' links start together / then nothing comes back."""
    topic = fresh_name("identity")
    for alias in ALIASES[:2]:
        create_topic(sites[alias], topic)
    ways = [("summit", "usdf"), ("usdf", "summit")]
    files = [file_of(tmp_path, sites, [way], include=[f"{topic}|x"]) for way in ways]
    with RunningLink(files[0]) as first, RunningLink(files[1]) as second:
        out = wait_for("one of both", lambda: one_left_out(topic, *files))
        source, target = ways[out.index(False)]
        write_values(sites[source].bootstrap, topic, RECORDS)
        wait_for("the records", lambda: end(sites, target, topic) == 10)
        wait_turns(*files)
        assert (end(sites, source, topic), end(sites, target, topic)) == (10, 10)
        assert left_out(topic, *files) == out
        assert (first.stop(), second.stop()) == (0, 0), first.text() + second.text()
    named = file_of(tmp_path, sites, [(target, source)], include=[topic])
    [plan] = plans(named)
    assert plan["refuse"][topic]["code"] == "cycle"


def test_one_link_in_a_ring_of_three_does_not_copy(sites: Sites, tmp_path: Path) -> None:
    """Given a topic that is empty at three clusters / when a ring starts / then two links copy."""
    topic = fresh_name("ring")
    for alias in ALIASES:
        create_topic(sites[alias], topic)
    # The order in which each link sees least of those before it.
    ways = [("usdf", "base"), ("summit", "usdf"), ("base", "summit")]
    files = [file_of(tmp_path, sites, [way], include=[TopicName(f"{topic}|x")]) for way in ways]
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(RunningLink(file)) for file in files]
        out = wait_for("an open ring", lambda: opened(topic, files))
        target, head = ways[out.index(True)]
        write_values(sites[head].bootstrap, topic, RECORDS)
        wait_for("the records", lambda: end(sites, target, topic) == 10)
        wait_turns(*files)
        assert [end(sites, alias, topic) for alias in ALIASES] == [10, 10, 10]
        assert [link.stop() for link in links] == [0, 0, 0], [link.text() for link in links]


def opened(topic: TopicName, files: list[Path]) -> list[bool] | None:
    """Which link has left it out, once one has and the others serve it: before, it may change."""
    out = left_out(topic, *files)
    others = (file for file, is_out in zip(files, out, strict=True) if not is_out)
    return out if sum(out) == 1 and all(serves_one(file) for file in others) else None


def serves_one(file: Path) -> bool:
    """Whether its lanes serve a partition."""
    [status] = said(file, "status")
    return bool(status["partitions"] == 1)


def test_a_chain_in_one_direction_is_no_cycle(sites: Sites, tmp_path: Path) -> None:
    """Given summit → usdf → base / when a mirror is mirrored again / then all records arrive."""
    name = fresh_name("chain")
    create_topic(sites["summit"], name)
    write_values(sites["summit"].bootstrap, name, RECORDS)
    ways = [("summit", "usdf"), ("usdf", "base")]
    config = file_of(
        tmp_path, sites, ways, include=[f".*{name}"], naming={"format": "${source}.${topic}"}
    )
    with RunningLink(config) as link:
        last = f"usdf.summit.{name}"
        wait_for("the archive", lambda: last in topics_of(sites["base"], name))
        wait_for("all of it", lambda: end(sites, "base", last) == 10)
        wait_turns(config)
        assert link.stop() == 0, link.text()
    assert heliostat(config, "plan").returncode == 0
    again = file_of(tmp_path, sites, [("base", "summit")], include=[f".*{name}"])
    assert left_out(last, again) == [True]
    closing = file_of(tmp_path, sites, [("base", "summit")], include=[last])
    assert "by way of 1 more" in plans(closing)[0]["refuse"][last]["reason"]
