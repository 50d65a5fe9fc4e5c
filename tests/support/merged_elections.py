"""Merged topics of one partition, at a site whose leader alone has the newest records, and dies."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from support.cleaning import read_committed
from support.clusters import create_topic, fresh_name
from support.command import said
from support.links import Link, ends_or_errors, wait_for
from support.merged import config_of
from support.unclean import first_leads, leader_alone, replicated_topics, wait_led

from heliostat.config import load_config
from heliostat.names import TopicName
from heliostat_sandbox import Broker, Cluster

WRITTEN = 5
"""Records of a site in a turn."""


class ElectedSites:
    """Two sites, links both ways, and another client's producers at both.

    `both` is written at either site, also while its leader is alone; `crossed` loses nothing but
    what a link had brought.

    Parameters
    ----------
    folder
        Folder of the configuration.
    summit, base
        The sites; the first has three brokers.
    """

    def __init__(self, folder: Path, summit: Cluster, base: Cluster) -> None:
        self.clusters = {"summit": summit, "base": base}
        prefix = fresh_name("merged")
        self.topics = replicated_topics(summit, f"{prefix}-both", f"{prefix}-crossed")
        self.both, self.crossed = self.topics
        for topic in self.topics:
            create_topic(base, topic)
        sites = {site: each.bootstrap for site, each in self.clusters.items()}
        self.config = config_of(folder, sites, prefix)
        self.links = [each.name for each in load_config(self.config).links]
        """Away from the site that elects, and back."""
        self._written: dict[tuple[str, TopicName], list[bytes]] = defaultdict(list)
        self._lost: dict[TopicName, set[bytes]] = defaultdict(set)

    def write(self, *sites: str, topic: TopicName) -> None:
        """Write records at these sites by producers that end with that, and know no more then."""
        for site in sites:
            own = self._written[site, topic]
            values = [b"%s %06d" % (site.encode(), len(own) + n) for n in range(WRITTEN)]
            bootstrap = self.clusters[site].bootstrap.split(",")
            with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all")) as producer:
                for sent in [producer.send(topic, value=each, partition=0) for each in values]:
                    sent.get(30.0)
            own += values

    def write_to_one(self, link: Link) -> tuple[Broker, Broker]:
        """Write, and copy, what only the leader has; return it, and the one that lacks it."""
        summit = self.clusters["summit"]
        first_leads(summit, self.topics)
        leader, old = leader_alone(summit, self.both)
        for topic in self.topics:
            wait_led(summit, topic, leader)
        kept = len(self._written["summit", self.both])
        self.write("summit", "base", "summit", topic=self.both)
        self.write("base", topic=self.crossed)
        self.wait_level(link)
        self._lost[self.both] |= {*self._written["summit", self.both][kept:]}
        return leader, old

    def elect(self, leader: Broker, old: Broker) -> None:
        """Kill the leader; the one that lacks records leads, and takes others."""
        leader.kill()
        old.start()
        for topic in self.topics:
            wait_led(self.clusters["summit"], topic, old)
            self.write("summit", "base", topic=topic)

    # -- what an operator sees and does ----------------------------------------------------------

    def stops(self) -> list[dict[str, Any]]:
        """Return what has stopped of both links."""
        return [stop for link in said(self.config, "gaps") for stop in link["stopped"]]

    def ledger(self, link: str) -> list[dict[str, Any]]:
        """Return the rows of a link's gaps."""
        (found,) = said(self.config, "gaps", "--link", link)
        return list(found["rows"])

    def explained(self, topic: TopicName) -> dict[str, Any]:
        """Return what `resolve` says of the link away."""
        (row,) = said(self.config, "resolve", topic, "0", "--link", self.links[0])
        return dict(row)

    def go_on(self, topic: TopicName) -> int:
        """Decide to go on at the cut, once that is known; return the cut."""
        found: list[dict[str, Any]] = []

        def is_known() -> bool:
            found[:] = [self.explained(topic)]
            choices = found[0]["choices"]
            return {each for each in choices if choices[each]["possible"]} == {"continue", "wait"}

        wait_for("the cut", is_known)
        words = (
            topic,
            "0",
            "--choose",
            "continue",
            "--by",
            "ops",
            "--yes",
            "--link",
            self.links[0],
        )
        said(self.config, "resolve", *words)
        return int(found[0]["facts"]["diverged_at"])

    # -- what is there ---------------------------------------------------------------------------

    def left(self, topic: TopicName, site: str = "summit") -> list[bytes]:
        """Return what the producers at the site that elects wrote, and this one still has."""
        lost = self._lost[topic] if site == "summit" else ()
        return [each for each in self._written["summit", topic] if each not in lost]

    def ends_of(self, site: str) -> list[int]:
        """Return for each topic the offset behind the last record that a site's producers wrote."""
        found = []
        for topic in self.topics:
            log = read_committed(self.clusters[site].bootstrap, topic)
            own = [row[0] for row in log if (row[3] or b"").startswith(site.encode())]
            found.append(max(own) + 1)
        return found

    def wait_level(self, link: Link) -> None:
        """Wait until each site has all that is left of the other one's."""
        wanted = {
            site: {
                topic: [len(self.left(topic, site)) + len(self._written["base", topic])]
                for topic in self.topics
            }
            for site in self.clusters
        }
        topics = dict.fromkeys(self.topics, 1)
        there: dict[str, Any] = {}

        def is_level() -> bool:
            for site, cluster in self.clusters.items():
                there[site] = ends_or_errors(cluster.bootstrap, topics)
            return there == wanted

        try:
            wait_for("level sites", is_level)
        except AssertionError as error:
            why = f"{error}\nwanted {wanted}\nthere {there}\n{self.stops()}"
            raise AssertionError(f"{why}\n{link.text()[-4000:]}") from None

    def check(self) -> None:
        """Each record that is left is once at each site, in its site's order, and none besides.

        What the site lost stays at the other one.
        """
        for topic in self.topics:
            for site, cluster in self.clusters.items():
                there = [row[3] or b"" for row in read_committed(cluster.bootstrap, topic)]
                mine = [each for each in there if each.startswith(b"summit")]
                assert mine == self.left(topic, site), (topic, site)
                others = [each for each in there if not each.startswith(b"summit")]
                assert others == self._written["base", topic], (topic, site)
