"""Mirrors whose records go through a pipeline, under seeded faults: each seed is one run.

The pipeline leaves records out, changes others, answers late, ends at any time, and fails at some
records. Copier, rows and the search for a failing record are the product's own. Checked after every
round: the target has what the pipeline makes of each record, where the map says (I2, I3, I5, I6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

import pytest
from sim.seeds import IS_WHOLE, seeds, until_met
from sim.sim_pipeline import (
    NoPipe,
    PipedSimNetwork,
    PipelineEnded,
    SimPipe,
    SimSteps,
    exchange_of,
)
from sim.test_copy_simulation import run_together
from sim.test_mapped_simulation import BATCHES, FILLED_BATCHES, ROUNDS_MAX, Scene
from sim.witness import Content, Through, contents
from typing_extensions import override

from heliostat.link.pipeline_faults import CRASHES, PipelineFaults
from heliostat.names import TopicPartition
from heliostat.records.batches.converted import StopReason
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.lane import LaneSpec, Suspect
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.pipeline_steps import CallFunction, Pipeline, SetColumns, Step, Where
from heliostat.records.rows.row_names import CHANGEABLE
from heliostat.records.transport.piped_answers import InPlaceExchange

if TYPE_CHECKING:
    from heliostat.records.rows.in_place import InPlace

SHARE = 1 / 30
"""Of the seeds: pipelines take long."""
"""Each takes a second: rows are made record by record."""


def number_of(content: Content) -> int:
    """The writer's number; tombstones count by their time."""
    value = content[2]
    return content[0] if value is None else int(value[1:])


def thinned(content: Content) -> Content | None:
    return content if number_of(content) % 3 != 1 else None


def with_values(content: Content) -> Content | None:
    time_ms, key, value, headers = content
    kept = number_of(content) % 5 != 1
    return (time_ms, key, value and b"x" + value, headers) if kept else None


def changed(content: Content) -> Content | None:
    time_ms, key, value, headers = content
    more = (*headers, ("n", b"%d" % number_of(content)))
    return time_ms + 1, b"k" + (key or b""), value and value * 2, more


class Kind(NamedTuple):
    """A pipeline."""

    through: Through
    columns: tuple[str, ...]
    """That it changes."""
    step: Step
    """Stands for it in the product."""


KINDS = (
    Kind(thinned, (), Where("...")),
    Kind(with_values, ("value",), SetColumns((("value", "..."),))),
    Kind(changed, CHANGEABLE, CallFunction("...")),
)
NAME = "pipe"


class PipedScene(Scene):
    """A lane with a pipeline, and the driver that hears how its rounds end."""

    def __init__(
        self,
        seed: int,
        fault_rate: float | None = None,
        *,
        is_filled: bool = False,
        is_in_place: bool = False,
    ) -> None:
        self.kind = KINDS[seed % len(KINDS)]
        self.is_in_place = is_in_place
        super().__init__(seed, fault_rate, is_filled=is_filled, through=self.kind.through)
        self.fails_at: set[tuple[TopicPartition, int]] = set()
        self.unseen: set[tuple[TopicPartition, int]] = set()
        """Records of aborted transactions at which it would fail: no reader sees them."""
        self.begin_driver()
        self.crashes = self._begun = 0
        self._alone: list[Suspect | None] = [None]
        """What was alone in the pipeline when it ended by chance; last: what is now."""
        self.stopped: set[TopicPartition] = set()
        """Partitions that the last round has stopped."""

    def begin_driver(self) -> None:
        """Start a driver, which knows nothing of failures."""
        self.faults = PipelineFaults({NAME: Pipeline(NAME, (self.kind.step,))}, {})

    def is_stopped_everywhere(self) -> bool:
        """Whether each record at which the pipeline fails has stopped its partition."""
        return self.stopped == {source for source, _ in self.fails_at}

    @override
    def begun(self, number: int, other_links: int) -> list[Copier]:
        self._begun += 1  # another driver's generations go on, too
        return super().begun(self._begun, other_links)

    @override
    def lane(self, number: int, lease_s: float) -> LaneSpec:
        spec = super().lane(number, lease_s)
        piped = {each.source: replace(each, pipeline=NAME) for each in spec.partitions}
        return replace(
            spec,
            partitions=tuple(self.faults.marked(piped).values()),
            pipeline=self.faults.pipeline(NAME),
            careful=self.faults.careful(spec.lane),
        )

    @override
    def copier(self, spec: LaneSpec) -> Copier:
        in_flight = self.random.choice([1, 5])
        if self.is_in_place:
            steps = SimSteps(self.kind.through, self.kind.columns, self.fails_at | self.unseen)
            done = InPlaceExchange(spec.partitions, {NAME: cast("InPlace", steps)})
            network = PipedSimNetwork(self.world, in_flight, NoPipe(), done)
            return Copier(spec, network, self.world.clock, done)
        pipe = SimPipe(self.world, self.kind.through, self.fails_at | self.unseen)
        exchange = exchange_of(self.world, spec, pipe, self.kind.columns)
        network = PipedSimNetwork(self.world, in_flight, pipe, exchange)
        copier = Copier(spec, network, self.world.clock, exchange)

        def suspect(records: Suspect | None) -> None:
            # The product blames a record at which the pipeline has ended this often in a row.
            is_alone = records is not None and records.before - records.first == 1
            self._alone[-1] = records if is_alone else None
            pipe.may_end = not is_alone or self._alone[-CRASHES:] != [records] * CRASHES
            report = copier.reports.suspected(records)
            copier.lease.report(report.number)
            self.faults.heard(report)

        exchange.suspect = suspect
        return copier

    @override
    def run(self, copiers: list[Copier], turns: int) -> None:
        (copier,) = copiers
        try:
            run_together(self.world, copiers, turns)
        except PipelineEnded as ended:
            copier._network.cut_all()
            self.crashes += 1
            if self._alone[-1]:
                self._alone.append(None)
            self.faults.failed(copier.reports._lane, ended.blame, str(ended))

    @override
    def check_states(self, copiers: list[Copier]) -> None:
        """A partition may only stop at a record at which the pipeline fails, after all before."""
        for item in (item for copier in copiers for item in copier.partitions):
            at = item.standing
            if at.state.is_stopped:
                said = f"seed {self.seed}: {at.code} {at.reason}"
                assert at.code == StopReason.TRANSFORM_FAILED.name, said
                failing = [n for source, n in self.fails_at if source == item.spec.source]
                assert failing, said
                wanted = self.witness.wanted(self.world.source[item.index], min(failing))
                left = [offset for offset in wanted if offset >= item.progress.position]
                assert not left, f"{left}: {said}"
                # A rule passes the record at the position: it must be the failing one.
                assert item.progress.position == min(failing), said
                if self.is_filled:
                    assert self.world.target[item.index].end == min(failing), said


