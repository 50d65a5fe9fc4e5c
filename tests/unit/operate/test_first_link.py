"""The first configuration of somebody who has none: what is proposed, written, and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from unit.operate.test_scanned import SASL, cluster, topic

from heliostat.cli.init import init_command
from heliostat.config.first_file import (
    FirstCluster,
    FirstLink,
    proposed_aliases,
    proposed_topics,
)
from heliostat.config.load import check
from heliostat.config.one_cluster import cluster_at
from heliostat.names import Alias
from heliostat.operate.first_link import selection


@pytest.mark.parametrize(
    ("source", "target", "entry", "prefix", "groups"),
    [
        ("summit", "usdf", ".*", "", False),
        ("a.b_c", "7", r"lsst\.sal\..*", "east.", True),
        ("true", "null", "it's: #1|[x]", "a_", True),
        ("0", "0.", "a", "", False),
    ],
)
def test_a_first_file_is_accepted_and_says_what_was_asked_for(
    *, source: str, target: str, entry: str, prefix: str, groups: bool
) -> None:
    first = FirstLink(
        FirstCluster(Alias(source), "a:1, b:2", SASL),
        FirstCluster(Alias(target), "[::1]:9"),
        *((entry,), prefix, groups, "3 of 4 topics: 5 GB # now"),
    )
    text = first.text("x.yaml")
    config, problems = check(yaml.safe_load(text))
    assert problems == []
    assert config is not None
    (link,) = config.links
    assert (link.topics.include, link.groups.sync) == ((entry,), groups)
    assert link.topics.name_format() == prefix + "${topic}"
    assert config.clusters[Alias(source)].bootstrap == ("a:1", "b:2")
    assert len(text.splitlines()) <= 13


def test_proposals_follow_hosts_and_names() -> None:
    pair = [cluster_at(text) for text in ("summit-1.example.org:1", "usdf.example.org:1")]
    assert proposed_aliases(*pair) == ("summit-1", "usdf")
    here = [cluster_at(text) for text in ("127.0.0.1:1", "127.0.0.1:2")]
    assert proposed_aliases(*here) == ("source", "target")
    assert proposed_topics(["lsst.a", "lsst.b"]) == r"lsst\..*"
    assert proposed_topics(["lsst.a", "b"]) == ".*"


def test_a_selection_counts_and_names_what_the_target_has() -> None:
    source, target = cluster(topic("a", 10), topic("b", None), topic("__c")), cluster(topic("b"))
    chosen = selection(source, target, ".*")
    assert (chosen.text(), chosen.at_target) == ("2 of 2 topics, at least 10 B", ("b",))


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ([], "--source HOST:PORT, --target HOST:PORT, --yes"),
        (["--source", "a:1", "--yes"], "--target HOST:PORT"),
    ],
)
def test_without_a_terminal_the_options_are_named(
    tmp_path: Path, words: list[str], missing: str
) -> None:
    answer = CliRunner().invoke(init_command, ["-c", str(tmp_path / "x.yaml"), *words])
    assert answer.exit_code == 2
    assert missing in answer.output
    assert not (tmp_path / "x.yaml").exists()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("mine")
    words = ["-c", str(tmp_path / "x.yaml"), "--yes", "--source", "a:1", "--target", "b:1"]
    answer = CliRunner().invoke(init_command, words)
    assert "exists" in str(answer.exception)
    assert (tmp_path / "x.yaml").read_text() == "mine"
