"""State topics that are gone: mirrors are refused until `heliostat state rebuild` has proved them.

Exact, mapped and filled mirrors, and one with foreign records; afterwards every record of
both sides is compared.
"""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import Answer, heliostat, said
from support.holes import read, transactions
from support.links import RunningLink, write_config
from support.provoked import Provoked
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.errors import ConnectionLost
from heliostat.names import LinkName, TopicName
from heliostat.rebuild import state as state_rebuild
from heliostat.state.link_state import LinkState
from heliostat.state_topics import state_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LEASE_S = 4


class Mirrors:
    """Two links of one file: one that maps what has holes, and one that fills them."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.pair = pair
        self.rng = random.Random(11)
        self.numbers = iter(range(10**6))
        self.exact, self.mapped, self.filled, self.foreign, self.idle = (
            create_topic(pair.source, fresh_name(name))
            for name in ("exact", "mapped", "filled", "foreign", "idle")
        )
        self.maps, self.fills = fresh_name("maps"), fresh_name("fills")
        self.of_maps = (self.exact, self.mapped, self.foreign, self.idle)
        common: dict[str, Any] = {"refresh_interval_s": 0.5}
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=self.maps,
            topics={"include": [*self.of_maps], "start": "latest", **common},
            lanes={"lease_s": LEASE_S},
        )
        settings = yaml.safe_load(self.config.read_text())
        (first,) = settings["links"]
        topics = {"include": [self.filled], "offsets": "exact", **common}
        settings["links"] = [first, {**first, "name": self.fills, "topics": topics}]
        self.config.write_text(yaml.safe_dump(settings))

    def plain(self, cluster: str, topic: TopicName, count: int = 20) -> None:
        """Records of which no two are alike."""
        some = [next(self.numbers) for _ in range(count)]
        now_ms = int(time.time() * 1000)
        batch = encode([Sample(b"k", b"%d" % number, now_ms) for number in some])
        write_batches(getattr(self.pair, cluster).bootstrap, topic, [batch])

    def write(self) -> None:
        """More of each but the idle one."""
        for topic in (self.mapped, self.filled):
            transactions(self.pair.source.bootstrap, topic, self.rng, 3)
        for topic in (self.exact, self.foreign):
            self.plain("source", topic)

    def both(self, topic: TopicName) -> tuple[list[Any], list[Any]]:
        """What readers of the source see, and those of the target."""
        there = read(self.pair.source.bootstrap, topic, "read_committed")
        return there, read(self.pair.target.bootstrap, topic, "read_uncommitted")

    def wait_equal(self, *topics: TopicName) -> None:
        """Until the target has what the source has, no less and no more, at the right offsets."""
        for topic in topics:
            until(partial(self.has_all, topic), f"all records of {topic}", timeout_s=120)
            there, here = self.both(topic)
            assert [row[1:] for row in here] == [row[1:] for row in there]
            if topic != self.mapped:
                assert here == there

    def are_copying(self) -> bool:
        """Whether all partitions of both links are."""
        statuses = said(self.config, "status")
        copying = [status["states"].get("copying", 0) for status in statuses]
        return copying == [len(self.of_maps), 1]

    def has_all(self, topic: TopicName) -> bool:
        there, here = self.both(topic)
        return len(here) >= len(there) > 0

    def lose(self, *names: str) -> None:
        """State topics of both links, as where their brokers' disks are gone."""
        with ClusterAdmin([self.pair.target.bootstrap]) as admin:
            there = admin.describe_topics()
            topics = [
                TopicName(f"{STATE_TOPIC_PREFIX}{link}.{name}")
                for link in (self.maps, self.fills)
                for name in names
            ]
            gone = [topic for topic in topics if topic in there]
            assert admin.delete_topics(gone) == dict.fromkeys(gone)
            until(lambda: not set(gone) & set(admin.describe_topics()), "topics to be gone")

    def rebuild(self, link: str, *words: str) -> Answer:
        return heliostat(self.config, "state", "rebuild", link, *words)

    def verdicts(self, link: str, *words: str, code: int = 0) -> dict[str, Any]:
        """Of each topic its first partition."""
        answer = self.rebuild(link, *words, "--json")
        assert answer.returncode == code, answer.said
        topics = answer.json["topics"]
        return {one["source"]: (one["partitions"] or [None])[0] for one in topics}

    def refused(self) -> dict[str, str]:
        """Return the refusals of `plan`, by topic."""
        plans = heliostat(self.config, "plan", "--json").json
        return {
            name: f"{one['code']}: {one['reason']} {one['hint']}"
            for plan in plans
            for name, one in plan["refuse"].items()
        }

    def verify(self, *topics: TopicName) -> None:
        words = [word for topic in topics for word in ("--topic", topic)]
        answer = heliostat(self.config, "verify", *words)
        assert answer.returncode == 0, answer.said

    def set_producer(self, link: str, producer: int | None) -> int:
        """Overwrite or remove the row of the link's producer id; return the former one."""
        with KeyedTopic(self.pair.target.bootstrap.split(","), state_topic(LinkName(link))) as rows:
            was = rows.read_all()["producer"]["producer_id"]
            rows.write("producer", None if producer is None else {"producer_id": producer})
        return int(was)

    def stops(self, code: str) -> list[str]:
        """Return the reasons of partitions that have stopped with a code, of both links."""
        statuses = said(self.config, "status")
        rows = [row for status in statuses for row in status["problems"] if row["code"] == code]
        return [row["reason"] for row in rows]


