"""Takeovers on real clusters of what a MirrorMaker 2 leaves, written by the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair
from support.left import Left, values
from support.links import RunningLink, wait_for
from support.records import GZIP, LZ4, SNAPPY, ZSTD

from heliostat.cli.main import run
from heliostat.config import load_config
from heliostat.errors import Refused
from heliostat.mm2.adopt import adopt
from heliostat.mm2.adopt_plan import peer_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


def found_by(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (topic,) = json.loads(capsys.readouterr().out)["topics"]
    (partition,) = topic["partitions"]
    return dict(partition)


def test_a_mirror_continues_at_its_end_and_is_handed_back(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Left(cluster_pair, tmp_path, at_source=300)
    left.write_target(range(120))
    left.commit(50, 80)

    assert left.adopt("--dry-run", "--json") == 0
    found = found_by(capsys)
    assert (found["verdict"], found["committed"], found["seam"]) == ("exact", 80, 120)
    assert run(["plan", "-c", str(left.config)]) == 1  # nothing was written: still not ours
    assert "no row of it as a mirror" in capsys.readouterr().out
    assert left.adopt("--yes") == 0
    left.runs_until(300)
    assert left.at_target() == values(range(300))

    assert left.adopt("--back", "--yes") == 0
    before = left.committed()
    assert [value for _, value in before] == [50, 80, 299]
    assert len({partition for partition, _ in before}) == 1  # one live value of the key
    capsys.readouterr()
    assert run(["plan", "-c", str(left.config)]) == 1
    assert "no row of it as a mirror" in capsys.readouterr().out  # it is MirrorMaker 2's again
    assert run(["state", "rebuild", "-c", str(left.config), "--dry-run"]) == 1
    assert "it was handed back to MirrorMaker 2" in capsys.readouterr().out


def test_compressed_batches_are_compared(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given batches of every codec at the source / when taken over / then compared all the same."""
    left = Left(cluster_pair, tmp_path, at_source=10)
    for number, codec in enumerate((GZIP, SNAPPY, LZ4, ZSTD), 1):
        left.write_source(range(10 * number, 10 * number + 10), codec)
    left.write_target(range(45))
    left.commit(30)
    assert left.adopt("--yes", "--json") == 0
    found = found_by(capsys)
    assert (found["verdict"], found["seam"]) == ("exact", 45)


def test_duplicated_records_are_mapped_and_both_directions_follow_the_map(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Left(cluster_pair, tmp_path, at_source=200)
    there = [*range(90), *range(61, 70)]
    left.write_target(there)
    left.commit(60)
    assert left.adopt("--yes", "--json") == 0
    found = found_by(capsys)
    assert (found["verdict"], found["seam"], found["doubled"]) == ("mapped", 90, 9)
    left.runs_until(209)
    assert left.at_target() == values([*there, *range(90, 200)])

    assert left.adopt("--back", "--yes") == 0
    assert left.committed()[-1][1] == 199
    left.write_source(range(200, 210))
    left.write_target(range(200, 205))  # MirrorMaker 2 continues, and is killed
    assert left.adopt("--yes", "--json") == 0
    capsys.readouterr()
    left.runs_until(219)
    assert left.at_target() == values([*there, *range(90, 210)])


def test_a_mirror_that_does_not_match_is_refused_and_unchanged(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Left(cluster_pair, tmp_path, at_source=50)
    left.write_target([*range(20), 7_777])
    left.commit(10)
    assert left.adopt("--yes", "--json") == 1
    found = found_by(capsys)
    assert found["verdict"] == "refused"
    assert "is not at the source" in found["reason"]
    assert left.remembered() == {}


def test_missing_topics_and_positions_are_named(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Left(cluster_pair, tmp_path, at_source=5)
    left.commit(1)
    assert run(["adopt", "-c", str(left.config), "--alias", "nobody", "--dry-run"]) == 1
    assert "no topic mm2-offsets.nobody.internal" in capsys.readouterr().err
    assert left.adopt("--dry-run", "--connector", "copy") == 1
    assert f"there are MirrorSourceConnector of {left.alias}" in capsys.readouterr().err


def test_mirrors_of_a_running_link_are_not_taken_over(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Left(cluster_pair, tmp_path, at_source=40)
    left.write_target(range(10))
    left.commit(5)
    with RunningLink(left.config) as link, pytest.MonkeyPatch.context() as patched:
        wait_for("the link to run", lambda: "no row of it as a mirror" in link.text())
        patched.setattr("heliostat.state.claimed.OWNER_SLACK_S", 1.0)
        assert left.adopt("--yes") == 1
        assert "driven by another instance" in capsys.readouterr().err
    assert left.at_target() == values(range(10))


def test_mirrors_of_another_link_are_refused_until_it_releases_them(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a link that took over / when another one tries, too / then only after the release."""
    left = Left(cluster_pair, tmp_path, at_source=60)
    left.write_target(range(30))
    left.commit(20)
    other_link = ["adopt", "-c", str(left.of_another_link()), "--alias", left.alias]
    assert run([*other_link, "--yes"]) == 0
    capsys.readouterr()

    name = yaml.safe_load(left.config.with_name("rival.yaml").read_text())["links"][0]["name"]
    for words in (["--dry-run"], ["--yes"]):
        assert left.adopt(*words, "--json") == 1
        (topic,) = json.loads(capsys.readouterr().out)["topics"]
        assert f"mirror of link {name}" in topic["refused"]
        assert topic["partitions"] == []
    assert left.remembered() == {}

    assert run([*other_link, "--back", "--yes"]) == 0
    capsys.readouterr()
    assert left.adopt("--yes", "--json") == 0
    assert found_by(capsys)["verdict"] == "exact"
    left.runs_until(60)
    assert left.at_target() == values(range(60))
    assert run([*other_link, "--yes", "--json"]) == 1  # and it is as well kept from the other one
    assert "is a mirror of link" in capsys.readouterr().out


def test_of_two_concurrent_takeovers_at_least_one_backs_off(
    cluster_pair: ClusterPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a confirmed plan / when another link takes over meanwhile / then that one has it."""
    left = Left(cluster_pair, tmp_path, at_source=40)
    left.write_target(range(30))
    left.commit(20)
    other_link = left.of_another_link()
    config = load_config(left.config)

    def meanwhile(_: object) -> bool:
        return run(["adopt", "-c", str(other_link), "--alias", left.alias, "--yes"]) == 0

    with pytest.raises(Refused, match="another link took over at the same time"):
        adopt(config, config.links[0], peer_of(config.links[0], alias=left.alias), meanwhile)
    assert left.remembered() == {}
    assert run(["adopt", "-c", str(other_link), "--alias", left.alias, "--back", "--yes"]) == 0
    capsys.readouterr()
    assert left.adopt("--yes") == 0
