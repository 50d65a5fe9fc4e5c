"""Points are kept while InfluxDB is away, within bounds; each trouble is told once and ends."""

from __future__ import annotations

import gzip
import random
from collections import deque
from collections.abc import Callable

import pytest
from unit.serve.test_app import StillClock

from heliostat.config.influx import InfluxConfig
from heliostat.metrics import families as f
from heliostat.metrics.influx import writer
from heliostat.metrics.influx.backlog import BYTES_MAX, Backlog, batch_of
from heliostat.metrics.influx.over_http import Outcome, outcome_of
from heliostat.metrics.influx.writer import InfluxWriter
from heliostat.metrics.text import Samples, labels
from heliostat.ops.events import Events

EFD_TOPICS = 3_348
CONFIG = InfluxConfig.model_validate({"url": "http://127.0.0.1:8086"})
AWAY = Outcome(is_over=False, why="nobody listens")
WRITTEN = Outcome(is_over=True)


class Influx:
    """What InfluxDB answers, and the lines it has taken."""

    def __init__(self) -> None:
        self.answers: deque[Outcome] = deque()
        self.always = WRITTEN
        self.lines: list[str] = []

    def send(self, body: bytes, points: int) -> Outcome:
        outcome = self.answers.popleft() if self.answers else self.always
        rows = gzip.decompress(body).decode().split("\n")
        assert len(rows) == points
        if outcome.is_over:
            self.lines += rows
        return outcome


class Stage:
    """A writer whose threads a test is."""

    def __init__(self, measure: Callable[[Samples], None] | None = None) -> None:
        self.clock = StillClock()
        self.influx, self.events = Influx(), Events(lambda: 0, None)
        self.writer = InfluxWriter(
            CONFIG, measure or self.measure, self.events, self.clock, self.influx
        )

    def measure(self, samples: Samples) -> None:
        samples.add(f.LANES, labels({"link": "l", "source": "a", "target": "b"}), 1)

    def turn(self) -> None:
        """Let an interval pass: points are made, and sent if that works."""
        self.writer.make()
        while self.writer.send_oldest():
            pass
        self.clock.now_s += CONFIG.every_s

    def counted(self) -> list[float]:
        samples = Samples()
        self.writer.write(samples)
        rows = [line for line in samples.text().splitlines() if not line.startswith("#")]
        return [float(line.rpartition(" ")[2]) for line in rows[:4]]

    def told(self) -> list[str]:
        return [line.split(" ", 1)[1] for line in self.events.recent(99)]


def test_nothing_is_lost_while_it_is_away_for_a_while() -> None:
    stage = Stage()
    stage.influx.always = AWAY
    for _ in range(60):
        stage.turn()
    assert stage.counted() == [0, 0, 0, 60]
    stage.influx.always = WRITTEN
    stage.turn()
    assert len(stage.influx.lines) == 61
    assert stage.counted() == [61, 0, 0, 0]
    away, back = stage.told()
    assert away.startswith("WARN InfluxDB at http://127.0.0.1:8086, database heliostat: does not")
    assert "nobody listens" in away
    assert back.startswith("INFO")
    assert "takes points again" in back


def test_what_waited_too_long_is_dropped_counted_and_told_once() -> None:
    stage = Stage()
    stage.influx.always = AWAY
    for _ in range(100):
        stage.turn()
    waiting = stage.counted()[3]
    assert stage.counted() == [0, 0, 100 - waiting, waiting]
    assert waiting == CONFIG.keep_s / CONFIG.every_s + 1
    assert sum("dropped" in line for line in stage.told()) == 1
    stage.influx.always = WRITTEN
    stage.turn()
    assert any("INFO" in line and "no more points are dropped" in line for line in stage.told())


def test_refused_points_are_told_once_counted_and_not_sent_again() -> None:
    stage = Stage()
    for _ in range(6):
        stage.influx.answers += [Outcome(is_over=True, refused=1, why="status 400: type"), WRITTEN]
        stage.turn()
        stage.turn()
    assert stage.counted()[:3] == [6, 6, 0]
    assert sum("refuses points" in line for line in stage.told()) == 1
    for _ in range(10):
        stage.turn()
    assert "refuses no more points" in stage.told()[-1]


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    noise = random.Random(1)
    backlog, dropped = Backlog(600, bytes_max=10_000), 0
    for second in range(50):
        batch = batch_of(second, [noise.randbytes(400).hex()])
        dropped += backlog.add(batch, second)
        assert backlog.size <= 10_000
    assert dropped == 50 - backlog.points
    oldest = backlog.oldest()
    assert oldest is not None
    assert oldest.at_s == dropped
    assert backlog.remove(oldest)
    assert not backlog.remove(oldest), "it is there once"


@pytest.mark.parametrize(
    ("status", "content", "is_over", "refused"),
    [
        (204, b"", True, 0),
        (400, b'{"error":"partial write: field type conflict: x dropped=3"}', True, 3),
        (
            400,
            b"{\"error\":\"unable to parse 'a': x\\nunable to parse 'b': y dropped=0\"}",
            True,
            2,
        ),
        (413, b"", True, 9),
        (404, b'{"error":"database not found: \\"nope\\""}', False, 0),
        (401, b'{"error":"authorization failed"}', False, 0),
        (500, b'{"error":"timeout"}', False, 0),
        (503, b"<html>", False, 0),
        (200, b"<html>", False, 0),
        (307, b"", False, 0),
    ],
)
def test_only_points_that_are_bad_themselves_are_given_up(
    status: int, content: bytes, is_over: bool, refused: int
) -> None:
    outcome = outcome_of(status, content, 9)
    assert (outcome.is_over, outcome.refused) == (is_over, refused)
    assert bool(outcome.why) == (status != 204)


def test_ten_minutes_of_an_efd_fit() -> None:
    """Given 3,348 topics of which each figure changes / when InfluxDB is away for 10 minutes /

    then nothing is dropped, and all takes less than half of the room.
    """
    noise = random.Random(1)
    names = [labels({"link": "l", "source": "summit", "target": "usdf", "topic":
             f"lsst.sal.MTM1M3.logevent_{number}"}) for number in range(EFD_TOPICS)]  # fmt: skip
    figures = f.LAG_RECORDS, f.LAG_SECONDS, f.LAG_UNKNOWN, f.RECORDS_COPIED, f.BYTES_COPIED

    def measure(samples: Samples) -> None:
        for name in names:
            for family in figures:
                samples.add(family, name, noise.randrange(1_000_000))
            samples.add(f.TOPIC_PARTITIONS, f'{name},state="copying"', 1)

    stage = Stage(measure)
    stage.influx.always = AWAY
    turns = 2
    for _ in range(turns):
        stage.turn()
    assert stage.counted()[2:] == [0, turns * EFD_TOPICS]
    size = stage.writer._backlog.size
    assert size / turns * CONFIG.keep_s / CONFIG.every_s < BYTES_MAX / 2


def test_threads_make_and_send_points_and_end() -> None:
    stage = Stage()
    stage.writer.start()
    try:
        for _ in range(500):
            if stage.influx.lines:
                break
            writer.threading.Event().wait(0.01)
        assert stage.influx.lines
    finally:
        stage.writer.stop()
