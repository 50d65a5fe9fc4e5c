"""A group that moves between the sites of a merged topic, and what the links say of it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka.structs import OffsetAndMetadata, TopicPartition
from support.cleaning import Seen, read_committed
from support.consumers import PLACE_WITHIN_MS, open_consumer, place_of
from support.links import wait_for
from support.merged import PARTITIONS

from heliostat.config import load_config
from heliostat.groups.values import CommitDecision, Reason
from heliostat.operate.groups import group_views

Logs = Mapping[str, Sequence[Sequence[Seen]]]
"""By site, of each partition: what readers see."""


def logs_of(sites: Mapping[str, str], topic: str) -> Logs:
    """Read both sites' logs."""
    return {
        site: [read_committed(bootstrap, topic, number) for number in range(PARTITIONS)]
        for site, bootstrap in sites.items()
    }


class MovingGroup:
    """A group with one member, at one site after the other.

    Parameters
    ----------
    sites
        Bootstrap addresses by site.
    topic, name
        What is read, and as whom.
    here
        Where it begins.
    """

    def __init__(self, sites: Mapping[str, str], topic: str, name: str, here: str) -> None:
        self._sites = sites
        self._topic, self.name, self._here = topic, name, here
        self.read: list[set[bytes]] = [set() for _ in range(PARTITIONS)]
        self.places = [0] * PARTITIONS

    def read_on(
        self, chance: random.Random, logs: Logs | None = None, *, least: float = 0.0
    ) -> None:
        """Read a part of each partition from where the group stands, and commit.

        Parameters
        ----------
        chance
            Draws how far.
        logs
            Both sites' logs, if nothing is written any more; None: they are read.
        least
            Share of what is left that it reads at least.
        """
        bootstrap = self._sites[self._here]
        consumer = open_consumer(
            bootstrap,
            group_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        try:
            every = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
            consumer.assign(every)
            ends = consumer.end_offsets(every)
            for one in every:
                begin = place_of(consumer, one)
                left = ends[one] - begin
                stop = begin + chance.randint(round(least * left), left)
                number = one.partition
                self.places[number] = stop
                log = (
                    logs[self._here][number]
                    if logs is not None
                    else read_committed(bootstrap, self._topic, number)
                )
                self.read[number] |= {row[3] or b"" for row in log if begin <= row[0] < stop}
            # Named one by one: by itself kafka-python leaves out what it is just validating.
            stops = {one: OffsetAndMetadata(self.places[one.partition], "", -1) for one in every}
            consumer.commit(stops, timeout_ms=PLACE_WITHIN_MS)
            for one, wanted in stops.items():
                at = consumer.committed(one, timeout_ms=PLACE_WITHIN_MS)
                assert at == wanted.offset, f"{self.name} at {self._here}: {one} is at {at}"
        finally:
            consumer.close()

    def move(self, config: Path, logs: Logs | None = None) -> int:
        """Go to the other site, once it has all; return how much of it the group reads again.

        Nothing is skipped, and what is read again was foretold.
        """
        [there] = self._sites.keys() - {self._here}
        again = 0
        for number, row in enumerate(self.published(config)):
            log = (
                logs[there][number]
                if logs is not None
                else read_committed(self._sites[there], self._topic, number)
            )
            place = row.target_offset or 0
            behind = [each[3] or b"" for each in log if each[0] >= place]
            before = {each[3] or b"" for each in log if each[0] < place}
            lacking = sorted(before - self.read[number])
            assert not lacking, f"{self.name} to {there}: skipped {lacking[:3]}"
            found = sum(value in self.read[number] for value in behind)
            assert found == row.reread_records, f"{self.name} to {there}, partition {number}"
            again += found
        self._here = there
        return again

    def published(self, config: Path) -> list[CommitDecision]:
        """Return what the link away from here has published for the places that were read to.

        A group that stands before records that it has read elsewhere is moved behind these.
        """
        loaded = load_config(config)
        [name] = [link.name for link in loaded.links if link.source == self._here]
        found: list[CommitDecision] = []

        def is_done() -> bool:
            [views] = group_views(loaded, name, self.name)
            found[:] = [row for view in views.groups for row in view.rows]
            if len(found) != PARTITIONS:
                return False
            stands = [row.source_offset or 0 for row in found]
            is_there = all(at >= place for at, place in zip(stands, self.places, strict=True))
            return is_there and {row.reason for row in found} == {Reason.SYNCED}

        try:
            wait_for("published offsets", is_done)
        except AssertionError as error:
            rows = [row.to_json() for row in found]
            raise AssertionError(f"{self.name} at {self._here}: {self.places}, {rows}") from error
        return found
