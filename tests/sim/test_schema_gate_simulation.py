"""The schema gate against model logs: ids become readable one by one, and some are taken back.

The production `Copier` runs unchanged, by both of its ways. At each append, a late one of a lost
connection included, its ids must have been announced (I8); in the end all is copied once. In half
of the worlds the target has other ids, which must be in its records: each replaced once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from sim.partition_log import PartitionLog
from sim.seeds import chunks
from sim.sim_clock import SimClock
from sim.sim_network import SimNetwork
from sim.sim_world import World
from sim.test_copy_simulation import (
    WALL_MS,
    check_is_beginning,
    contents,
    decoded,
    granted,
    lane,
)
from typing_extensions import override

from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import SchemaFrames, SchemaIds
from heliostat.records.copier.network import Send
from heliostat.records.transport.schema_id_rows import schema_ids_of

IDS, FOREIGN = range(1, 7), 50
STEPS, STEPS_TO_END = 150, 3_000
CODECS = (0, 0, 0, 3)  # most are plain, and some must be opened
FRAMES = (SchemaFrames.VALUES, SchemaFrames.MAYBE_VALUES)
"""Of the two partitions: only the second one has values with an id that no registry has."""
OTHER = {1: 2, 2: 3, 3: 1, 4: 4, 5: 60, 6: 61}
"""Ids at a target that has its own; what is replaced twice, or not at all, is wrong."""
OTHER_FRAMES = (
    SchemaFrames.VALUES | SchemaFrames.REPLACED,
    SchemaFrames.VALUES | SchemaFrames.KEYS | SchemaFrames.REPLACED,
)


@dataclass(slots=True)
class GatedWorld(World):
    """A target that accepts no record whose id was never announced."""

    ever: list[set[int]] = field(default_factory=lambda: [set(), {FOREIGN}])
    ids: dict[int, int] = field(default_factory=lambda: {each: each for each in IDS})
    """Of the source, and what they are at the target."""

    @property
    def has_other_ids(self) -> bool:
        return self.ids == OTHER

    @override
    def serve(self, send: Send, data: bytes) -> tuple[int, int]:
        found = {number for _, _, value in decoded(data) for number in ids_of(value)}
        if self.has_other_ids and send.index == 1:
            found |= {number for _, key, _ in decoded(data) for number in ids_of(key)}
        assert found <= self.ever[send.index], f"{found} where only {self.ever[send.index]} are"
        return super(GatedWorld, self).serve(send, data)


def ids_of(value: bytes | None) -> tuple[int, ...]:
    is_framed = value is not None and len(value) > 4 and value[0] == 0
    return (int.from_bytes(value[1:5], "big"),) if value is not None and is_framed else ()


def fill(
    log: PartitionLog, rng: random.Random, records: int, ids: tuple[int, ...], *, has_keys: bool
) -> None:
    while log.end < records:
        builder = DefaultRecordBatchBuilder(2, rng.choice(CODECS), 0, -1, -1, -1, 1 << 20)
        newest = ids[: 1 + log.end * len(ids) // records]  # ids come up one after the other
        for delta in range(rng.choice([1, 1, 1, 2, 5])):
            frame = b"\x00" + rng.choice(newest).to_bytes(4, "big") + b"v%d" % (log.end + delta)
            value = rng.choice([frame, frame, frame, None, b"\x00abc", b"plain"])
            key = b"\x00" + rng.choice(newest).to_bytes(4, "big") if has_keys else b"k"
            builder.append(delta, WALL_MS + log.end, key, value, [])
        log.append(bytes(builder.build()))


class Announced:
    """What the driver has announced, and says at any time."""

    def __init__(self, world: GatedWorld) -> None:
        self._world = world
        self.readable: set[int] = set()
        self.says_foreign = False

    def ids(self) -> SchemaIds:
        ids = [(each, self._world.ids[each]) for each in self.readable]
        return schema_ids_of(ids, [FOREIGN] * self.says_foreign)

    def add(self, number: int) -> None:
        self.readable.add(number)
        for ever in self._world.ever:
            ever.add(self._world.ids[number])


def make(seed: int, *, has_other_ids: bool = False) -> GatedWorld:
    rng = random.Random(seed)
    world = GatedWorld(
        rng,
        SimClock(WALL_MS),
        [PartitionLog(), PartitionLog()],
        [PartitionLog(), PartitionLog()],
        rng.choice([0.0, 0.02, 0.1]),
        identities=[0, 0],
    )
    if has_other_ids:
        world.ids, world.ever = OTHER, [set(), set()]
    foreign = () if has_other_ids else (FOREIGN,)
    fill(world.source[0], rng, rng.randrange(1, 80), tuple(IDS), has_keys=False)
    fill(world.source[1], rng, rng.randrange(1, 80), (*IDS, *foreign), has_keys=has_other_ids)
    return world


def check(world: GatedWorld, seed: int) -> None:
    """What the target has is what the source begins with, with the target's ids."""
    if not world.has_other_ids:
        check_is_beginning(world, [0, 0], seed)
        return
    for index, (source, target) in enumerate(zip(world.source, world.target, strict=True)):
        copied = contents(target)
        wanted = [
            (offset, time, moved(key) if index else key, moved(value))
            for offset, time, key, value in contents(source)
        ]
        assert copied == wanted[: len(copied)], f"seed {seed}"


