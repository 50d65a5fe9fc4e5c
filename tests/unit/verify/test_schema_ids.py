"""Mirrors with schema ids of the target's own: each must be what the source's id is there."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from support.planted import Record
from unit.verify.test_mapped import PARTITION, Log, places_of

from heliostat.names import TopicName
from heliostat.verify.ranges import Chunk, Stretch
from heliostat.verify.schema_ids import AS_THEY_ARE, MirroredIds
from heliostat.verify.work import ComparedClusters, Differing, _compare_chunk, _explained

T = PARTITION.topic
IDS = {1: 2, 2: 1, 3: 3, 4: 40}


def framed(number: int, payload: bytes = b"payload") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def rows(*contents: tuple[bytes | None, bytes | None]) -> list[Record]:
    return [(1_000 + n, key, value, []) for n, (key, value) in enumerate(contents)]


def of_values(*numbers: int) -> list[Record]:
    return rows(*((b"k", framed(number)) for number in numbers))


def differs_at(
    source: list[Record],
    target: list[Record],
    ids: MirroredIds,
    *,
    shift: int = 0,
    codec: str = "lz4",
) -> int | None:
    """The first source offset that differs; the mirror lacks the source's first `shift`."""
    logs = Log(), Log()
    logs[0].append(0, source, codec)
    logs[1].append(0, target[shift:])
    places = places_of(list(range(shift, len(source))))
    chunk = Chunk(0, PARTITION, PARTITION, shift, len(source), len(source) - shift, places)
    nobody: Any = None
    there = pickle.loads(pickle.dumps(ids))  # noqa: S301 - what was dumped here
    sides = ComparedClusters(nobody, nobody, ids=there)
    readers: Any = logs
    found = _compare_chunk(sides, *readers, chunk, (None, None))
    assert found.error is None
    return found.differs_at


VALUES = MirroredIds.of(IDS, {}, values=[T])
BOTH = MirroredIds.of(IDS, {}, keys=[T], values=[T])


@pytest.mark.parametrize("shift", [0, 1])
def test_ids_that_are_mapped_are_equal_and_all_others_differ(shift: int) -> None:
    """Given a mirror / then its ids must be those of the map, in a mapped mirror as well."""
    source = of_values(3, 1, 2, 3, 4, 9)
    right = of_values(3, 2, 1, 3, 40, 9)
    assert differs_at(source, right, VALUES, shift=shift) is None
    assert differs_at(source, source, VALUES, shift=shift) == 1
    for place in range(shift, 6):
        for wrong in (5, 4, 9, 2):
            mirror = list(right)
            mirror[place] = (*mirror[place][:2], framed(wrong), [])
            expected = None if mirror == right else place
            assert differs_at(source, mirror, VALUES, shift=shift) == expected, (place, wrong)


def test_batches_that_are_equal_to_the_byte_are_no_proof() -> None:
    """Given a mirror that has the source's own bytes / then its ids are wrong all the same."""
    source = of_values(3, 1, 3)
    assert differs_at(source, source, VALUES, codec="none") == 1
    assert differs_at(of_values(3, 3), of_values(3, 3), VALUES, codec="none") is None


def test_only_what_has_ids_is_mapped() -> None:
    """Given keys and values that look framed / then those of topics that have no ids are plain."""
    source = rows((framed(1), framed(4)))
    assert differs_at(source, rows((framed(1), framed(40))), VALUES) is None
    assert differs_at(source, rows((framed(2), framed(40))), VALUES) == 0
    assert differs_at(source, rows((framed(2), framed(40))), BOTH) is None
    keys = MirroredIds.of(IDS, {}, keys=[T])
    assert differs_at(source, rows((framed(2), framed(4))), keys) is None
    other = MirroredIds.of(IDS, {}, keys=[TopicName("other")], values=[TopicName("other")])
    assert differs_at(source, source, other) is None
    assert other.views(T) == AS_THEY_ARE


