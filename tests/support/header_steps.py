"""What steps about headers mean, in plain Python, and random steps."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import assert_never

from support.records import Headers

from heliostat.names import TopicPartition
from heliostat.records.rows.header_steps import (
    DropHeaders,
    HasHeader,
    HasValue,
    InPlaceStep,
    InsertHeaders,
    InsertOrigin,
    Origin,
    RenameHeaders,
)

CLUSTER = "an id that is as long as Kafka lets it be, and ü more"
NAMES = ("a", "b", "", "a b", "é", "it's", "longer than a byte of size " * 3)


def place_of(source: TopicPartition, offset: int, time_ms: int) -> dict[Origin, object]:
    """What a record's headers of its origin say, but for the cluster."""
    return {
        Origin.TOPIC: source.topic,
        Origin.PARTITION: source.partition,
        Origin.OFFSET: offset,
        Origin.TIMESTAMP: time_ms,
    }


def left(
    steps: Sequence[InPlaceStep],
    headers: Headers,
    value: bytes | None,
    place: Mapping[Origin, object],
) -> list[tuple[str, bytes | None]] | None:
    """A record's headers after the steps; None: it is filtered out."""
    found = list(headers)
    for step in steps:
        match step:
            case HasHeader(name, is_kept):
                if any(each == name for each, _ in found) is not is_kept:
                    return None
            case HasValue():
                if value is None:
                    return None
            case DropHeaders(names):
                found = [each for each in found if each[0] not in names]
            case RenameHeaders(pairs):
                first = dict(reversed(pairs))
                found = [(first.get(name, name), content) for name, content in found]
            case InsertHeaders(new):
                found += [(name, text.encode()) for name, text in new]
            case InsertOrigin(new, cluster):
                texts = {**place, Origin.CLUSTER: cluster}
                found += [(name, str(texts[what]).encode()) for name, what in new]
            case _:
                assert_never(step)
    return found


def random_steps(rng: random.Random) -> list[InPlaceStep]:
    """Some steps, of each kind now and then."""
    made: list[InPlaceStep] = []
    for _ in range(rng.randrange(1, 5)):
        one, two = rng.choice(NAMES), rng.choice(NAMES)
        kinds: list[InPlaceStep] = [
            HasHeader(one, is_kept=rng.random() < 0.3),
            HasValue(),
            DropHeaders((one, two)),
            RenameHeaders(((one, two), (two, "new"), (one, "never"))),
            InsertHeaders(((one, "summit's"), (two, ""), ("x", "ü" * rng.randrange(90)))),
            InsertOrigin(
                tuple(
                    (rng.choice(NAMES), rng.choice([*Origin])) for _ in range(rng.randrange(1, 4))
                ),
                CLUSTER,
            ),
        ]
        made.append(rng.choice(kinds))
    return made


def random_headers(rng: random.Random) -> Headers:
    """None, few or many headers of those names."""
    count = rng.choice([0, 1, 2, 3, 150])
    return tuple((rng.choice(NAMES), rng.choice([None, b"", b"\xff" * 70])) for _ in range(count))
