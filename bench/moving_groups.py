"""A group that moves between the sites of a merged topic, and what the links say of it."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition
from soak_audit import Seen, read

from heliostat.config import load_config
from heliostat.errors import HeliostatError
from heliostat.groups.values import CommitDecision, Reason
from heliostat.operate.groups import group_views

WITHIN_S = 180.0
LOOK_S = 0.1
ANSWER_MS = 10_000
"""kafka-python waits 305 s for an answer, and its client sometimes misses one."""

SETTLED = {Reason.SYNCED, Reason.MOVED_AT_TARGET}
"""Where the group has a place: what a link has published, or where it stood when it left, if that
is further on than what the link knows: a group may go before the link has looked at it."""

Record: TypeAlias = tuple[bytes, int]
"""A value, and how often its writer has sent it before: each site has these in the same order."""


class Placed(NamedTuple):
    """A record, and its offset at a site."""

    offset: int
    record: Record


Logs = Mapping[str, Sequence[Sequence[Placed]]]
"""By site, of each partition: what readers see."""


class WrongMoveError(Exception):
    """A group has skipped records, reads again others than were foretold, or does not get on."""


class GrowingLog:
    """What readers see of a partition at a site; nothing of it is ever taken away."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self._where = bootstrap, topic, partition
        self._times: Counter[bytes] = Counter()
        self.rows: list[Placed] = []

    def read_on(self) -> list[Placed]:
        """Read to the end; return all."""
        self._take(read(*self._where, self.rows[-1].offset + 1 if self.rows else None))
        return self.rows

    def _take(self, log: Iterable[Seen]) -> None:
        for seen in log:
            value = seen.value or b""
            self.rows.append(Placed(seen.offset, (value, self._times[value])))
            self._times[value] += 1


def logs_of(sites: Mapping[str, str], topic: str, partitions: int) -> Logs:
    """Read both sites' logs."""
    return {
        site: [GrowingLog(bootstrap, topic, number).read_on() for number in range(partitions)]
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
    partitions
        How many the topic has.
    writer_of
        Of topics that cleaners work on: whose a record is, of which each is less than the next.
        What had gone from where the group stood counts as passed, and `reread` is an estimate.
    """

    def __init__(
        self,
        sites: Mapping[str, str],
        topic: str,
        name: str,
        here: str,
        *,
        partitions: int,
        writer_of: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._sites = sites
        self._topic, self.name, self._here = topic, name, here
        self._writer_of = writer_of
        self.read: list[set[Record]] = [set() for _ in range(partitions)]
        self._left: list[list[Record]] = [[] for _ in range(partitions)]
        """What was left behind its place, as it read last."""
        self.places = [0] * partitions

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
        consumer = KafkaConsumer(
            bootstrap_servers=self._sites[self._here].split(","),
            group_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            request_timeout_ms=ANSWER_MS,
        )
        try:
            every = [TopicPartition(self._topic, number) for number in range(len(self.places))]
            consumer.assign(every)
            ends = consumer.end_offsets(every)
            for one in every:
                begin = consumer.position(one, timeout_ms=ANSWER_MS)
                if begin is None:
                    raise WrongMoveError(f"{self.name} at {self._here}: no place in {one}")
                left = ends[one] - begin
                stop = begin + chance.randint(round(least * left), left)
                log = self._log(self._here, one.partition, logs)
                self.places[one.partition] = stop
                self.read[one.partition] |= {
                    row.record for row in log if begin <= row.offset < stop
                }
                self._left[one.partition] = [row.record for row in log if row.offset >= stop]
            # Named one by one: by itself kafka-python leaves out what it is just validating.
            stops = {one: OffsetAndMetadata(self.places[one.partition], "", -1) for one in every}
            _wait_for("a commit", lambda: _is_committed(consumer, stops))
        finally:
            consumer.close()

    def _log(self, site: str, number: int, logs: Logs | None) -> Sequence[Placed]:
        if logs is not None:
            return logs[site][number]
        return GrowingLog(self._sites[site], self._topic, number).read_on()

    def move(self, config: Path, logs: Logs | None = None) -> int:
        """Go to the other site, once it has all; return how much of it the group reads again.

        Raises
        ------
        WrongMoveError
            Something is skipped, what is read again was not foretold, or no place is published.
        """
        [there] = self._sites.keys() - {self._here}
        again = 0
        for number, row in enumerate(self.published(config)):
            log, place = self._log(there, number, logs), row.target_offset or 0
            where = f"{self.name} from {self._here} to {there}, {self._topic}-{number} at {place}"
            before = {each.record for each in log if each.offset < place}
            if skipped := sorted(each for each in before if not self._has_passed(number, each)):
                values = [value[:40] for value, _ in skipped[:3]]
                raise WrongMoveError(f"{where}: {len(skipped)} skipped, {values}")
            found = sum(each.record in self.read[number] for each in log if each.offset >= place)
            if found != row.reread_records and self._writer_of is None:
                raise WrongMoveError(f"{where}: {found} again, foretold {row.reread_records}")
            again += found
        self._here = there
        return again

    def _has_passed(self, number: int, record: Record) -> bool:
        of, has_read = self._writer_of, record in self.read[number]
        if has_read or of is None:
            return has_read
        writer = of(record[0])
        is_before = any(record < each for each in self.read[number] if of(each[0]) == writer)
        return is_before or all(
            record < each for each in self._left[number] if of(each[0]) == writer
        )

    def published(self, config: Path) -> list[CommitDecision]:
        """Return what the link away from here has published for the places that were read to.

        A group that stands before records that it has read elsewhere is moved behind these.
        """
        loaded = load_config(config)
        merging = [link for link in loaded.links if link.source == self._here]
        [name] = [link.name for link in merging if link.topics.merges or len(merging) == 1]
        found: list[CommitDecision] = []

        def is_done() -> bool:
            [views] = group_views(loaded, name, self.name)
            found[:] = [
                row for view in views.groups for row in view.rows if row.source.topic == self._topic
            ]
            if len(found) != len(self.places):
                return False
            stands = [row.source_offset or 0 for row in found]
            is_there = all(at >= place for at, place in zip(stands, self.places, strict=True))
            return is_there and {row.reason for row in found} <= SETTLED

        try:
            _wait_for("published offsets", is_done)
        except WrongMoveError as error:
            text = f"{error} of {self.name}: {[row.to_json() for row in found]}"
            raise WrongMoveError(text) from None
        return found


def _is_committed(consumer: Any, stops: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
    consumer.commit(stops, timeout_ms=ANSWER_MS)
    return all(
        consumer.committed(partition, timeout_ms=ANSWER_MS) == stop.offset
        for partition, stop in stops.items()
    )


def _wait_for(what: str, is_done: Callable[[], bool]) -> None:
    until_s = time.monotonic() + WITHIN_S
    while time.monotonic() < until_s:
        with contextlib.suppress(KafkaError, HeliostatError):  # a broker has just come back
            if is_done():
                return
        time.sleep(LOOK_S)
    raise WrongMoveError(f"no {what} within {WITHIN_S:.0f} s")
