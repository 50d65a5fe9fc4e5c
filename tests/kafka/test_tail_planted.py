"""Tails by content, on logs written as they stand after a failover: no link has to run.

The target has what was copied; the source has lost some of it in an unclean election, and put
others at these offsets.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.avro_clients import AvroReader, AvroWriter
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import Answer, heliostat
from support.holes import read
from support.links import ends, write_config
from support.records import Sample, encode, write_batches
from support.toy import JOHN, foo

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.handover.promotion import (
    LeaderEpoch,
    MirrorEnds,
    PartitionPromotion,
    PromotedBy,
    Promotion,
)
from heliostat.names import Alias, LinkName, Offset, PartitionId, TopicName
from heliostat.rescue import source_rest
from heliostat.wishes.wish_book import WishBook
from heliostat_sandbox import SandboxRegistry

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


class Planted:
    """A topic at both sides, and a row that says where its mirror ended."""

    def __init__(self, pair: ClusterPair, folder: Path, **link: Any) -> None:
        self.pair = pair
        self.link = LinkName(fresh_name("link"))
        self.topic = create_topic(pair.source, fresh_name("topic"))
        create_topic(pair.target, self.topic)
        self.config = write_config(
            folder, pair.source.bootstrap, pair.target.bootstrap, name=self.link, **link
        )
        self.now_ms = int(time.time() * 1000)

    def write(self, bootstrap: str, values: Sequence[str]) -> None:
        self.write_bytes(bootstrap, [value.encode() for value in values])

    def write_bytes(self, bootstrap: str, values: Sequence[bytes]) -> None:
        samples = [Sample(b"k", value, self.now_ms) for value in values]
        write_batches([bootstrap], self.topic, [encode(samples)])

    def promote(self) -> None:
        """Say that the mirror ended where the target ends now."""
        (end,) = ends(self.pair.target.bootstrap, {self.topic: 1})[self.topic]
        sides: list[tuple[Any, Any]] = []
        for cluster in (self.pair.source, self.pair.target):
            with ClusterAdmin([cluster.bootstrap]) as admin:
                topic = admin.describe_topics([self.topic])[self.topic]
                sides.append((admin.cluster_id(), topic.topic_id))
        (source, source_id), (target, target_id) = sides
        part = PartitionPromotion(Offset(end), Offset(end), LeaderEpoch(0, Offset(end)))
        parts = {PartitionId(0): part}
        mirror = MirrorEnds(self.topic, source, target, source_id, target_id, parts)
        promotion = Promotion(self.topic, PromotedBy.FAILOVER, "ann", 1, "", mirror)
        west = load_config(self.config).clusters[Alias("west")]
        with closing(WishBook(self.link, west.access())) as book:
            book.write([promotion])

    def say(self, *words: str) -> Answer:
        answer = heliostat(self.config, *words)
        assert answer.returncode in {0, 1}, answer.said
        return answer

    def at_target(self, topic: str = "") -> list[Any]:
        return read(self.pair.target.bootstrap, topic or self.topic, "read_uncommitted")


@pytest.fixture
def planted(cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    monkeypatch.setattr(source_rest, "STANDS_STILL_S", 0.5)
    return Planted(cluster_pair, tmp_path)


def test_what_an_unclean_election_put_at_copied_offsets_is_a_tail(planted: Planted) -> None:
    """Given a source that lost 20 copied records and took 40 others / when its tail is rescued /

    then it begins at the first other record; the target keeps both, each once.
    """
    common = [f"c{n}" for n in range(100)]
    planted.write(planted.pair.target.bootstrap, [*common, *(f"lost{n}" for n in range(20))])
    planted.write(planted.pair.source.bootstrap, common)
    planted.write(planted.pair.source.bootstrap, [f"other{n}" for n in range(40)])
    planted.promote()
    planted.write(planted.pair.target.bootstrap, ["new"])

    (row,) = planted.say("tail", "show", planted.link, "--json").json["rows"]
    assert (row["records"], row["first"], row["last"]) == (40, 100, 139)
    assert row["lost_at_source"] == 20
    tried = planted.say("tail", "append", planted.link, "--dry-run", "--json").json
    assert (tried["appended"], tried["is_tried"]) == (40, True)
    assert len(planted.at_target()) == 121
    for expected in (40, 0):  # the second time there is nothing to do
        done = planted.say("tail", "append", planted.link, "--yes", "--json").json
        assert done["appended"] == expected
    values = [row[2] for row in planted.at_target()]
    assert values[121:] == [b"other%d" % n for n in range(40)]
    assert planted.say("tail", "show", planted.link).returncode == 0


def test_a_tail_and_a_range_go_into_a_topic_and_files(planted: Planted, tmp_path: Path) -> None:
    """Given a topic that is no mirror / when a tail goes there twice / then each record is there

    once; any range of any topic goes into files; a mirror's own topic is refused.
    """
    planted.write(planted.pair.target.bootstrap, ["a", "b"])
    planted.write(planted.pair.source.bootstrap, ["a", "b", "c", "d"])
    planted.promote()
    kept = TopicName(create_topic(planted.pair.target, fresh_name("kept")))
    for expected in (2, 0):
        words = ("tail", "export", planted.link, "--to-topic", kept, "--yes", "--json")
        assert planted.say(*words).json["exported"] == expected
    assert [row[2] for row in planted.at_target(kept)] == [b"c", b"d"]
    files = tmp_path / "files"
    words = ("export", planted.topic, "--cluster", "east", "--from", "1", "--to", "3")
    assert planted.say(*words, "--parquet", str(files), "--json").json["records"] == 2
    (file,) = files.rglob("*.parquet")
    assert pq.read_table(file)["value"].to_pylist() == [b"b", b"c"]
    refused = planted.say("export", planted.topic, "--cluster", "west", "--to-topic", planted.topic)
    assert refused.returncode == 1
    assert "can't be written" in refused.said


def test_a_topic_that_was_not_given_away_has_no_tail(planted: Planted) -> None:
    """Given a link that gave nothing away, or a topic made anew / when asked / then it says so."""
    answer = planted.say("tail", "show", planted.link)
    assert (answer.returncode, "was given away" in answer.said) == (1, True)
    planted.promote()
    answer = planted.say("tail", "show", planted.link, "--topic", "nothing")
    assert "has given away no mirror of nothing" in answer.said
    with ClusterAdmin([planted.pair.source.bootstrap]) as admin:
        admin.delete_topics([planted.topic])
    create_topic(planted.pair.source, planted.topic)
    shown = planted.say("tail", "show", planted.link, "--json")
    assert (shown.returncode, list(shown.json["why_not"])) == (1, [planted.topic])
    refused = planted.say("tail", "append", planted.link, "--yes")
    assert "was deleted and created again at the source" in refused.said


def test_records_whose_schema_id_means_something_else_at_the_target_are_kept_out(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given registries of which the target's has ids of the tail for other schemas, one of them

    another team's, and one not at all / when the tail is appended / then these records are refused,
    and in files, as they were; all others come, and each record of the new primary is what was
    written.
    """
    monkeypatch.setattr(source_rest, "STANDS_STILL_S", 0.5)
    with SandboxRegistry.start() as east, SandboxRegistry.start() as west:
        urls = (east.url, west.url)
        schemas = {"strategy": "rewrite"}
        planted = Planted(cluster_pair, tmp_path, registries=urls, schemas=schemas)
        source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
        fields = ("second", "third", "fourth")
        texts = [foo(planted.topic, *fields[:number]) for number in range(4)]

        def encoded(url: str, text: str, topic: str = planted.topic) -> bytes:
            with AvroWriter(source, url, text) as writer:
                return writer.encode(topic, JOHN)[0]

        first, *later = (encoded(east.url, text) for text in texts)
        assert encoded(west.url, texts[0]) == first
        others = encoded(west.url, foo("another team's"), fresh_name("other"))
        assert others[:5] == later[0][:5]
        renumbered = encoded(west.url, texts[1])
        assert renumbered[:5] == later[1][:5]
        planted.write_bytes(source, [first, later[0]])
        planted.write_bytes(target, [first, renumbered])
        planted.promote()
        planted.write_bytes(source, [first, *later, first])
        words = ("tail", "append", planted.link, "--yes", "--json")
        assert "some may not be appended" in planted.say(*words).said
        assert len(planted.at_target()) == 2
        folder = tmp_path / "refused"
        done = planted.say(*words, "--refused-to-parquet", str(folder)).json
        assert done["appended"] == 2
        assert sum(done["refused"].values()) == 3
        assert all("of a schema" in why for why in done["refused"]), done["refused"]
        (file,) = folder.rglob("*.parquet")
        assert pq.read_table(file)["value"].to_pylist() == later
        with AvroReader(target, west.url, planted.topic) as reader:
            reader.wait([JOHN, {**JOHN, "second": ""}, JOHN, JOHN])
