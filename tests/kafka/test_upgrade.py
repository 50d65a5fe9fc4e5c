"""A link goes on from what 0.1.0 left when it was killed, on real brokers.

Sources and mirrors are made as they were then, and the link's own topics get the rows of
`tests/unit/state/rows_of_0.1.0.jsonl`, with the ids of these topics and clusters.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, until
from support.command import heliostat, said
from support.holes import read
from support.links import RunningLink, ends
from support.records import write_batches, write_marked
from support.tools import load_tool

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.config import load_config
from heliostat.gaps.ledger import gaps_topic
from heliostat.groups.published import groups_topic
from heliostat.names import LinkName, TopicName
from heliostat.records.transport.single_batches import each_batch
from heliostat.state.link_state import LinkState
from heliostat.state.row_format import FORMAT, FORMAT_KEY
from heliostat.state_topics import offsets_topic, state_topic, wishes_topic
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

KEPT = Path(__file__).parents[1] / "unit" / "state" / "rows_of_0.1.0.jsonl"
earlier = load_tool("earlier_rows")
LINK: LinkName = earlier.LINK
TOPICS: dict[TopicName, int] = earlier.TOPICS
PLAIN, MAPPED, EXPIRED, PAUSED = TOPICS
MARKED_AT_MS = 1_795_907_316_931
"""Time of the records of the mapped mirror."""
LATER = {"format": FORMAT + 1, "version": "0.9.0"}


def make_sources(source: Cluster) -> None:
    """Make the topics as they were when 0.1.0 died."""
    earlier.create_topics(source)
    earlier.write_first(source, MARKED_AT_MS)
    earlier.write_while_stopped(source)
    earlier.write_last(source)


def make_mirrors(target: Cluster, rows: list[dict[str, Any]]) -> None:
    """Make the mirrors of the batches that 0.1.0 had appended."""
    earlier.create_topics(target)
    for row in rows:
        if "mirror" in row:
            # Brokers take no other base offset in a request; no checksum covers it.
            batches = [bytes(8) + data[8:] for data in each_batch(base64.b64decode(row["batches"]))]
            write_batches(target.bootstrap, row["mirror"], batches, partition=row["partition"])


def ids_of(cluster: Cluster, *topics: TopicName) -> Iterator[str]:
    """Return the id of a cluster, and of topics there."""
    with ClusterAdmin(cluster.bootstrap) as admin:
        described = admin.describe_topics(topics)
        yield str(admin.cluster_id())
        yield from (str(described[topic].topic_id) for topic in topics)


def ids_in(rows: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the ids that the rows name, in the order of `ids_of`: the source's, the target's."""
    values = {row["key"]: row["value"] for row in rows if row.get("topic") == state_topic(LINK)}
    mirrors = [json.loads(values[f"mirror/{topic}"]) for topic in TOPICS]
    return (
        [mirrors[0]["source_cluster"], *(mirror["source_id"] for mirror in mirrors)],
        [*(mirror["target_id"] for mirror in mirrors), json.loads(values["maps"])["topic_id"]],
    )


def write_rows(pair: ClusterPair, rows: list[dict[str, Any]]) -> None:
    """Write the rows into the link's own topics, with the ids of today's topics."""
    sources, targets = ids_in(rows)
    maps = TopicName(offsets_topic(LINK))
    _, *here = ids_of(pair.target, *TOPICS, maps)
    ids = dict(zip((*sources, *targets), (*ids_of(pair.source, *TOPICS), *here), strict=True))

    def content(shown: str | dict[str, str] | None) -> bytes | None:
        if isinstance(shown, dict):
            return base64.b64decode(shown["base64"])
        for earlier, now in ids.items():
            shown = shown and shown.replace(earlier, now)
        return None if shown is None else shown.encode()

    own = (row for row in rows if "topic" in row)
    for name, some in groupby(own, lambda row: str(row["topic"])):
        with closing(ByteTopic(pair.target.bootstrap, TopicName(name), "test")) as topic:
            topic.write(
                ByteRecord(content(row["key"]), content(row["value"]), row["timestamp_ms"])
                for row in some
            )


