"""Lost maps and lost state of a mirror with a pipeline, rebuilt from its source through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, until
from support.command import heliostat, said
from support.links import RunningLink
from support.piped import Piped

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import LinkName, TopicName
from heliostat.rebuild import state as state_rebuild
from heliostat.state_topics import STATE_TOPIC_PREFIX, offsets_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

STEPS: list[dict[str, Any]] = [
    {"drop_tombstones": True},
    {"drop_headers": ["secret"]},
    {"json_fields": {"drop": ["secret"]}},
]


class Numbered:
    """A topic whose pipeline drops some records, and what its mirror must have."""

    def __init__(self, piped: Piped) -> None:
        self.piped = piped
        self.expected: list[bytes | None] = []
        self.numbers = iter(range(1_000))

    def write(self) -> None:
        """Some more, of which no two are alike."""
        values: list[bytes | None] = [None]
        for number in (next(self.numbers), next(self.numbers)):
            values.append(b'{"n":%d,"secret":"s"}' % number)
            self.expected.append(b'{"n":%d}' % number)
        self.piped.write(*values, None)

    def wait(self) -> None:
        """Until the mirror has all of it, and nothing else."""
        piped = self.piped
        until(lambda: len(piped.values()) >= len(self.expected), lambda: f"{piped.values()}")
        assert piped.values() == self.expected


def lose(piped: Piped, topic: str) -> None:
    with ClusterAdmin([piped.pair.target.bootstrap]) as admin:
        assert admin.delete_topics([TopicName(topic)]) == {topic: None}
        until(lambda: topic not in admin.describe_topics(), "the topic to be gone")


def test_a_mirror_with_a_pipeline_continues_after_its_map_and_its_state_were_rebuilt(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a mirror that lacks what its pipeline drops / when its offset map is lost, then its

    link's state / then it stops until each is rebuilt from the source's records, through the
    pipeline, and continues with each record once; with another pipeline it is refused.
    """
    piped = Piped(cluster_pair, tmp_path, *STEPS)
    settings = yaml.safe_load(piped.config.read_text())
    link = LinkName(settings["links"][0]["name"])
    records = Numbered(piped)
    for _ in range(3):
        records.write()
    with RunningLink(piped.config) as running:
        records.wait()
        lose(piped, offsets_topic(link))
        until(lambda: bool(piped.problems()), "the stop", timeout_s=60)
        assert {each["code"] for each in piped.problems()} == {"OFFSET_MAP_LOST"}
        (found,) = said(piped.config, "offsets", "rebuild")
        assert (found["why_not"], found["records"]) == ("", len(records.expected))
        assert found["extents"] > 1
        records.write()
        records.wait()
        assert not running.has_ended

    monkeypatch.setattr(state_rebuild, "HEAR_S", 0.5)  # no driver reports any more
    records.write()
    lose(piped, f"{STATE_TOPIC_PREFIX}{link}.state")
    rebuild = ("state", "rebuild", link, "--topics", f"{piped.topic}|{piped.plain.topic}", "--yes")
    settings["links"][0]["pipelines"][0]["steps"] = STEPS[:2]
    changed = tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump(settings))
    answer = heliostat(changed, *rebuild, "--json")
    assert answer.returncode == 1, answer.said
    parts = {one["source"]: one["partitions"] for one in answer.json["topics"]}
    assert (parts[piped.topic][0]["verdict"], parts[piped.topic][0]["differs_at"]) == ("refused", 0)
    answer = heliostat(piped.config, *rebuild, "--json")
    assert answer.returncode == 0, answer.said
    parts = {one["source"]: one["partitions"] for one in answer.json["topics"]}
    assert parts[piped.topic][0]["verdict"] == "mapped"
    with RunningLink(piped.config):
        records.wait()
        records.write()
        records.wait()
