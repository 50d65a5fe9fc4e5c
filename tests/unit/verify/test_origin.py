"""Merged topics compared by number: whose batches count, and that each planted fault is named."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.verify.align import Findings
from heliostat.verify.compaction import Cleaning, CleaningRule
from heliostat.verify.merged_plan import NONE_LEFT, MergedView, as_merged, merged_view
from heliostat.verify.origin import LinkIds, Origin, OwnRange, own_range
from heliostat.verify.piped import Pipe, Pipes
from heliostat.verify.pipeline import _compare
from heliostat.verify.places import Places
from heliostat.verify.ranges import MapClaim, RangeSpec, SideView, TopicPair, pack, plan
from heliostat.verify.reader import Bounds, FetchedPart, TopicView
from heliostat.verify.report import PartitionResult
from heliostat.verify.stream_values import ConsumedRecord
from heliostat.verify.work import (
    ComparedClusters,
    Differing,
    ExplainedStretch,
    _compare_chunk,
    _explained,
)

P = TopicPartition(TopicName("t"), PartitionId(0))
PAIR = TopicPair(P.topic, P.topic)
NOBODY: Any = None
SITE, OTHER, OWN, FORMER, BACK = 100, 200, 7, 5, 9
"""Producers: the source's, the target's, the link's two, and that of the link back."""
IDS = LinkIds(frozenset({BACK}), frozenset({OWN, FORMER}))


class Written(NamedTuple):
    """A batch as somebody has appended it."""

    producer: int
    values: Sequence[bytes]
    sequence: int = 0
    keys: bytes = b"k"
    """One for each record, or one for all."""
    is_gone: bool = False
    """Whether a cleaner has removed it."""


class Log:
    """A partition's log, read as `LogReader` reads one."""

    def __init__(self, batches: Sequence[Written], start: int = 0) -> None:
        self.start, self.end = start, 0
        self._batches: list[tuple[int, int, bytes]] = []
        for each in batches:
            builder = DefaultRecordBatchBuilder(
                magic=2,
                compression_type=0,
                is_transactional=0,
                producer_id=each.producer,
                producer_epoch=0,
                base_sequence=each.sequence,
                batch_size=1 << 20,
            )
            for number, value in enumerate(each.values):
                key = each.keys[number : number + 1] or each.keys[:1]
                builder.append(number, 1_700_000_000_000, key, value, [])
            data = bytearray(builder.build())
            struct.pack_into(">q", data, 0, self.end)
            first, self.end = self.end, self.end + len(each.values)
            if self.end > start and not each.is_gone:
                self._batches.append((first, self.end, bytes(data)))

    def bounds(self, _: object) -> dict[TopicPartition, Bounds]:
        return {P: Bounds(self.start, self.end)}

    def fetch_alone(self, _: object, position: int) -> FetchedPart:
        found = b"".join(data for _, end, data in self._batches if end > position)
        return FetchedPart(position, found, (), self.end)


def values(prefix: str, start: int, end: int) -> list[bytes]:
    return [b"%s-%d" % (prefix.encode(), n) for n in range(start, end)]


def view(log: Log, cluster: str) -> SideView:
    return SideView(cluster, {P.topic: TopicView("id", {0: 1})}, log.bounds(P))


class Found(NamedTuple):
    """What came of a comparison."""

    findings: Findings
    records: int
    behind: int
    not_compared: list[str]


class Here:
    """The work, done in this process."""

    tasks = 4

    def __init__(self, sides: ComparedClusters, source: Any, target: Any) -> None:
        self.sides, self._logs = sides, (source, target)

    def compare(self, shares: Any) -> Any:
        return [
            _compare_chunk(self.sides, *self._logs, each, (None, None))
            for share in shares
            for each in share
        ]

    def explain(self, stretches: Sequence[Differing]) -> list[ExplainedStretch]:
        views = self.sides.views(P)
        return [_explained(*self._logs, each, views) for each in stretches]