@pytest.fixture
def config(cluster_pair: ClusterPair, tmp_path: Path) -> Path:
    """Leave both sides as 0.1.0 did, and return the configuration that it had."""
    rows = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]
    source, target = cluster_pair.source, cluster_pair.target
    made: Path = earlier.config_for(tmp_path, source, target)
    make_sources(source)
    make_mirrors(target, rows)
    with closing(state_in(made)) as state:
        others = (gaps_topic(LINK), groups_topic(LINK), wishes_topic(LINK))
        state.ensure(None, *map(TopicName, others))
    write_rows(cluster_pair, rows)
    return made


def state_in(config: Path) -> LinkState:
    loaded = load_config(config)
    (link,) = loaded.links
    return LinkState(link, loaded.clusters[link.target])


def write_more(source: Cluster) -> None:
    """Write more into each source."""
    for number in range(TOPICS[PLAIN]):
        write_batches(source.bootstrap, PLAIN, [earlier.batch(range(60, 80))], partition=number)
    write_marked(source.bootstrap, MAPPED, 5)
    write_batches(source.bootstrap, EXPIRED, [earlier.batch(range(200, 220))])


def refuses_later_rows(pair: ClusterPair, config: Path) -> None:
    """Assert that rows of a later format are refused with a sentence, and nothing is written."""
    topic = state_topic(LINK)
    with KeyedTopic(pair.target.bootstrap.split(","), topic) as rows:
        rows.write(FORMAT_KEY, LATER)
        before = ends(pair.target.bootstrap, {**TOPICS, topic: 1})
        with RunningLink(config) as link:
            sentence = f"the link's rows are of Heliostat 0.9.0, in format {FORMAT + 1}"
            until(lambda: sentence in link.text(), link.text)
        assert "install 0.9.0 or later here, too" in link.text()
        assert ends(pair.target.bootstrap, {**TOPICS, topic: 1}) == before
        rows.write(FORMAT_KEY, None)
        rows.write("later/thing", {"is": "unknown"})
    with KeyedTopic(pair.target.bootstrap.split(","), wishes_topic(LINK)) as wishes:
        wishes.write("later/wish", {"is": "unknown"})


def values(bootstrap: str, topic: str) -> list[int]:
    """Return the numbers that readers of partition 0 see."""
    return [int(row[2] or b"") for row in read(bootstrap, topic, "read_committed")]


def test_this_version_goes_on_where_0_1_0_was_killed(
    cluster_pair: ClusterPair, config: Path
) -> None:
    """Given the rows of 0.1.0, and later ones first / then each record is there once, and told."""
    target = cluster_pair.target.bootstrap
    with closing(state_in(config)) as state:
        left = state.read()
    write_more(cluster_pair.source)
    refuses_later_rows(cluster_pair, config)

    with RunningLink(config) as link:
        wanted = {PLAIN: [80] * 3, MAPPED: [25], EXPIRED: [200], PAUSED: [100]}
        until(lambda: ends(target, TOPICS) == wanted, link.text)
        assert "with key later/wish: it is ignored" in link.text()
        until(lambda: said(config, "status")[0]["paused_count"] == 1, link.text)
        resumed = heliostat(config, "resume", LINK, "--topic", PAUSED)
        assert resumed.returncode == 0, resumed.said
        until(lambda: ends(target, TOPICS) == {**wanted, PAUSED: [200]}, link.text)

        def is_clean() -> bool:
            (status,) = said(config, "status")
            return bool(status["states"] == {"copying": 6} and not status["problems"])

        until(is_clean, lambda: str(said(config, "status")))
        verified = heliostat(config, "verify", "--json", "--master", "local[2]")
        with closing(state_in(config)) as state:
            now = state.read()
        assert link.stop() == 0, link.text()

    assert verified.returncode == 0, verified.said
    answer = verified.json
    counts = {name: answer[name] for name in ("lost", "doubled", "reordered", "different")}
    assert counts == dict.fromkeys(counts, 0), answer
    assert values(target, PLAIN) == [*range(80)]
    assert values(target, MAPPED) == [*range(20), *range(5)]
    assert values(target, EXPIRED) == [*range(100), *range(120, 220)]
    assert values(target, PAUSED) == [*range(200)]
    (gap,) = said(config, "gaps")[0]["rows"]
    assert (gap["topic"], gap["first"], gap["count"]) == (EXPIRED, 100, 20)
    assert (now.producer_id, now.mirrors) == (left.producer_id, left.mirrors)
    assert left.owner is not None
    assert now.owner is not None
    assert (left.owner.claim, now.owner.claim) == (2, 3)
