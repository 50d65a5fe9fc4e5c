"""Two clusters that are made up, and the desk of a process that switches them and may die."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from heliostat.errors import ConnectionLost
from heliostat.handover.desk import (
    Answer,
    Copied,
    FenceAnswer,
    GroupsSeen,
    OpenTransactions,
    Problem,
    SwitchOptions,
)
from heliostat.handover.run import Run, RunKind
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

TOPIC = TopicName("orders")
PARTITION = TopicPartition(TOPIC, PartitionId(0))


class Killed(BaseException):
    """The process dies here."""


@dataclass(frozen=True)
class Seen:
    """Ends over a while."""

    ends: Mapping[TopicPartition, Offset]
    moved: tuple[str, ...] = ()

    @property
    def is_still(self) -> bool:
        return not self.moved

    def lines(self) -> list[str]:
        return list(self.moved)


@dataclass
class World:
    """Two clusters; what a process that dies leaves behind."""

    kind: RunKind = RunKind.SWITCH
    back_rests: bool = False
    has_back_ended: bool = False
    source_end: int = 10
    position: int = 10
    is_fenced: bool = False
    can_fence: bool = True
    is_promoted: bool = False
    is_open: bool = False
    transactions: list[str] = field(default_factory=list)
    unknown: tuple[str, ...] = ()
    is_synced: bool = True
    apart: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    rereads: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    different: tuple[str, ...] = ()
    writes_past_fence: bool = False
    is_written_after: bool = False
    rows: list[Run] = field(default_factory=list)
    at_s: float = 0.0
    calls: list[str] = field(default_factory=list)
    compared: list[tuple[int, bool]] = field(default_factory=list)
    """From which offset on, and whether all had to be there."""
    killed_at: int = -1
    after_effect: bool = False
    unreported: int = 0
    """Looks at what is copied that find no report, from the next one on."""
    lost: int = 0
    """Calls that find no answer, from the next one on."""
    on_sleep: Callable[[World], None] = lambda _: None

    def run(self) -> Run:
        return self.rows[-1]


class Desk:
    """The desk of one process; dies at the call that the world says."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _do(self, name: str, effect: Callable[[], None] = lambda: None) -> None:
        world = self.world
        is_last = len(world.calls) == world.killed_at
        world.calls.append(name)
        if world.lost:
            world.lost -= 1
            raise ConnectionLost("no broker answers")
        if is_last and not world.after_effect:
            raise Killed
        effect()
        if is_last:
            raise Killed

    def save(self, run: Run) -> None:
        row = Run.from_json(run.key, run.to_json())
        self._do("save", lambda: self.world.rows.append(row))

    def wall_ms(self) -> int:
        return int(self.world.at_s * 1000)

    def monotonic_s(self) -> float:
        return self.world.at_s

    def sleep(self, seconds: float) -> None:
        self.world.at_s += seconds
        self.world.on_sleep(self.world)

    def problems(self) -> Sequence[Problem]:
        self._do("problems")
        return self.world.problems

    def copied(self) -> Copied:
        self._do("copied")
        end = Offset(self.world.source_end)
        gap = end - self.world.position
        if self.world.unreported:
            self.world.unreported -= 1
            return Copied({PARTITION: end}, {}, {PARTITION: "the link has not reported it yet"})
        return Copied({PARTITION: end}, {PARTITION: gap} if gap else {})

    def open_transactions(self) -> OpenTransactions:
        self._do("open_transactions")
        return OpenTransactions(tuple(self.world.transactions), self.world.unknown)

    def rest(self) -> Answer:
        def effect() -> None:
            self.world.back_rests = True

        assert self.world.kind is RunKind.FINISH
        self._do("rest", effect)
        return Answer("it rests")

    def put_up_fence(self) -> FenceAnswer:
        by_rules = self.world.can_fence

        def effect() -> None:
            assert self.world.back_rests == (self.world.kind is RunKind.FINISH)
            self.world.is_fenced = by_rules

        self._do("put_up_fence", effect)
        return FenceAnswer(is_whole=True, by_rules=by_rules, text="it stands")

    def lift_fence(self) -> str:
        def effect() -> None:
            assert not self.world.is_promoted
            self.world.is_fenced = False

        def go_on() -> None:
            assert not self.world.is_fenced  # else the link back is refused, and stops
            assert not self.world.has_back_ended
            self.world.back_rests = False

        self._do("lift_fence", effect)
        self._do("go_on", go_on)
        return "lifted"

    def watch(self, seconds: float, *, until_first: bool) -> Seen:
        assert until_first
        self._do("watch")
        self.sleep(seconds)
        if self.world.writes_past_fence:
            self.world.source_end += 1
            return Seen({}, ("orders-0: 1 records came, by producer 7",))
        return Seen({PARTITION: Offset(self.world.source_end)})

    def groups(self) -> GroupsSeen:
        self._do("groups")
        world = self.world
        return GroupsSeen(
            world.is_synced,
            reading=world.reading,
            behind=world.behind,
            apart=world.apart,
            rereads=world.rereads,
        )

    def offsets(self, starts: Mapping[TopicPartition, Offset]) -> int:
        self._do("offsets")
        return self.world.source_end - starts.get(PARTITION, 0)

    def compare(
        self, options: SwitchOptions, starts: Mapping[TopicPartition, Offset], *, is_complete: bool
    ) -> Answer:
        del options
        self.world.compared.append((int(starts.get(PARTITION, 0)), is_complete))

        def take_a_while() -> None:
            self.world.at_s += 2.0

        self._do("compare", take_a_while)
        return Answer("compared", differences=self.world.different)

    def promote(self) -> Answer:
        def end_back() -> None:
            self.world.has_back_ended, self.world.back_rests = True, False

        if self.world.kind is RunKind.FINISH:
            self._do("end_back", end_back)

        def effect() -> None:
            assert self.world.has_back_ended == (self.world.kind is RunKind.FINISH)
            assert self.world.is_fenced == self.world.can_fence
            assert self.world.position == self.world.source_end
            assert not self.world.transactions
            self.world.is_promoted = True

        self._do("promote", effect)
        return Answer("given away")

    def open_target(self) -> Answer:
        def effect() -> None:
            assert self.world.is_promoted
            self.world.is_open = True

        self._do("open_target", effect)
        return Answer("opened")

    def written_after(self, ends: Mapping[TopicName, Sequence[int]], seconds: float) -> list[str]:
        self._do("written_after")
        self.sleep(seconds)
        assert ends == {TOPIC: [self.world.source_end]}
        return ["orders-0: 1 records came"] if self.world.is_written_after else []