def verified(
    monkeypatch: pytest.MonkeyPatch,
    source: Any,
    target: Any,
    breaks: list[tuple[int, int]],
    spec: RangeSpec,
    *,
    ids: LinkIds = IDS,
    rule: CleaningRule | None = None,
    pipes: Pipes | None = None,
) -> Found:
    monkeypatch.setattr("heliostat.verify.pipeline._rules", lambda *_: {P.topic: rule})

    def maps(*_: object) -> MapClaim:
        return MapClaim(breaks)

    one, two = view(source, "summit"), view(target, "base")
    seen = merged_view(target, [PAIR], one, two, ids=ids, maps=maps)
    made = plan([PAIR], one, seen.target, spec, map_view=maps)
    made = as_merged(made, seen, source.bounds(P), must=spec.is_complete)
    sides = ComparedClusters(NOBODY, NOBODY, origins=seen.origins, pipes=pipes)
    work = Here(sides, source, target)
    results, failed = _compare(work, [PartitionResult(one) for one in made.stretches], NOT_TOLD)
    left_out = [each.reason for each in (*made.not_compared, *failed)]
    if not results:
        return Found(Findings(), 0, made.behind_records, left_out)
    [result] = results
    return Found(result.findings, result.records, made.behind_records, left_out)


class _NotTold:
    def __getattr__(self, _: str) -> Any:
        return lambda *_: None


NOT_TOLD: Any = _NotTold()
LATE = RangeSpec()
COMPLETE = RangeSpec(is_complete=True)

SOURCE = [
    Written(SITE, values("a", 0, 5)),
    Written(BACK, values("b", 0, 3)),
    Written(-1, values("a", 5, 8)),
    Written(BACK, values("b", 3, 4)),
    Written(SITE, values("a", 8, 12)),
]
BREAKS = [(0, 0), (5, 8), (8, 12)]
"""Numbers and source offsets."""
TARGET = [
    Written(OTHER, values("b", 0, 3)),
    Written(FORMER, values("a", 0, 2), 0),
    Written(OWN, values("a", 2, 5), 2),
    Written(OTHER, values("b", 3, 4)),
    Written(OWN, values("a", 5, 12), 5),
]


def test_each_sites_records_are_compared_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verified(monkeypatch, Log(SOURCE), Log(TARGET), BREAKS, COMPLETE)
    assert found == Found(Findings(), 12, 0, [])


class Thinning:
    """A pipeline that leaves every third record out, and marks the others; see `Pipes`."""

    topics = frozenset({P.topic})
    failed: Mapping[TopicPartition, Mapping[Offset, str]] = {}

    def of(self, partition: TopicPartition) -> Pipe:
        def pipe(
            rows: Sequence[ConsumedRecord], *, is_log_append_time: bool
        ) -> list[ConsumedRecord]:
            del is_log_append_time
            made = [(*row[:3], (row[3] or b"") + b"!", row[4]) for row in rows]
            return [row for row in made if int((row[3] or b"")[2:-1]) % 3 != 1]

        return pipe


THINNED = [b"a-%d!" % number for number in range(12) if number % 3 != 1]
THINNED_BREAKS = [(0, 0), (1, 2), (3, 8), (5, 12), (7, 15)]


@pytest.mark.parametrize(
    ("there", "is_right"),
    [
        (THINNED, True),
        (THINNED[:-1], False),
        ([*THINNED[:2], b"a-4!", *THINNED[3:]], False),
        ([b"a-0", *THINNED[1:]], False),
        ([*THINNED, b"a-10!"], False),
    ],
    ids=["right", "lost", "left out", "not changed", "one more"],
)
def test_what_a_pipeline_makes_of_a_sites_own_is_compared(
    monkeypatch: pytest.MonkeyPatch, there: list[bytes], *, is_right: bool
) -> None:
    """Given a pipeline / then what it leaves of the source's own, and no more, is the link's."""
    target = [
        Written(OWN, there[:3], 0),
        Written(OTHER, values("b", 0, 3)),
        Written(OWN, there[3:], 3),
    ]
    logs, pipes = (Log(SOURCE), Log(target)), Thinning()
    found = verified(monkeypatch, *logs, THINNED_BREAKS, COMPLETE, pipes=pipes)
    is_clean = found.findings.is_clean and not found.not_compared and not found.behind
    assert is_clean == is_right, found
    assert found.records == len(THINNED) or not is_right


