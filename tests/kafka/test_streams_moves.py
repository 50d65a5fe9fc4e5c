"""Real Kafka Streams applications that move, and return: they go on exactly where they stood."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.links import RunningLink
from support.streams_app import StreamsApp, counts_in, exact_counts

from heliostat.config import load_config
from heliostat.handover.desk import SwitchOptions
from heliostat.handover.run import RunState
from heliostat.names import TopicName
from heliostat.operate.reverse import reverse
from heliostat.operate.reversing.values import ReturnState
from heliostat.operate.switch import SwitchWish, plan_switch, switch

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 2
SITES = ("east", "west")
PROTOCOLS = ("streams", "classic")
FAST = SwitchOptions(still_s=1.0, producers_s=60.0, watch_s=0.0)
RUNS_ON_S, WRITES_ON_S = 2.0, 3.0
"""After a switch has begun; applications are stopped before all is written."""


class Words:
    """A producer of words that runs until it is stopped, at one site after another."""

    def __init__(self, topic: TopicName) -> None:
        self.topic = topic
        self.written: list[str] = []

    def write(self, bootstrap: str, is_over: Callable[[], bool]) -> None:
        """Write ever more words until it is over."""
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for number in count(len(self.written)):
            if is_over():
                break
            word = f"w{number * number % 7}"
            producer.produce(self.topic, word, word, partition=number % PARTITIONS)
            self.written.append(word)
            producer.poll(0.005)
        assert producer.flush(30) == 0


class Scene:
    """A link each way under way, and applications that count words at one of the two sites."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.sites = {"east": pair.source.bootstrap, "west": pair.target.bootstrap}
        self.folder, self.prefix = folder, fresh_name("counting")
        self.words = Words(create_topic(pair.source, fresh_name("words"), partitions=PARTITIONS))
        self.counts = {
            each: create_topic(pair.source, f"{self.prefix}-{each}") for each in PROTOCOLS
        }
        self.file = folder / "both.yaml"
        links = [
            {
                "name": fresh_name(source),
                "source": source,
                "target": target,
                "topics": {
                    "include": [self.words.topic, f"{self.prefix}-.*"],
                    "refresh_interval_s": 1,
                },
                "lanes": {"lease_s": 5},
                "groups": {"sync": True, "include": [f"{self.prefix}-.*"], "interval_s": 1},
            }
            for source, target in (SITES, SITES[::-1])
        ]
        clusters = {name: {"bootstrap": site.split(",")} for name, site in self.sites.items()}
        spark = {"master": "local[4]"}
        self.file.write_text(yaml.safe_dump({"clusters": clusters, "spark": spark, "links": links}))
        self.config = load_config(self.file)

    def applications(self, number: int, site: str) -> list[StreamsApp]:
        """Start them, one of each protocol, without any state of their own."""
        return [
            StreamsApp(
                *(self.sites[site], f"{self.prefix}-app-{each}", self.words.topic),
                *(counts, self.folder / f"{number}-{each}"),
                protocol=each,
            )
            for each, counts in self.counts.items()
        ]

    def counted(self, site: str) -> list[dict[str, list[int]]]:
        """Return what each application has counted there."""
        return [counts_in(self.sites[site], counts) for counts in self.counts.values()]

    def turn(self, number: int) -> None:
        """Run applications where they are, switch to the other site under load, and reverse."""
        here, there = SITES[number % 2], SITES[1 - number % 2]
        link, back = self.config.links[number % 2], self.config.links[1 - number % 2]
        wish = SwitchWish(options=FAST, by="a test")
        before, is_over = len(self.words.written), threading.Event()
        writing = threading.Thread(target=self.words.write, args=(self.sites[here], is_over.is_set))
        with ExitStack() as stack:
            running = [stack.enter_context(app) for app in self.applications(number, here)]
            writing.start()
            wanted = before + 100
            until(
                lambda: all(_sum(counts) > wanted for counts in self.counted(here)),
                lambda: "\n".join(app.text() for app in running),
            )
            until(lambda: plan_switch(self.config, link, wish).is_possible, "it can be switched")
            for app in running:
                threading.Timer(RUNS_ON_S, app.stop).start()
            threading.Timer(WRITES_ON_S, is_over.set).start()
            run = switch(self.config, link, wish)
        writing.join()
        assert run.state is RunState.DONE, run
        counted = self.counted(here)
        assert all(before < _sum(counts) < len(self.words.written) for counts in counted)
        assert self.counted(there) == counted
        done = reverse(self.config, link, back, by="a test")
        print(time.strftime("%H:%M:%S"), *done.describe(), sep="\n")
        assert {each.state for each in done.topics} == {ReturnState.READY}
        # Words; counts, what is repartitioned and a changelog of each application.
        assert len(done.topics) == 1 + 3 * len(PROTOCOLS)


def _sum(counts: dict[str, list[int]]) -> int:
    return sum(map(len, counts.values()))


def test_exactly_once_applications_move_and_return_with_exact_counts(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given applications that count exactly once, with repartition topics and changelogs / when

    they are switched under load, reversed, and switched home, each time without any state of their
    own / then each count of each word is there once, in order, at both sites.
    """
    scene = Scene(cluster_pair, tmp_path)
    with RunningLink(scene.file) as links:
        for number in range(2):
            scene.turn(number)
        with ExitStack() as stack:
            running = [stack.enter_context(app) for app in scene.applications(2, "east")]
            wanted = [exact_counts(scene.words.written)] * len(running)
            until(lambda: scene.counted("east") == wanted, running[0].text)
            until(lambda: scene.counted("west") == wanted, running[0].text)
        assert links.code is None
