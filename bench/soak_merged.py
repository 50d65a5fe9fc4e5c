"""Topics that both clusters of a soak write, beside its mirrors: links both ways merge them.

Each site is to have each record once, in its writer's order. Groups move between the sites whenever
links have caught up: they skip nothing, and read again what `heliostat groups` has foretold.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import soak_load
from moving_groups import GrowingLog, MovingGroup, WrongMoveError
from soak_audit import Finding, Seen, compare, read
from soak_load import PARTITIONS, Load, Writers

TOPICS = {"soak.merged": 0, "soak.merged-old": 3 * 86_400_000}
"""Age of the records, in ms: brokers forget at once who wrote old ones, links among them."""
RECORDS_S = 15
"""Of each topic and site, a second."""
MOVES = 3
"""Of each group, whenever links have caught up."""
GROUPS = "soak-moves-.*"


def links() -> list[dict[str, Any]]:
    """Return the links of both ways, without what all links of a soak have."""
    topics = {"include": [*TOPICS], "naming": "merge", "refresh_interval_s": 5}
    groups = {"sync": True, "include": [GROUPS], "interval_s": 2}
    ways = {"away": ("east", "west"), "back": ("west", "east")}
    return [
        {"name": name, "source": source, "target": target, "topics": topics, "groups": groups}
        for name, (source, target) in ways.items()
    ]


class Merged:
    """Writers at both sites, groups that move, and what must be there at the end.

    Parameters
    ----------
    sites
        Bootstrap addresses by alias.
    seed
        Seed of the records and of where groups stand.
    """

    def __init__(self, sites: Mapping[str, str], seed: int) -> None:
        self._sites = sites
        self._chance = random.Random(f"{seed} moves")  # noqa: S311  # no secret
        self._loads = {
            site: [Load(topic, age_ms=age_ms, site=site) for topic, age_ms in TOPICS.items()]
            for site in sites
        }
        self._writers = [
            Writers(bootstrap, f"{seed} {site}", self._loads[site], RECORDS_S)
            for site, bootstrap in sites.items()
        ]
        self._logs = {
            (topic, site): [GrowingLog(bootstrap, topic, n) for n in range(PARTITIONS)]
            for topic in TOPICS
            for site, bootstrap in sites.items()
        }
        self._groups = {
            topic: MovingGroup(sites, topic, f"soak-moves-{n}", site, partitions=PARTITIONS)
            for n, (topic, site) in enumerate(zip(TOPICS, sites, strict=True))
        }
        self.moved: Counter[str] = Counter()
        """By topic: moves, and records that were read again."""

    def create(self) -> None:
        """Create the topics at both sites."""
        for site, bootstrap in self._sites.items():
            soak_load.create(bootstrap, self._loads[site])

    def start(self) -> None:
        """Let both sites' writers begin, or go on."""
        for writers in self._writers:
            writers.start()

    def stop(self) -> None:
        """Let them rest; harmless when called twice."""
        for writers in self._writers:
            writers.stop()

    def sent(self) -> dict[str, int]:
        """Return how many records each site has written, by topic."""
        return {
            f"{topic} ({site})": count
            for site, writers in zip(self._sites, self._writers, strict=True)
            for topic, count in writers.sent.items()
        }

    def move_groups(self, config: Path) -> Iterator[str]:
        """Move each group, while writers rest and links have caught up; yield what is wrong."""
        for topic, group in self._groups.items():
            logs = {
                site: [log.read_on() for log in self._logs[topic, site]] for site in self._sites
            }
            for _ in range(MOVES):
                try:
                    group.read_on(self._chance, logs)
                    self.moved["records read again"] += group.move(config, logs)
                except WrongMoveError as error:
                    yield str(error)
                    break
                self.moved[topic] += 1

    def audit(self) -> list[Finding]:
        """Read both sites completely, and compare what each has written with the other's copy."""
        found = []
        for topic in TOPICS:
            for number in range(PARTITIONS):
                logs = {site: read(each, topic, number) for site, each in self._sites.items()}
                for site in self._sites:
                    [load] = [each for each in self._loads[site] if each.topic == topic]
                    [other] = self._sites.keys() - {site}
                    found.append(compare_site(load, number, logs[site], logs[other]))
        return found


def compare_site(load: Load, partition: int, own: list[Seen], other: list[Seen]) -> Finding:
    """Compare what a site has of its own writer with what the other site has of it.

    A writer whose records are old may have sent some twice: its brokers forget it.
    """
    here, there = ([each for each in log if each.site == load.site] for log in (own, other))
    finding = compare(load, partition, here, there)
    finding.topic = f"{load.topic} ({load.site})"
    finding.foreign += sum(not each.site for each in own)
    if not load.age_ms:
        finding.doubled += len(here) - len({each.number for each in here})
    return finding