def test_all_else_of_a_record_still_counts() -> None:
    source = rows((b"k", framed(1, b"a")), (b"k", framed(1, b"")), (None, None), (b"", b"\0\0\0\1"))
    right = rows((b"k", framed(2, b"a")), (b"k", framed(2, b"")), (None, None), (b"", b"\0\0\0\1"))
    assert differs_at(source, right, VALUES) is None
    for place, wrong in ((0, framed(2, b"b")), (1, framed(2, b"x")), (2, b""), (3, b"\0\0\0\2")):
        mirror = list(right)
        mirror[place] = (*mirror[place][:2], wrong, [])
        assert differs_at(source, mirror, VALUES) == place
    later = [(at + 1, key, value, headers) for at, key, value, headers in right]
    assert differs_at(source, later, VALUES) == 0


def test_ids_of_the_target_with_the_same_content_are_equal() -> None:
    """Given two ids of the target for one text / then either is right, and a third is not."""
    ids = MirroredIds.of({1: 7, 2: 9}, {8: 7}, values=[T])
    assert differs_at(of_values(1, 1, 2), of_values(7, 8, 9), ids) is None
    assert differs_at(of_values(1, 1, 2), of_values(7, 9, 9), ids) == 1
    assert differs_at(of_values(8), of_values(8), ids) is None
    assert differs_at(of_values(8), of_values(9), ids) == 0


NAMES = "__key_schema_id", "__value_schema_id"
OWN, THERE = b"\1own guid of 16 b", b"\1the other 16 byt"


@pytest.mark.parametrize("name", NAMES)
def test_ids_in_headers_are_mapped_and_what_has_one_has_none_in_front(name: str) -> None:
    """Given headers with ids and GUIDs / then the mirror must have the target's there alone."""
    guids = {OWN[1:]: THERE[1:], b"s" * 16: b"s" * 16}
    ids = MirroredIds.of(IDS, {}, keys=[T], values=[T], headers=[T], guids=guids)
    no_ids = MirroredIds.of({}, {}, keys=[T], values=[T], headers=[T], guids=guids)
    plain = framed(1)
    is_key = name == NAMES[0]

    def one(content: bytes | None, other: int = 1) -> list[Record]:
        front = framed(other)
        pair = (plain, front) if is_key else (front, plain)
        return [(1_000, *pair, [("h", framed(1)), (name, content)])]

    for own, there in (
        (framed(1), framed(2)),
        (framed(3, b""), framed(3, b"")),
        (OWN, THERE),
        (OWN + b"\0", THERE + b"\0"),
        (b"\1" + b"s" * 16, b"\1" + b"s" * 16),
    ):
        assert differs_at(one(own), one(there, 2), ids) is None, own
        assert differs_at(one(own), one(framed(9), 2), ids) == 0
        assert differs_at(one(own), one(there), ids) == 0
    for none in (None, b"", OWN[:-1], b"\0\xff\0\0\1"):
        pair = framed(2), framed(2)
        assert differs_at(one(none), [(1_000, *pair, one(none)[0][3])], ids) is None, none
    assert differs_at(one(OWN), one(THERE), no_ids) is None
    assert differs_at(one(OWN), one(OWN), no_ids) == 0
    assert differs_at(one(OWN), one(THERE, 2), BOTH) == 0


def test_without_other_ids_batches_are_compared_by_their_bytes() -> None:
    assert MirroredIds.of({1: 1, 2: 2}, {}, values=[T]).views(T) == AS_THEY_ARE


def test_a_wrong_id_is_explained_as_another_value() -> None:
    """Given one wrong id / then that record differs, and those behind it are no difference."""
    logs: Any = (Log(), Log())
    logs[0].append(0, of_values(1, 2, 4, 1))
    logs[1].append(0, of_values(2, 1, 41, 2))
    stretch = Stretch(PARTITION, PARTITION, 0, 4, 4, 4)
    found = _explained(*logs, Differing(0, stretch, 2), VALUES.views(T))
    assert (found.findings.different, found.findings.lost) == (1, 0)
    [first, *more] = found.findings.differences
    assert (first.source_offset, first.field, more) == (2, "value", [])
    right = replace(stretch, end=2, source_stop=2, target_stop=2)
    assert _explained(*logs, Differing(0, right, 0), VALUES.views(T)).findings.is_clean
