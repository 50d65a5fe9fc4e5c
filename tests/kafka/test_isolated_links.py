"""Links of one file are isolated: a failure of one stops no other, and is reported."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name
from support.command import Answer, heliostat, said
from support.links import RunningLink, ends, wait_for
from support.provoked import Provoked
from support.proxy import FaultProxy
from support.records import Sample, encode, write_batches

from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import control_topic, progress_topic
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

TOLD_WITHIN_S = 15.0
COPIED_WITHIN_S = 60.0
"""A first round starts its process, on a machine with other work beside."""
RECORDS = 50
HALTED = 3


@dataclass
class Apart:
    """Two links of one file into one target; proxies that may be away stand before `north`."""

    pair: ClusterPair
    north: Cluster
    door: FaultProxy
    """Address in the link's configuration: at first nothing listens there."""
    inside: FaultProxy
    """Address that the broker advertises."""
    folder: Path
    near: str = field(default_factory=lambda: fresh_name("near"))
    far: str = field(default_factory=lambda: fresh_name("far"))
    near_link: str = field(default_factory=lambda: fresh_name("link"))
    far_link: str = field(default_factory=lambda: fresh_name("link"))
    link: RunningLink | None = None

    def configured(self, name: str = "heliostat.yaml", far_topics: str = "") -> Path:
        def link(name: str, source: str, topics: str) -> dict[str, Any]:
            chosen = {"include": [f"{topics}.*"], "refresh_interval_s": 1}
            return {
                "name": name,
                "source": source,
                "target": "west",
                "topics": chosen,
                "lanes": {"lease_s": 5, "count": 1},
            }

        path = self.folder / name
        clusters = {
            "east": self.pair.source.bootstrap,
            "north": self.door.address,
            "west": self.pair.target.bootstrap,
        }
        config = {
            "clusters": {name: {"bootstrap": [at]} for name, at in clusters.items()},
            "spark": {"master": "local[2]"},
            "links": [  # the one in trouble first: the next must not wait for it
                link(self.far_link, "north", far_topics or self.far),
                link(self.near_link, "east", self.near),
            ],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def filled(self, source: Cluster, prefix: str) -> TopicName:
        """A new topic with some records."""
        topic = create_topic(source, f"{prefix}-{time.monotonic_ns()}")
        now_ms = time.time_ns() // 1_000_000
        samples = [Sample(b"k", b"v%d" % number, now_ms) for number in range(RECORDS)]
        write_batches(source.bootstrap, topic, [encode(samples)])
        return topic

    def wait_copied(self, topic: TopicName) -> None:
        """All of its records are at the target."""
        try:
            wait_for(
                f"{topic} copied",
                lambda: ends(self.pair.target.bootstrap, {topic: 1})[topic] == [RECORDS],
                COPIED_WITHIN_S,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None

    def text(self) -> str:
        return "" if self.link is None else self.link.text()[-6000:]

    def status(self, name: str) -> Answer:
        return heliostat(self.folder / "heliostat.yaml", "status", "--link", name)

    def wait_status(self, name: str, code: int, *words: str, within_s: float) -> None:
        """Wait until its status has this exit code and these words."""
        last: list[str] = []

        def holds() -> bool:
            answer = self.status(name)
            last[:] = [str(answer.returncode), answer.said]
            return answer.returncode == code and all(word in answer.said for word in words)

        try:
            wait_for(f"status {code} of {name}", holds, within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{last}\n{self.text()}") from None


@pytest.fixture
def apart(cluster_pair: ClusterPair, tmp_path: Path) -> Iterator[Apart]:
    door, inside = FaultProxy(), FaultProxy()
    with (
        Cluster.start("north", settings=inside.settings, heap_mb=HEAP_MB) as north,
        inside.serving(north.brokers[0].endpoint),
    ):
        yield Apart(cluster_pair, north, door, inside, tmp_path)


@pytest.mark.provokes("refused:maybe_two_links")
@pytest.mark.usefixtures("spark")  # its start is not what is timed
def test_an_unreachable_source_stops_its_own_link_only(apart: Apart, provoked: Provoked) -> None:
    """Given two links, one source away / when it comes and goes / then the other link continues."""
    near, far, address = apart.near_link, apart.far_link, apart.door.address
    first = apart.filled(apart.pair.source, apart.near)
    its_own = apart.filled(apart.north, apart.far)
    with ExitStack() as stack:
        apart.link = stack.enter_context(RunningLink(apart.configured()))
        apart.wait_copied(first)  # nothing listens at the other's port
        wait_for("word of it", lambda: address in apart.text(), TOLD_WITHIN_S)
        told = [line for line in apart.text().splitlines() if address in line]
        assert all("north" in line and far in line for line in told), told
        assert "Traceback" not in apart.text()
        apart.wait_status(far, 1, "north", address, within_s=TOLD_WITHIN_S)
        apart.wait_status(near, 0, within_s=TOLD_WITHIN_S)
        assert heliostat(apart.link.config, "status").returncode == 1
        planned = heliostat(apart.link.config, "plan")
        assert planned.returncode == HALTED
        assert f"link {near}: nothing to do" in planned.stdout
        assert all(word in planned.stderr for word in (far, "north", address)), planned.said

        unseen = create_topic(apart.pair.source, f"{apart.near}-both")
        both = apart.configured("both.yaml", far_topics=apart.near)
        [plan] = said(both, "plan", "--link", near)
        provoked("refused:maybe_two_links", plan["refuse"][unseen])

        stack.enter_context(apart.door.serving(apart.north.brokers[0].endpoint))
        apart.wait_copied(its_own)
        apart.wait_status(far, 0, within_s=TOLD_WITHIN_S)

        over = f"link {far}: north answers again after"
        wait_for("that it is over", lambda: over in apart.text(), COPIED_WITHIN_S)
        apart.door.refuse()
        apart.inside.refuse()
        apart.wait_status(far, 1, "north", within_s=TOLD_WITHIN_S)
        later = apart.filled(apart.pair.source, apart.near)
        apart.wait_copied(later)
        apart.wait_status(near, 0, within_s=TOLD_WITHIN_S)

        apart.door.accept()
        apart.inside.accept()
        again = apart.filled(apart.north, apart.far)
        apart.wait_copied(again)
        apart.wait_status(far, 0, within_s=TOLD_WITHIN_S)
        wait_for("that it is over", lambda: apart.text().count(over) == 2, COPIED_WITHIN_S)
        warned = [line for line in apart.text().splitlines() if " is tried again: " in line]
        assert len(warned) == 2, warned
        assert apart.link.stop() == 0, apart.text()


@pytest.mark.usefixtures("spark")
def test_a_link_that_must_halt_and_a_bad_record_in_anothers_state_stop_nothing_else(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given two links, one with an unusable state topic / when run / then the other copies.

    Foreign records in the state of a third link are reported, and hide no topic.
    """
    apart = Apart(cluster_pair, cluster_pair.source, FaultProxy(), FaultProxy(), tmp_path)
    create_topic(cluster_pair.target, f"heliostat.{apart.far_link}.state", partitions=2)
    other_link = f"heliostat.{fresh_name('other_link')}.state"
    hidden = f"{apart.near}-hidden"
    target = cluster_pair.target.bootstrap
    first = apart.filled(cluster_pair.source, apart.near)
    config = apart.configured()
    config.write_text(config.read_text().replace("source: north", "source: east"))
    with (
        KeyedTopic(target, other_link) as state,
        ByteTopic(target, TopicName(other_link), "stranger") as bad,
        RunningLink(config) as link,
    ):
        apart.link = link
        apart.wait_copied(first)
        apart.wait_status(apart.near_link, 0, within_s=TOLD_WITHIN_S)
        assert f"link {apart.far_link} has halted: [REFUSED]" in link.text()
        assert not link.has_ended
        apart.wait_status(apart.far_link, 1, within_s=TOLD_WITHIN_S)

        state.ensure(1)
        bad.write(
            [ByteRecord(b"\xff", b"{}"), ByteRecord(f"mirror/{hidden}".encode(), b"not ours")]
        )
        kept = create_topic(cluster_pair.source, hidden)
        why = f"whether {kept} is a mirror"
        apart.wait_status(apart.near_link, 1, why, within_s=TOLD_WITHIN_S)
        [told] = said(config, "status", "--link", apart.near_link)
        assert f"{other_link} has records that are not its link's own" in told["refused"][kept]
        assert f"mirror/{hidden} at offset 1" in told["refused"][kept]
        assert any("at offset 0" in note for note in told["notes"])
        for topic, key in [(progress_topic, None), (control_topic, b"lanes")]:
            with ByteTopic(target, TopicName(topic(LinkName(apart.near_link))), "stranger") as own:
                own.write([ByteRecord(key, b"not ours")])
        apart.wait_copied(apart.filled(cluster_pair.source, apart.near))
        wait_for("word of it", lambda: ".progress has a record that" in link.text(), TOLD_WITHIN_S)
        state.write(f"mirror/{hidden}", None)  # the bad record has been removed
        apart.wait_status(apart.near_link, 0, within_s=COPIED_WITHIN_S)
        assert link.stop() == HALTED
