"""When a record was copied: by reports to the second, by the history to the minute, or before."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.links import RunningLink, ends, looking_at, wait_for, write_config
from support.records import Sample, encode, write_batches

from heliostat.clusters.past_records import PastRecords
from heliostat.config import load_config
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.state_topics import history_topic, progress_topic
from heliostat.status.history_positions import POSITIONS_KEY, PositionMinutes

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PLANTED = {600: 3, 400: 10, 399: 20, 240: 20, 30: 30}
"""How far the partition was copied so many minutes ago."""


def write(bootstrap: str, topic: str, count: int) -> None:
    now_ms = int(time.time() * 1000)
    write_batches(bootstrap, topic, [encode([Sample(b"k", b"v", now_ms)] * count)])


@pytest.mark.usefixtures("spark")
def test_when_a_record_was_copied_is_told_as_exactly_as_it_is_known(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a record that was copied just now / then its second; when the reports are gone and the

    history tells of the last ten hours / then the minute, and of what is older: before it.
    """
    pair, name = cluster_pair, fresh_name("link")
    topic, bootstrap = create_topic(pair.source), pair.target.bootstrap
    config = write_config(
        tmp_path,
        pair.source.bootstrap,
        bootstrap,
        name=name,
        topics={"include": [topic], "refresh_interval_s": 1},
    )

    def explained(offset: int) -> dict[str, Any]:
        answer = heliostat(config, "explain", name, f"{topic}-0@{offset}", "--json")
        assert answer.returncode == 0, answer.said
        return dict(answer.json)

    def copied(count: int) -> None:
        wait_for("the copy", lambda: ends(bootstrap, {topic: 1}) == {topic: [count]})

    write(pair.source.bootstrap, topic, 29)
    with RunningLink(config) as link:
        copied(29)
        time.sleep(3)  # its lane reports that it stands there
        began_s = time.time()
        write(pair.source.bootstrap, topic, 1)
        copied(30)
        copied_s = time.time()
        just = wait_for("its time", lambda: _timed(explained(29)))
        assert link.stop() == 0
    assert just["from_ms"] <= copied_s * 1000
    assert began_s * 1000 <= just["to_ms"] <= copied_s * 1000 + 10_000
    assert just["to_ms"] - just["from_ms"] <= 10_000

    _empty(bootstrap, progress_topic(LinkName(name)))
    _empty(bootstrap, history_topic(LinkName(name)))
    never = explained(5)
    assert never["landing"]["from_ms"] is None
    assert "some time before" in never["answer"], "neither tells it"
    now_s = int(time.time()) // 60 * 60
    _plant(config, name, topic, now_s)
    assert f"some time before {_time(now_s, 600)}" in explained(2)["answer"]
    assert f"since about {_time(now_s, 399)[:-4]}Z" in explained(15)["answer"]
    day = explained(7)
    assert day["landing"]["to_ms"] == (now_s - 400 * 60) * 1000
    between = f"between {_time(now_s - 10, 600)[:-4]}Z and {_time(now_s, 400)[:-4]}Z"
    assert between in day["answer"], "hours lie between these minutes: it says so"
    assert _time(now_s, 30)[:-4] in explained(29)["answer"]


def _timed(answer: dict[str, Any]) -> dict[str, Any] | None:
    landing: dict[str, Any] = answer["landing"]
    return None if landing["from_ms"] is None else landing


def _time(now_s: int, minutes_ago: int) -> str:
    at = datetime.fromtimestamp(now_s - minutes_ago * 60, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def _empty(bootstrap: str, topic: str) -> None:
    """Delete all its records, as retention does."""
    only = TopicPartition(TopicName(topic), PartitionId(0))
    (end,) = ends(bootstrap, {topic: 1})[topic]
    looking_at(bootstrap, lambda admin: admin.delete_records({only: Offset(end)}))


def _plant(config: Path, name: str, topic: str, now_s: int) -> None:
    """Write the positions of a day as an owner does."""
    loaded, minutes = load_config(config), PositionMinutes()
    place = TopicPartition(TopicName(topic), PartitionId(0))
    target = loaded.clusters[loaded.links[0].target].access()
    with closing(PastRecords(target, history_topic(LinkName(name)), "test")) as records:
        for minutes_ago, position in PLANTED.items():
            value = minutes.take({place: position}, (now_s - minutes_ago * 60) * 1000)
            assert value is not None
            records.append([(POSITIONS_KEY, value)])