def moved(content: bytes | None) -> bytes | None:
    ids = ids_of(content)
    if not ids or content is None:
        return content
    return b"\x00" + OTHER[ids[0]].to_bytes(4, "big") + content[5:]


def gated(world: GatedWorld, number: int) -> Copier:
    spec = lane(world, number, 1e6, [0, 0])
    frames_of = OTHER_FRAMES if world.has_other_ids else FRAMES
    parts = zip(spec.partitions, frames_of, strict=True)
    spec = replace(spec, partitions=tuple(replace(each, frames=frames) for each, frames in parts))
    return granted(Copier(spec, SimNetwork(world, world.random.choice([1, 5])), world.clock))


def run(world: GatedWorld, copier: Copier, announced: Announced, steps: int) -> None:
    hooks = Hooks(
        lambda: False, lambda: False, lambda _: None, schema_ids=announced.ids, answered=lambda: 1
    )
    for _ in range(steps):
        copier.step(hooks)
        if all(a.end == b.end for a, b in zip(world.source, world.target, strict=True)):
            return


@pytest.mark.parametrize("part", chunks(1 / 6, least=25, size=50))
def test_no_record_lands_before_its_schema_and_all_land_in_the_end(part: range) -> None:
    """Given ids that become readable at any time, rounds that are killed, and faults / then

    only what was announced lands, in order, and all of it once all ids are readable.
    """
    for seed in part:
        world = make(seed, has_other_ids=seed % 2 == 1)
        announced, rng = Announced(world), random.Random(seed)
        left = [*IDS]
        rng.shuffle(left)
        for number in range(8):
            copier = gated(world, number)
            run(world, copier, announced, rng.randrange(STEPS))
            if left and rng.random() < 0.8:
                announced.add(left.pop())
            run(world, copier, announced, rng.randrange(STEPS))
            copier._network.cut_all()
            check(world, seed)
        announced.says_foreign, world.fault_rate = True, 0.0
        for each in left:
            announced.add(each)
        run(world, gated(world, 9), announced, STEPS_TO_END)
        check(world, seed)
        ends = [log.end for log in world.source], [log.end for log in world.target]
        assert ends[0] == ends[1], f"seed {seed}"


def test_what_waits_is_reported_and_nothing_of_it_is_kept() -> None:
    """Given an id that is never announced / then the partition waits, is not sent, and holds no

    memory; the report names the id.
    """
    world = make(3)
    world.fault_rate = 0.0
    copier = gated(world, 0)
    announced = Announced(world)
    announced.add(1)
    run(world, copier, announced, STEPS_TO_END // 4)
    report = copier.end()
    assert set(report.schema_ids) & set(IDS)
    assert [len(item.appends.queue) for item in copier.partitions] == [0, 0]
    waiting = [item for item in copier.partitions if item.standing.code == "SCHEMA_UNREADABLE"]
    assert waiting