@pytest.mark.parametrize("is_filled", [False, True])
def test_what_the_pipeline_leaves_is_copied_in_order_and_once(*, is_filled: bool) -> None:
    """Given transactions, faults, kills, and a pipeline that ends at any time / when rounds

    continue / then the target has what the pipeline makes of each committed record.
    """
    crashes: list[int] = []
    for seed in until_met(crashes, seeds(SHARE, least=6)):
        scene = PipedScene(seed + 30_000_000, is_filled=is_filled)
        scene.write(FILLED_BATCHES if is_filled else BATCHES)
        scene.rounds(cleans=False)
        scene.witness.check(seed, all_again=True)
        crashes += [seed] * scene.crashes
    assert crashes or not IS_WHOLE


@pytest.mark.parametrize("is_filled", [False, True])
def test_compaction_at_both_sides_moves_no_record(*, is_filled: bool) -> None:
    """Given cleaners at both sides between rounds / when copied / then as the map says."""
    for seed in seeds(SHARE, least=6):
        scene = PipedScene(seed + 31_000_000, is_filled=is_filled)
        scene.write(FILLED_BATCHES if is_filled else BATCHES)
        scene.clean_source()
        scene.rounds()
        scene.witness.check(seed, all_again=True)


def test_records_at_which_it_fails_stop_their_partitions_until_it_is_changed() -> None:
    """Given records at which the pipeline fails, behind holes too, and in aborted transactions, in

    place or as rows / when rounds continue / then each partition stops at the first that readers
    see, with all before it copied; a driver with a pipeline that takes them copies the rest.
    """
    stops = 0
    for seed in seeds(2 * SHARE, least=12):
        scene = PipedScene(
            seed + 32_000_000,
            fault_rate=0.02 * (seed % 3),
            is_filled=seed % 2 > 0,
            is_in_place=seed % 4 > 1,
        )
        scene.write(BATCHES)
        for writer in scene.writers:
            writer.end_all(scene.world.clock.wall_ms())
        scene.clean_source()
        sources = [each.source for each in scene.lane(0, 1.0).partitions]
        for source, log in zip(sources, scene.world.source, strict=True):
            offsets = [*contents(log)]
            behind_holes = [n for n in offsets if n and n - 1 not in contents(log)]
            if offsets and scene.random.random() < 0.8:
                chosen = scene.random.choice([offsets, behind_holes or offsets])
                scene.fails_at.add((source, scene.random.choice(chosen)))
            scene.unseen |= {(source, n) for n in range(log.end) if n not in contents(log)}
        number = 1
        while not scene.is_stopped_everywhere():
            assert number < ROUNDS_MAX, f"seed {seed}"
            [copier] = scene.begun(number, 1)
            scene.run([copier], 10**9)
            scene.witness.check(seed)
            scene.check_states([copier])
            scene.stopped = {each.spec.source for each in copier.partitions if is_stopped(each)}
            number += 1
        stops += len(scene.fails_at)
        scene.fails_at.clear()
        scene.begin_driver()
        scene.rounds(cleans=False)
        scene.witness.check(seed, all_again=True)
    assert stops > len(seeds(2 * SHARE, least=12)) // 2 or not IS_WHOLE


def is_stopped(item: PartitionCopy) -> bool:
    return item.standing.state.is_stopped
