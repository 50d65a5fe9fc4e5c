"""What a drill's desk is made of: its links, its counting, and what of a cluster is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.clusters.steady_clients import number_of, numbered
from heliostat.config import ConfigFile, read_config_file
from heliostat.handover.drill import DrillNote, DrillWish, Way, new_note
from heliostat.names import LinkName, TopicName, TopicPartition
from heliostat.operate.drilling import load as load_module
from heliostat.operate.drilling.cleaning import owned
from heliostat.operate.drilling.drill_links import drill_config, not_rehearsed
from heliostat.operate.drilling.load import Load, partitions_of
from heliostat.topics.select import selection_of

DRAWN = "0a1b2c3d"


def written(folder: Path, **link: Any) -> ConfigFile:
    path = folder / "heliostat.yaml"
    east = {
        "bootstrap": ["e:1"],
        "security": {
            "protocol": "SASL_SSL",
            "mechanism": "SCRAM-SHA-512",
            "username": "mirror",
            "password": {"env": "SECRET"},
        },
    }
    content = {
        "clusters": {"east": east, "west": {"bootstrap": ["w:1"]}, "home": {"bootstrap": ["h:1"]}},
        "service": {"home": "home"},
        "spark": {"master": "local[3]"},
        "defaults": {"lanes": {"lease_s": 7}},
        "links": [{"name": "one", "source": "east", "target": "west", **link}],
    }
    path.write_text(yaml.safe_dump(content))
    return read_config_file(path)


def note_of(partitions: int = 12) -> DrillNote:
    return new_note(LinkName("one"), DrillWish(partitions=partitions), DRAWN, 1)


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_drill_has_the_clusters_and_settings_of_its_link(
    tmp_path: Path, *, is_synced: bool
) -> None:
    file = written(
        tmp_path,
        topics={"include": [".*"], "naming": {"prefix": "east."}, "protect": True},
        groups={"sync": is_synced, "interval_s": 60},
        state={"replication_factor": 2},
    )
    [real] = file.config.links
    note = note_of()
    config, text = drill_config(file, real, note)
    again = tmp_path / "drill.yaml"
    again.write_text(text)
    assert read_config_file(again).config == config
    assert config.service.home is None
    assert config.clusters.keys() == {"east", "west"}
    assert config.clusters["east"] == file.config.clusters["east"]
    there, back = (config.link(note.links[way]) for way in Way)
    assert (there.source, there.target) == (back.target, back.source) == ("east", "west")
    for link in (there, back):
        assert (link.lanes.lease_s, link.state.replication_factor) == (7, 2)
        assert link.topics.protect
        assert link.groups.sync is is_synced
        assert set(selection_of(link).choose([*note.topics, TopicName("a")])) == set(note.topics)
    assert not selection_of(real).choose(note.topics)
    assert ("groups are not rehearsed: groups.sync is off" in not_rehearsed(real)) != is_synced


def test_only_a_drills_own_topics_are_removed() -> None:
    note = note_of(20)
    state = f"heliostat.{note.links[Way.BACK]}.state"
    theirs = [
        "orders",
        "drill-one",
        f"{note.links[Way.THERE]}-of-somebody",
        f"x{next(iter(note.topics))}",
        "heliostat.one.state",
        f"heliostat.{note.links[Way.THERE]}x.state",
    ]
    topics = [TopicName(name) for name in (*note.topics, state, *theirs)]
    assert set(owned(note, topics)) == {*note.topics, TopicName(state)}


def test_what_is_lost_doubled_strange_and_disordered_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = note_of(4)
    load = Load(note, 1)
    logs: dict[TopicPartition, list[int]] = {}
    for partition in partitions_of(note):
        for _ in range(3):
            load.written.note(partition, load.written.take(partition), is_accepted=True)
        load.written.note(partition, load.written.take(partition), is_accepted=False)
        logs[partition] = [0, 1, 2]
    monkeypatch.setattr(load_module, "numbers_at", lambda *_: logs)

    def figures() -> list[int]:
        checks = load.record_checks("x:1", "west")
        return [check.actual for check in checks]

    assert figures() == [0, 0, 0, 0]
    first, second, third, fourth = partitions_of(note)
    logs[first], logs[second] = [0, 1, 2, 3], [0, 2]
    logs[third], logs[fourth] = [0, 0, 1, 2, -1], [0, 2, 1]
    assert figures() == [1, 1, 1, 2]  # a record that was not acknowledged may be there


@pytest.mark.parametrize("number", [0, 7, 123456])
def test_a_record_has_its_number(number: int) -> None:
    assert number_of(numbered(number)) == number
    assert number_of(b"a record") == number_of(None) == number_of(b"") == -1
