"""`heliostat topics` and `heliostat plan` on real clusters, through the command line."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name

from heliostat.cli.main import run
from heliostat.config import load_config
from heliostat.names import ClusterId, TopicName
from heliostat.state.link_state import LinkState
from heliostat.topics.values import MirrorRecord

pytestmark = [pytest.mark.kafka, pytest.mark.core]


def write_config(path: Path, source: str, target: str, **topics: object) -> Path:
    return write_links(path, source, target, {"cli": topics})


def write_links(path: Path, source: str, target: str, links: dict[str, dict[str, object]]) -> Path:
    config = {
        "clusters": {"summit": {"bootstrap": source.split(",")}, "usdf": {"bootstrap": target}},
        "links": [
            {"name": name, "source": "summit", "target": "usdf", "topics": topics}
            for name, topics in links.items()
        ],
    }
    file = path / "heliostat.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


@pytest.fixture
def pair(cluster_pair: ClusterPair) -> tuple[str, str]:
    return cluster_pair.source.bootstrap, cluster_pair.target.bootstrap


def test_preview_lists_each_topic_with_the_deciding_entry(cluster_pair, pair, tmp_path, capsys):
    prefix = fresh_name("preview")
    a, b = (create_topic(cluster_pair.source, f"{prefix}.{letter}") for letter in "ab")
    include = rf"{prefix}\..*"
    config = write_config(tmp_path, *pair, include=[include], exclude=[b], naming={"prefix": "m."})
    assert run(["topics", "-c", str(config), "--json"]) == 0
    rows = {row["topic"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows[a] == {
        "link": "cli",
        "topic": a,
        "selected": True,
        "why": f"included by {include}",
        "target": f"m.{a}",
        "slot": {"number": 0, "of": 1},
    }
    assert (rows[b]["selected"], rows[b]["why"]) == (False, f"excluded by {b}")
    assert run(["topics", "-c", str(config)]) == 0
    assert f"+ {a}" in (out := capsys.readouterr().out)
    assert f"- {b}" in out


def test_plan_shows_the_changes_and_makes_none(cluster_pair, pair, tmp_path, capsys):
    topic = create_topic(cluster_pair.source, partitions=2)
    config = write_config(tmp_path, *pair, include=[topic])
    for _ in range(2):
        assert run(["plan", "-c", str(config)]) == 1
        assert f"create {topic}: 2 partitions" in capsys.readouterr().out
    assert run(["plan", "-c", str(config), "--json"]) == 1
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan["create"][0]["target"] == topic


@pytest.mark.provokes("refused:two_links")
def test_two_links_into_one_topic_are_refused_once_their_topics_are_known(
    cluster_pair, pair, tmp_path, capsys, provoked
):
    prefix = fresh_name("shared")
    topic = create_topic(cluster_pair.source, f"{prefix}.a")
    other = create_topic(cluster_pair.source, f"{prefix}.b")
    links = {"one": {"include": [rf"{prefix}\..*"]}, "two": {"include": [rf"{prefix}.[ac]"]}}
    config = write_links(tmp_path, *pair, links)
    assert run(["plan", "-c", str(config), "--json"]) == 1
    one, two = json.loads(capsys.readouterr().out)
    provoked("refused:two_links", one["refuse"][topic])
    assert one["refuse"][topic]["reason"] == f"link two writes into {topic} as well"
    assert two["refuse"][topic]["reason"] == f"link one writes into {topic} as well"
    assert [row["target"] for row in one["create"]] == [other]


def test_a_mirror_of_a_link_in_another_file_is_refused(cluster_pair, pair, tmp_path, capsys):
    """Given a link's state at the target / when another file wants its mirror / then refused."""
    topic = create_topic(cluster_pair.source)
    create_topic(cluster_pair.target, topic)  # empty: free for the taking but for the mark
    wanted = write_links(tmp_path, *pair, {fresh_name("here"): {"include": [topic]}})
    run(["plan", "-c", str(wanted), "--json"])
    (before,) = json.loads(capsys.readouterr().out)
    assert topic not in before["refuse"]
    other = fresh_name("there")
    (tmp_path / other).mkdir()
    file = write_links(tmp_path / other, *pair, {other: {"include": [topic]}})
    config = load_config(file)
    record = MirrorRecord(
        TopicName(topic), TopicName(topic), None, None, ClusterId("any"), "earliest", 1
    )
    with closing(LinkState(config.links[0], config.clusters["usdf"])) as state:
        state.ensure()
        state.put_mirrors({record.source: record})
        assert run(["plan", "-c", str(wanted), "--json"]) == 1
        (plan,) = json.loads(capsys.readouterr().out)
        assert plan["refuse"][topic]["reason"] == f"link {other} writes into {topic} as well"
        assert f"heliostat.{other}.state" in plan["refuse"][topic]["hint"]
        state.drop_mirrors([record.source])
    run(["plan", "-c", str(wanted), "--json"])
    (after,) = json.loads(capsys.readouterr().out)
    assert topic not in after["refuse"]


def test_plan_of_a_synced_pair_is_empty(pair, tmp_path, capsys):
    config = write_config(tmp_path, *pair, include=[])
    assert run(["plan", "-c", str(config)]) == 0
    assert capsys.readouterr().out == "link cli: nothing to do, 0 topics mirrored\n"


@pytest.mark.provokes("CONFIG_REFUSED")
def test_a_link_from_a_cluster_to_itself_is_refused_by_cluster_id(pair, tmp_path, capsys, provoked):
    other_name = pair[0].replace("127.0.0.1", "localhost")
    config = write_config(tmp_path, pair[0], other_name, include=[])
    assert run(["plan", "-c", str(config)]) == 2
    said = capsys.readouterr().err
    assert "are the same cluster" in said
    provoked("CONFIG_REFUSED", said)


def test_an_unknown_link_is_refused(pair, tmp_path, capsys):
    config = write_config(tmp_path, *pair, include=[])
    assert run(["topics", "-c", str(config), "--link", "none"]) == 2
    assert "there is no link none" in capsys.readouterr().err
