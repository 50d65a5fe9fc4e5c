"""More pipelines than Spark runs at once: they take turns, and each topic is copied."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.clusters import ClusterPair, until
from support.command import said
from support.links import RunningLink
from support.piped import Topic, write_link
from support.spark import CORES

from heliostat.link import places

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


def test_more_pipelines_than_places_all_copy(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given three pipelines whose records are rows, and two places / when the link runs / then each

    topic is copied, also what comes later, and plan and log say that lanes take turns.
    """
    monkeypatch.setattr(places, "TURN_S", 5.0)
    topics = [Topic(cluster_pair, f"turn-{number}") for number in range(3)]
    path = write_link(
        tmp_path,
        *topics,
        # A filter behind a change shares no lane.
        pipelines=[
            each.pipeline({"set": {"key": "key"}}, {"where": "value != X'00'"}) for each in topics
        ],
    )
    config = yaml.safe_load(path.read_text())
    config["spark"] = {"master": f"local[{CORES}]", "task_cpus": CORES / 2}
    path.write_text(yaml.safe_dump(config))
    assert any(places.WHAT_TO_DO in note for each in said(path, "plan") for note in each["notes"])
    for each in topics:
        each.write(b"first", b"\x00")
    with RunningLink(path) as link:

        def copied(*values: bytes) -> bool:
            return all(each.values() == list(values) for each in topics)

        until(lambda: copied(b"first"), link.text, timeout_s=180)
        for each in topics:
            each.write(b"later")
        until(lambda: copied(b"first", b"later"), link.text, timeout_s=180)
        assert "lanes take turns: Spark runs 2 lanes at once, and there are" in link.text()
        assert "its job is cancelled" not in link.text()
