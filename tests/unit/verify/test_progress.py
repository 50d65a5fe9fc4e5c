"""How far a comparison is, counted by chunks, partitions, topics; each of them once."""

from __future__ import annotations

from heliostat.errors import ProtocolError
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.verify.progress import CountedWork, Phase, Verdict, VerifyProgress
from heliostat.verify.ranges import Chunk, Stretch
from heliostat.verify.work import ChunkResult


def stretch(topic: str, partition: int, end: int) -> Stretch:
    name = TopicPartition(TopicName(topic), PartitionId(partition))
    return Stretch(name, name, 0, end, end, end)


def chunks(stretches: list[Stretch], size: int) -> list[Chunk]:
    return [
        Chunk(index, one.source, one.target, start, min(start + size, one.end), one.end)
        for index, one in enumerate(stretches)
        for start in range(0, one.end, size)
    ]


def test_progress_is_told_chunk_by_chunk() -> None:
    """Given topics of which one partition is empty / when chunks end, one of them told twice /

    then offsets, partitions and topics are done when all of them is, and each counts once.
    """
    told: list[VerifyProgress] = []
    counted = CountedWork(told.append)
    stretches = [stretch("a", 0, 10), stretch("a", 1, 0), stretch("b", 0, 5), stretch("c", 0, 0)]
    counted.plan(stretches)
    assert told[-1].verdict is Verdict.OPEN
    assert (told[-1].topics, told[-1].topics_done) == (3, 1)
    assert (told[-1].partitions, told[-1].partitions_done, told[-1].offsets) == (4, 2, 15)
    counted.share_out(stretches, [chunks(stretches, 6)])
    counted.compared(ChunkResult(0, 0, records=6))
    counted.compared(ChunkResult(0, 0, records=6))
    assert (told[-1].offsets_done, told[-1].records, told[-1].partitions_done) == (6, 6, 2)
    assert told[-1].verdict is Verdict.EQUAL
    counted.compared(ChunkResult(0, 6, records=3, differs_at=7))
    assert (told[-1].topics_done, told[-1].partitions_done) == (2, 3)
    assert told[-1].verdict is Verdict.DIFFERENT
    counted.compared(ChunkResult(2, 0, error=ProtocolError("no")))
    assert (told[-1].topics_done, told[-1].partitions_done, told[-1].offsets_done) == (3, 4, 15)
    assert (told[-1].partitions_different, told[-1].partitions_unread) == (1, 1)
    counted.explain()
    assert told[-1].phase is Phase.EXPLAINING
    assert told[-1].to_json()["verdict"] == "different"


def test_partitions_are_counted_over_both_ways_of_comparing() -> None:
    """Given some partitions that Spark compares, and one that the driver does / when both have

    ended / then all are done: each way numbers its own from 0.
    """
    counted = CountedWork()
    stretches = [stretch("a", 0, 2), stretch("a", 1, 3)]
    counted.plan(stretches)
    for one in stretches:
        counted.share_out([one], [chunks([one], 9)])
        counted.compared(ChunkResult(0, 0, records=1, differs_at=0))
    assert (counted.progress.topics_done, counted.progress.partitions_different) == (1, 2)
