"""Offsets of a real mirror: translated on the command line, and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cleaning import Seen, read_committed
from support.clusters import ClusterPair, fresh_name
from support.command import heliostat
from support.links import RunningLink, wait_for, write_config
from support.planted import Planter, Record

from heliostat.cli.main import run

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


def records(count: int, name: str) -> list[Record]:
    return [(1_700_000_000_000 + n, b"%d" % n, name.encode(), []) for n in range(count)]


@pytest.fixture(scope="module")
def mirrored(
    cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str, list[Seen]]:
    """A transactional topic that a link has copied and then stopped; what its readers see."""
    topic = fresh_name("offsets")
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    with Planter(source) as planter:
        planter.topic(topic)
        planter.write(topic, records(30, "plain"), batch_records=7)
        planter.write_transaction(topic, records(40, "committed"), commit=True)
        planter.write(topic, records(10, "plain"))
        planter.write_transaction(topic, records(20, "aborted"), commit=False)
        planter.write(topic, records(15, "plain"))
        planter.write_transaction(topic, records(5, "committed"), commit=True)
    seen = read_committed(source, topic)
    assert len(seen) == 100
    assert seen[-1][0] == 121  # and the last marker after it
    folder = tmp_path_factory.mktemp("offsets")
    config = write_config(folder, source, target, topics={"include": [topic]})

    def is_passed() -> bool:
        return run(["offsets", "translate", "-c", str(config), topic, "0", "123"]) == 0

    with RunningLink(config) as link:
        try:
            wait_for("the link has passed the last marker", is_passed)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{link.text()[-4000:]}") from None
        assert link.stop() == 0
    assert [row[1:] for row in read_committed(target, topic)] == [row[1:] for row in seen]
    return config, topic, seen


def asked(config: Path, *options: str, questions: str = "", code: int = 0) -> tuple[Any, str]:
    """Return the JSON answers of the program, and its other output."""
    answer = heliostat(config, "offsets", *options, "--json", questions=questions)
    assert answer.returncode == code, answer
    return answer.json, answer.stderr


def test_each_record_is_found_from_both_sides(mirrored: tuple[Path, str, list[Seen]]) -> None:
    config, topic, seen = mirrored
    questions = "".join(f"{topic} 0 {row[0]}\n" for row in seen)
    answers, said = asked(config, "translate", "--file", "-", questions=questions)
    assert [one["to_offset"] for one in answers] == list(range(100))
    assert all(one["exact"] for one in answers)
    assert said == ""
    questions = "".join(f"{topic} 0 {target}\n" for target in range(100))
    answers, _ = asked(config, "translate", "--to", "source", "-f", "-", questions=questions)
    assert [one["to_offset"] for one in answers] == [row[0] for row in seen]


def test_offsets_without_a_record_are_explained(mirrored: tuple[Path, str, list[Seen]]) -> None:
    """A marker, an aborted record, the last marker, one not copied yet, one beyond both logs."""
    config, topic, _ = mirrored
    questions = (
        f"{topic} 0 70\n{topic} 0 90\n{topic} 0 123\n{topic} 0 124\nelsewhere 0 1\n{topic} 9 1"
    )
    answers, _ = asked(config, "translate", "-f", "-", questions=questions, code=1)
    assert [(one["to_offset"], one["why"]) for one in answers] == [
        (70, "hole"),
        (80, "hole"),
        (100, "hole"),
        (None, "beyond"),
        (None, "no_such_topic"),
        (None, "no_such_partition"),
    ]


def test_the_target_alone_answers(
    mirrored: tuple[Path, str, list[Seen]], tmp_path: Path, cluster_pair: ClusterPair
) -> None:
    """As on the day on which the source is lost."""
    _, topic, seen = mirrored
    config = write_config(
        tmp_path, "127.0.0.1:9", cluster_pair.target.bootstrap, topics={"include": [topic]}
    )
    [answer], said = asked(config, "translate", topic, "0", str(seen[77][0]))
    assert (answer["to_offset"], answer["exact"]) == (77, True)
    assert "east does not answer" in said


def test_the_map_is_shown_and_verified(mirrored: tuple[Path, str, list[Seen]]) -> None:
    config, topic, _ = mirrored
    [row], _ = asked(config, "show", topic, "0")
    assert (row["kind"], row["extents"], row["target_end"]) == ("mapped", 3, 100)
    assert row["extent_list"] == [[0, 0, 70], [71, 70, 10], [102, 80, 20]]
    assert 0 < row["map_bytes"] < 20
    answer = heliostat(config, "verify", "--json")
    assert answer.returncode == 0, answer
    told = answer.json
    assert (told["records"], told["mapped_partitions"], told["offsets_equal"]) == (100, 1, True)
    assert told["not_copied_yet"] == 0  # only a marker follows the last record