def test_what_has_not_crossed_is_behind_without_what_came_from_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a target that lacks the last batch / then it lags, or has lost it where all must be."""
    target = Log([*TARGET[:-1], Written(OWN, values("a", 5, 8), 5)])
    late = verified(monkeypatch, Log(SOURCE), target, BREAKS, LATE)
    assert (late.findings, late.records, late.not_compared) == (Findings(), 8, [])
    lost = verified(monkeypatch, Log(SOURCE), target, BREAKS, COMPLETE)
    assert (lost.findings.lost, lost.findings.doubled) == (4, 0)


FAULTS = {
    "lost": [*TARGET[:2], *TARGET[3:]],
    "doubled": [*TARGET[:3], TARGET[2], *TARGET[3:]],
    "doubled at the end": [*TARGET, Written(OWN, values("a", 10, 12), 10)],
    "doubled from the beginning": [*TARGET, Written(OWN, values("a", 0, 2), 0)],
    "doubled under a later number": [*TARGET, Written(OWN, values("a", 0, 2), 12)],
    "brought back": [*TARGET, Written(OWN, values("b", 0, 1), 12)],
    "different": [*TARGET[:2], Written(OWN, [b"a-2", b"x", b"a-4"], 2), *TARGET[3:]],
    "reordered": [
        *TARGET[:2],
        Written(OWN, [b"a-3", b"a-2", b"a-4"], 2),
        *TARGET[3:],
    ],
    "another's": [*TARGET[:2], Written(OTHER, values("a", 2, 5), 2), *TARGET[3:]],
}


@pytest.mark.parametrize("spec", [LATE, COMPLETE], ids=["late", "complete"])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(monkeypatch: pytest.MonkeyPatch, fault: str, spec: RangeSpec) -> None:
    found = verified(monkeypatch, Log(SOURCE), Log(FAULTS[fault]), BREAKS, spec).findings
    kind = {"another's": "lost", "brought back": "foreign"}.get(fault, fault.split(maxsplit=1)[0])
    assert getattr(found, kind) > 0, found
    others = {"lost", "doubled", "reordered", "foreign"} - {kind}
    assert [each for each in others if getattr(found, each)] == [], found


CLEANED = CleaningRule(Cleaning(compacts=True), Cleaning(compacts=True), 1_700_000_000_000)
KEYED = [
    Written(SITE, values("a", 0, 2), 0, b"xy"),
    Written(BACK, values("b", 0, 1), 0, b"z"),
    Written(SITE, values("a", 2, 4), 2, b"zx"),
    Written(SITE, values("a", 4, 5), 4, b"w"),
]
KEYED_BREAKS = [(0, 0), (2, 3)]
THERE = [
    Written(OWN, values("a", 0, 2), 0, b"xy"),
    Written(OWN, values("a", 2, 4), 2, b"zx"),
    Written(OTHER, values("b", 0, 1), 0, b"z"),
    Written(OWN, values("a", 4, 5), 4, b"w"),
    Written(OTHER, values("b", 1, 3), 1, b"xw"),
]


@pytest.mark.parametrize(
    ("gone", "lost"), [((), 0), ((1,), 0), ((3,), 0), ((1, 3), 0), ((0,), 1), ((1, 2), 1)]
)
def test_what_anybodys_later_record_supersedes_may_be_gone(
    monkeypatch: pytest.MonkeyPatch, gone: tuple[int, ...], lost: int
) -> None:
    """Given cleaned logs / then what lacks is compacted if somebody wrote its key later there.

    Also the link's very last record, by its note; and what nobody superseded is lost.
    """
    target = Log([each._replace(is_gone=at in gone) for at, each in enumerate(THERE)])
    ids = IDS._replace(noted={P: 5})
    found = verified(monkeypatch, Log(KEYED), target, KEYED_BREAKS, COMPLETE, ids=ids, rule=CLEANED)
    assert (found.findings.lost, found.behind, found.not_compared) == (lost, 0, [])
    assert found.findings.is_clean == (not lost)


def test_what_is_there_twice_is_found_in_compacted_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = Log([*THERE, THERE[3]])
    found = verified(monkeypatch, Log(KEYED), twice, KEYED_BREAKS, COMPLETE, rule=CLEANED)
    assert found.findings.doubled == 1


def test_what_the_source_has_lost_to_a_record_from_elsewhere_is_compacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a key that the other site wrote later, too / then the source may lack its own."""
    source = [Written(SITE, [b"a-0"], 0, b"z", is_gone=True), Written(BACK, [b"b-0"], 0, b"z")]
    target = [Written(OWN, [b"a-0"], 0, b"z")]
    found = verified(monkeypatch, Log(source), Log(target), [(0, 0)], COMPLETE, rule=CLEANED)
    assert found.findings.is_clean
    other = [source[0], source[1]._replace(keys=b"y")]
    found = verified(monkeypatch, Log(other), Log(target), [(0, 0)], COMPLETE, rule=CLEANED)
    assert found.findings.foreign == 1