def _killed(*_: object) -> None:
    raise ConnectionLost("killed before the last write")


@pytest.mark.provokes("STATE_INCOMPLETE")
def test_mirrors_continue_after_their_state_was_rebuilt(
    cluster_pair: ClusterPair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provoked: Provoked,
) -> None:
    """Given mirrors of every kind / when their link's state is lost, then all of its topics / then

    they are refused until contents have proved them, and continue without loss or duplicates; all
    but the one with foreign records.
    """
    mirrors = Mirrors(cluster_pair, tmp_path)
    exact, mapped, filled, foreign = mirrors.exact, mirrors.mapped, mirrors.filled, mirrors.foreign
    ours = (exact, mapped, filled)
    with RunningLink(mirrors.config) as running:
        # Their begin is read after their creation: earlier records are not copied.
        until(mirrors.are_copying, running.text, timeout_s=120)
        mirrors.write()
        mirrors.wait_equal(*ours, foreign)
        for words in (["--dry-run"], ["--yes"]):
            answer = mirrors.rebuild(mirrors.maps, *words)
            assert answer.returncode == 1
            assert f"link {mirrors.maps} runs" in answer.stderr
    _without_waits(monkeypatch)
    mirrors.plain("target", foreign, 1)
    mirrors.write()
    mirrors.lose("state")

    refused = mirrors.refused()
    assert refused.keys() == {*ours, foreign}
    assert f"`heliostat state rebuild {mirrors.maps}`" in refused[exact]
    assert "no row of it" in refused[exact]
    found = mirrors.verdicts(mirrors.maps, "--dry-run", code=1)
    assert {name: one["verdict"] for name, one in found.items()} == {
        exact: "exact",
        mapped: "mapped",
        foreign: "refused",
    }
    assert (found[foreign]["differs_at"], found[exact]["compared"]) == (20, 20)
    assert mirrors.refused() == refused  # nothing was written
    assert mirrors.verdicts(mirrors.maps, "--yes", code=1) == found
    assert mirrors.verdicts(mirrors.fills, "--yes")[filled]["verdict"] == "filled"
    assert mirrors.refused().keys() == {foreign}
    mirrors.plain("source", mirrors.idle)  # older than what is left of the link's beginning
    with RunningLink(mirrors.config):
        mirrors.wait_equal(*ours, mirrors.idle)
        mirrors.write()
        mirrors.wait_equal(*ours)

    mirrors.write()
    mirrors.lose("state", "offsets", "control", "progress", "gaps", "groups")
    wanted = ["--topics", "exact.*|mapped.*", "--yes"]
    with monkeypatch.context() as killed:
        killed.setattr(LinkState, "put_mirrors", _killed)
        assert mirrors.rebuild(mirrors.maps, *wanted).returncode == 3
    assert mirrors.refused().keys() == {*ours, foreign, mirrors.idle}
    found = mirrors.verdicts(mirrors.maps, *wanted)
    assert {name: one["verdict"] for name, one in found.items()} == {
        exact: "exact",
        mapped: "mapped",
    }
    assert not found[mapped]["map_made_anew"]  # its rows were written before
    assert mirrors.verdicts(mirrors.fills, "--yes")[filled]["verdict"] == "exact"
    assert mirrors.verdicts(mirrors.fills, "--yes") == {}  # all is known
    with RunningLink(mirrors.config):
        mirrors.wait_equal(*ours)
        mirrors.write()
        mirrors.wait_equal(*ours)
    _take_back(mirrors, provoked)
    mirrors.verify(*ours)


def _without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver reports any more, and all rounds have ended, also where no report says so."""
    monkeypatch.setattr(state_rebuild, "HEAR_S", 0.5)
    monkeypatch.setattr(state_rebuild, "owner_lasts_s", lambda _: 0.5)


def _take_back(mirrors: Mirrors, provoked: Provoked) -> None:
    """Given one link without its producer id, and one with another id / then contents decide."""
    exact, mapped, filled = mirrors.exact, mirrors.mapped, mirrors.filled
    mirrors.set_producer(mirrors.maps, None)
    was = mirrors.set_producer(mirrors.fills, 123456)
    mirrors.write()
    with RunningLink(mirrors.config) as running:
        until(lambda: "[STATE_INCOMPLETE]" in running.text(), running.text)
        until(lambda: mirrors.stops("FOREIGN_TAIL"), running.text)
        provoked("STATE_INCOMPLETE", running.text())
        (reason,) = mirrors.stops("FOREIGN_TAIL")
        assert f"by this link under a former producer id, {was}" in reason
    found = mirrors.verdicts(mirrors.maps, "--yes", code=1)
    assert {name: one["verdict"] for name, one in found.items()} == {
        exact: "exact",
        mapped: "mapped",
        mirrors.idle: "exact",
        mirrors.foreign: "refused",
    }
    assert mirrors.verdicts(mirrors.fills, "--yes")[filled]["verdict"] == "filled"
    with RunningLink(mirrors.config):
        mirrors.wait_equal(exact, mapped, filled, mirrors.idle)
        mirrors.write()
        mirrors.wait_equal(exact, mapped, filled)