def test_records_of_links_that_no_row_names_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the source's rows lost / then what came from elsewhere counts as its own, and lacks."""
    monkeypatch.setattr(Origin, "of_site", lambda _, batches: batches)
    found = verified(monkeypatch, Log(SOURCE), Log(TARGET), BREAKS, COMPLETE)
    assert not found.findings.is_clean


def test_whatever_is_repeated_differs_though_it_looks_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given records of the same content / when a batch is there twice / then it shows."""
    source = [Written(SITE, [b"same"] * 4)]
    target = [Written(OWN, [b"same"] * 2, 0), Written(OWN, [b"same"] * 2, 2)]
    good = verified(monkeypatch, Log(source), Log(target), [(0, 0)], COMPLETE)
    assert good == Found(Findings(), 4, 0, [])
    twice = verified(monkeypatch, Log(source), Log([*target, target[1]]), [(0, 0)], COMPLETE)
    assert twice.findings.doubled == 2


def test_what_is_repeated_from_before_the_range_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a range without an end / when records from before it come again / then they differ."""
    target = Log(FAULTS["doubled from the beginning"])
    found = verified(monkeypatch, Log(SOURCE), target, BREAKS, RangeSpec(8, is_complete=True))
    assert found.findings.different == 2


def test_retention_at_either_side_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a target's log that begins within an own batch, and a source's that begins later."""
    cut = verified(monkeypatch, Log(SOURCE), Log(TARGET, start=6), BREAKS, COMPLETE)
    assert (cut.findings, cut.records) == (Findings(), 9)
    assert cut.not_compared == ["the target's log starts later"]
    shorter = verified(monkeypatch, Log(SOURCE, start=8), Log(TARGET), BREAKS, COMPLETE)
    assert (shorter.findings, shorter.records) == (Findings(), 7)


def test_a_log_without_any_record_of_the_link_that_once_had_some_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = Log([*TARGET, Written(OTHER, values("b", 4, 9))], start=17)
    found = verified(monkeypatch, Log(SOURCE), gone, BREAKS, COMPLETE)
    assert (found.records, found.not_compared) == (0, [NONE_LEFT])


@pytest.mark.parametrize("number", [0, 2**31 - 2, 5 * 2**31 - 3])
def test_numbers_go_on_where_sequences_begin_anew(number: int) -> None:
    batches = [
        Written(OTHER, values("b", 0, 4)),
        Written(OWN, values("a", 0, 5), number % 2**31),
        Written(OTHER, values("b", 4, 9)),
        Written(OWN, values("a", 5, 8), (number + 5) % 2**31),
        Written(OTHER, values("b", 9, 5_000)),
    ]
    log: Any = Log(batches)
    own = IDS.at_target
    near = number + random.Random(number).randrange(1000)
    found = own_range(log, P, (0, log.end), own, near)
    assert found == OwnRange(number, number + 8)
    later: Any = Log(batches, start=6)
    assert own_range(later, P, (6, later.end), own, near) == OwnRange(number + 2, number + 8)


def test_of_a_given_range_nothing_behind_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a fault behind the range / then the range is equal; one in it is found."""
    source, spec = Log(SOURCE), RangeSpec(start=1, until=10)
    behind = verified(monkeypatch, source, Log(FAULTS["doubled at the end"]), BREAKS, spec)
    assert (behind.findings, behind.records) == (Findings(), 6)
    inside = verified(monkeypatch, source, Log(FAULTS["different"]), BREAKS, spec)
    assert inside.findings.different == 1


def test_a_merged_partition_is_one_piece() -> None:
    """Given more records than a piece has / then the whole is one: only reading shows numbers."""
    bounds = Bounds(0, 1_000_000)
    side, there = (
        SideView(cluster, {P.topic: TopicView("id", {0: 1})}, {P: bounds})
        for cluster in ("summit", "base")
    )
    made = plan([PAIR], side, there, LATE)
    assert len([each for share in pack(made.stretches, 8) for each in share]) > 1
    seen = MergedView(there, {P: Origin(IDS, 0, 1_000_000, 0)})
    whole = as_merged(made, seen, {P: bounds}, must=False)
    [[piece]] = pack(whole.stretches, 8)
    assert (piece.start, piece.end, piece.places) == (0, 1_000_000, Places())
