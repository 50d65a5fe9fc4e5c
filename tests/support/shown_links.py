"""The service with invented links, for eyes and for tests of the page: no broker, no lane.

`python tests/support/shown_links.py --port 8093` serves until it is ended; its first line is the
address. The figures move each second, as those of an observatory do.
"""

from __future__ import annotations

import argparse
import math
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import uvicorn
from typing_extensions import override

from heliostat.clock import SystemClock
from heliostat.config import Config, ConfigFile
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.history import Past
from heliostat.records.copier.lane import PartitionReport, PartitionState, RoundReport
from heliostat.records.transport.progress_reports import LaneProgress
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.jobs import Jobs
from heliostat.serve.watch import Watch
from heliostat.status.history import COARSE_S, FINE_S, Point
from heliostat.wishes.wish import Wishes

VERIFY = Path(__file__).with_name("shown_verify.py")
"""What stands for `heliostat verify`."""
HOST_NAMES = ("127.0.0.1", "localhost")
SYSTEMS = [
    "MTM1M3",
    "MTM2",
    "MTMount",
    "MTRotator",
    "MTDome",
    "MTHexapod",
    "MTAOS",
    "MTPtg",
    "ATCamera",
    "ATDome",
    "ATMCS",
    "ATPtg",
    "CCCamera",
    "ESS",
    "EFD",
    "GIS",
    "Guider",
    "HVAC",
    "LaserTracker",
    "LinearStage",
    "Scheduler",
    "ScriptQueue",
    "Test",
    "Watcher",
]
TELEMETRY = [
    "forceActuatorData",
    "appliedBalanceForces",
    "appliedElevationForces",
    "azimuth",
    "elevation",
    "rotation",
    "temperature",
    "quadbox",
    "actuators",
    "mount_AzEl_Encoders",
    "accelerometer",
    "airFlow",
    "pressure",
    "electrical",
]
LOGEVENT = [
    "state",
    "errorCode",
    "heartbeat",
    "summaryState",
    "softwareVersions",
    "simulationMode",
    "logLevel",
]
BEHIND_S = 150.0
PORT, PARTITION_COUNT, LANES = 8093, 5_000, 2
DAY_MS, FINE_POINTS_MS = 86_400_000, 900_000
LINKS = (("summit-to-usdf", "summit", "usdf"), ("usdf-to-summit", "usdf", "summit"))
STOPPED = {
    211: (
        PartitionState.GAP,
        "SOURCE_OVERTOOK",
        "records 8804 to 10003 are gone at the source before they were copied",
    ),
    1_207: (
        PartitionState.BLOCKED,
        "TOO_LARGE",
        "record 41022 has 1,310,720 bytes, the target accepts 1,048,588",
    ),
    1_208: (PartitionState.BLOCKED, "SCHEMA_UNREADABLE", "schema 4711 can't be read at the target"),
    3_900: (PartitionState.DIVERGED, "FOREIGN_TAIL", "another producer wrote the last record"),
    2_411: (PartitionState.RETRYING, "NOT_LEADER_OR_FOLLOWER", "broker 2 leads it no more"),
    2_412: (PartitionState.RETRYING, "NOT_LEADER_OR_FOLLOWER", "broker 2 leads it no more"),
}


class ShiftedClock(SystemClock):
    """A clock that can be set back, to write what happened before, and that may run faster.

    Parameters
    ----------
    pace
        Seconds it shows for each that passes.
    """

    def __init__(self, pace: int = 1) -> None:
        self.ago_ms = 0
        self.pace = pace
        self._began_ms, self._began_s = super().wall_ms(), super().monotonic_s()

    @override
    def wall_ms(self) -> int:
        passed_ms = super().wall_ms() - self._began_ms
        return self._began_ms + passed_ms * self.pace - self.ago_ms

    @override
    def monotonic_s(self) -> float:
        return self._began_s + (super().monotonic_s() - self._began_s) * self.pace


@dataclass
class Shown:
    """A partition and how it moves."""

    report: PartitionReport
    rate: float
    behind: float = 0.0
    """Seconds."""
    counted: float = field(default_factory=random.random)


def names(count: int) -> list[str]:
    """Return names of topics, as an observatory's."""
    made: list[str] = []
    for number in range(count):
        system = SYSTEMS[number % len(SYSTEMS)]
        turn = number // len(SYSTEMS)
        kinds = TELEMETRY if turn % 3 == 0 else [f"logevent_{name}" for name in LOGEVENT]
        kind = kinds[(turn // 3) % len(kinds)] if turn % 3 != 2 else "ackcmd"
        more = turn // (3 * len(kinds)) if turn % 3 != 2 else turn // 3
        made.append(f"lsst.sal.{system}.{kind}" + (f"_{more}" if more else ""))
    return list(dict.fromkeys(made))


def partitions(topics: int, count: int, now_ms: int, *, is_troubled: bool) -> list[Shown]:
    """Return partitions: few busy, most quiet, some behind, a handful stopped."""
    luck = random.Random(7)  # the same picture each time
    rows: list[Shown] = []
    wide, rest = divmod(max(0, count - topics), 3)
    for place, name in enumerate(sorted(names(topics * 2))[:topics]):
        is_wide = place * wide // topics != (place - 1) * wide // topics
        for number in range((4 if is_wide else 1) + (rest if place == 0 else 0)):
            partition = TopicPartition(TopicName(name), PartitionId(number))
            quiet = luck.random() < 0.7
            rate = 0.0 if quiet else min(120.0, luck.paretovariate(0.9) * 0.05)
            end = luck.randrange(1_000, 9_000_000)
            report = PartitionReport(
                partition,
                partition,
                PartitionState.COPYING,
                end,
                end,
                0,
                0,
                now_ms,
                now_ms,
                now_ms - luck.randrange(60_000, 9_000_000),
                target_end=end,
            )
            rows.append(Shown(report, rate))
    if is_troubled:
        _trouble(rows, now_ms)
    return rows


def _trouble(rows: list[Shown], now_ms: int) -> None:
    for place, (state, code, reason) in STOPPED.items():
        if place < len(rows):
            shown = rows[place]
            end = shown.report.position + 1_200
            shown.report = replace(
                shown.report,
                state=state,
                code=code,
                reason=reason,
                high_watermark=end,
                missing_ms=now_ms - (240_000 if state.is_stopped else 2_000),
                since_ms=now_ms - 240_000 + place * 20,
            )
            shown.rate = 0.0
    for shown in rows[1_600:1_683]:
        shown.behind, shown.rate = BEHIND_S, max(shown.rate, 2.0)
        position = shown.report.position - int(BEHIND_S * shown.rate)
        shown.report = replace(shown.report, position=max(0, position), target_end=max(0, position))
    for shown in rows[4_500:4_506]:
        shown.report = replace(shown.report, is_end_old=True)
        shown.rate = 0.0


def reported(wishes: Wishes) -> dict[str, object]:
    """Return the wishes' part of a driver's report."""
    of_link, pauses = wishes.of_link(), list(wishes.pauses())
    named = [{"place": str(wish.place), **wish.to_json()} for wish in pauses[:20]]
    return {
        "link": None if of_link is None else of_link.to_json(),
        "paused": named,
        "paused_count": len(pauses),
        "limits": [{"topic": each.topic, **each.to_json()} for each in wishes.levels.limits()],
        "preferences": [
            {"topics": each.topics, **each.to_json()} for each in wishes.levels.preferences()
        ],
    }


class Feed:
    """Reports for one link, once a second.

    Parameters
    ----------
    watch
        Takes them.
    link
        Name of the link.
    """

    def __init__(self, watch: Watch, link: str, rows: list[Shown]) -> None:
        self.rows = rows
        self.wishes = Wishes()
        """What is wished; it is carried out with the next report."""
        self._board = watch.follower(LinkName(link)).reports.board
        self._totals = [[0, 0] for _ in range(LANES)]
        self._turn = 0
        self._begun_ms = watch.clock.wall_ms() - 7_200_000

    def report(self, now_ms: int) -> None:
        """Move a second on."""
        self._board.consume("driver", self._driver(now_ms))
        is_whole = self._rested() or self._turn % 20 == 0
        for lane in range(LANES):
            own = self.rows[lane::LANES]
            changed = [
                shown.report for shown in own if self._moves(shown, lane, now_ms) or is_whole
            ]
            records, size = self._totals[lane]
            counts = [0] * 40
            counts[5], counts[22] = records * 19 // 20, records // 20
            report = RoundReport(
                LaneId(lane),
                1,
                0,
                records,
                size,
                "",
                changed,
                latency_ms=counts,
                lane_partitions=len(own),
                plan=1,
            )
            self._board.take_lane(LaneProgress(report, now_ms, is_whole=is_whole))
        self._turn += 1

    def _rested(self) -> bool:
        """Let those rest that are to, and the others go on; return whether any changed."""
        is_changed = False
        for shown in self.rows:
            was = shown.report
            is_paused = self.wishes.is_paused(was.source)
            if is_paused is (was.state is PartitionState.PAUSED) or was.state.is_stopped:
                continue
            state = PartitionState.PAUSED if is_paused else PartitionState.COPYING
            shown.report = replace(was, state=state, code="", reason="")
            is_changed = True
        return is_changed

    def _moves(self, shown: Shown, lane: int, now_ms: int) -> bool:
        if shown.rate == 0 and not shown.behind:
            return False
        swell = 1 + 0.3 * math.sin(self._turn / 9 + len(shown.report.source.topic))
        shown.counted += shown.rate * swell
        new = int(shown.counted)
        shown.counted -= new
        shown.behind = max(0.0, shown.behind - 1.2) if shown.behind else 0.0
        lag = int(shown.behind * shown.rate)
        was = shown.report
        if was.state is PartitionState.PAUSED:
            lag = was.high_watermark + new - was.position
        end = was.high_watermark + new
        position = max(was.position, end - lag)
        copied = position - was.position
        if copied == 0 and new == 0 and not shown.behind:
            return False
        self._totals[lane][0] += copied
        self._totals[lane][1] += copied * 540
        shown.report = replace(
            was,
            position=position,
            high_watermark=end,
            target_end=position,
            records=was.records + copied,
            bytes=was.bytes + copied * 540,
            last_timestamp_ms=now_ms,
            caught_up_ms=now_ms if not lag else was.caught_up_ms,
            missing_ms=now_ms - int(shown.behind * 1000) if lag else -1,
        )
        return True

    def _driver(self, now_ms: int) -> dict[str, object]:
        owner = {"host": "mirror1", "pid": 4711, "since_ms": self._begun_ms}
        return {
            "state": "running",
            "at_ms": now_ms,
            "turns": 3,
            "generations": {str(lane): 1 for lane in range(LANES)},
            "instance": "a",
            "owner": owner,
            "partitions": len(self.rows),
            "wishes": reported(self.wishes),
            "limits": [
                {
                    "topic": each.topic,
                    "used_bytes_per_second": (each.bytes_per_s or 0) * 3 // 4,
                    "throttled_s": 75.0,
                }
                for each in self.wishes.levels.limits()
            ],
            "groups": {
                "groups": 12,
                "reasons": {"SYNCED": 40},
                "last_turn_ms": now_ms - 2_000,
                "rereads": {
                    "records": 48,
                    "groups": 2,
                    "unknown": 0,
                    "moving": 3,
                    "most": {"archiver": 40, "telegraf": 8},
                    "sync": True,
                },
            },
            "interchange": {
                "flows": [["base", "summit", now_ms - 900], ["summit", "usdf", now_ms]]
            },
        }


class ShownWatch(Watch):
    """A watch whose topics have an invented past."""

    @override
    def topic_past(self, link: LinkName, topic: str, since_s: float) -> Past:
        """Return a wave with a point each minute."""
        now_ms, luck = self.clock.wall_ms(), random.Random(topic)
        points = [
            Point(
                *(at_ms, 9 + 4 * math.sin(at_ms / 5e6) + luck.random(), 5e3 * luck.random(), 3),
                *(luck.random(), 2 + luck.random(), 40 + 30 * luck.random(), "copying"),
            )
            for at_ms in range(now_ms - int(since_s * 1000), now_ms, 60_000)
        ]
        return Past(link, topic, COARSE_S, points, [], [])


def _remember(watch: Watch, clock: ShiftedClock, link: str, busy: float) -> None:
    """Write a day of history and some events."""
    now_ms = clock.wall_ms()
    luck = random.Random(3)  # the same picture each time
    history = watch._links[LinkName(link)].history  # written by time alone
    for at_ms in range(now_ms - DAY_MS, now_ms, FINE_S * 1000):
        hour = at_ms / 3_600_000
        ago_s = (now_ms - at_ms) / 1000
        rate = busy * (1 + 0.3 * math.sin(hour * 0.8) + 0.08 * luck.random())
        behind = 0.3 + 0.4 * luck.random()
        is_away = 500 < ago_s < 560 or 30_000 < ago_s < 31_200
        if 380 < ago_s < 500:
            behind, rate = (ago_s - 380) / 2, rate * 1.8
        latency = 40 + 20 * luck.random() + (160 if ago_s % 7_000 < 300 else 0)
        history.add(
            Point(
                at_ms,
                0.0 if is_away else round(rate, 1),
                0.0 if is_away else round(rate * 540, 1),
                None if is_away else int(behind * rate),
                None if is_away else round(behind, 2),
                None if is_away else 2.0 + luck.random(),
                None if is_away else round(latency, 1),
                "unreachable" if is_away else "running",
            )
        )
    log = watch.follower(LinkName(link)).events
    for ago_s, level, text in (
        (50_000, "INFO", "new topic lsst.sal.MTM2.ackcmd, mirrored"),
        (31_200, "WARN", "the link is unreachable; usdf does not answer"),
        (30_000, "INFO", "the link is running"),
        (560, "WARN", "broker 2 of usdf does not answer; its 1,612 partitions wait"),
        (500, "INFO", "broker 2 of usdf answers again"),
        (380, "INFO", "caught up with 83 partitions of lsst.sal.MTM1M3"),
    ):
        clock.ago_ms = ago_s * 1000
        log.write(level, text)
    clock.ago_ms = 0


def shown_watch(topics: int, count: int, pace: int = 1) -> tuple[Watch, list[Feed], ShiftedClock]:
    """Return a watch that reads nothing, and what feeds it."""
    clusters = {"summit": {"bootstrap": "127.0.0.1:1"}, "usdf": {"bootstrap": "127.0.0.1:2"}}
    links = [{"name": name, "source": one, "target": two} for name, one, two in LINKS]
    clock = ShiftedClock(pace)
    given = {"clusters": clusters, "links": links, "metrics": {"foreign": True}}
    watch = ShownWatch(Config.model_validate(given), clock)
    now_ms = clock.wall_ms()
    feeds: list[Feed] = []
    for place, (name, _, _) in enumerate(LINKS):
        size = (topics, count) if place == 0 else (40, 60)
        rows = partitions(*size, now_ms, is_troubled=place == 0)
        feeds.append(Feed(watch, name, rows))
        _remember(watch, clock, name, 725.0 if place == 0 else 2.2)
    return watch, feeds, clock


def feed(watch: Watch, feeds: list[Feed], clock: ShiftedClock, ended: threading.Event) -> None:
    """Report each second of the clock until it is ended."""
    turn, every_s = 0, 1 / clock.pace
    while not ended.wait(max(0.0, every_s - time.time() % every_s)):
        for each in feeds:
            each.report(clock.wall_ms())
        if turn % FINE_S == 0:
            watch.note()
        turn += 1


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--topics", type=int, default=3_348)
    parser.add_argument("--partitions", type=int, default=PARTITION_COUNT)
    parser.add_argument("--pace", type=int, default=1, help="seconds shown for each that passes")
    parser.add_argument("--answers", action="store_true", help="also what clusters would answer")
    given = parser.parse_args()
    if (
        given.answers
    ):  # only then: what it loads counts into the memory of a service that is watched
        from support import shown_answers, shown_home, shown_moves, shown_wishes

        shown_answers.install()
        shown_moves.install(shown_answers.groups)
    watch, feeds, clock = shown_watch(given.topics, given.partitions, given.pace)
    home: Callable[[], ConfigFile] | None = None
    if given.answers:
        home = shown_home.install(watch.config)
        shown_wishes.install(
            feeds[0].wishes, lambda: [each.report.source for each in feeds[0].rows]
        )
    listener = socket.create_server(("127.0.0.1", given.port))
    port = listener.getsockname()[1]
    for each in feeds:
        each.report(clock.wall_ms())
    ended = threading.Event()
    threading.Thread(target=feed, args=(watch, feeds, clock, ended), daemon=True).start()
    jobs = Jobs(watch, program=(sys.executable, "-I", str(VERIFY)))
    hosts = [f"{name}:{port}" for name in HOST_NAMES]
    app = Guard(make_app(watch, jobs, file=home), hosts=hosts, tokens=None)
    print(f"http://127.0.0.1:{port}/", flush=True)
    server = uvicorn.Server(
        uvicorn.Config(app, access_log=False, log_config=None, ws="none", lifespan="off")
    )
    server.run(sockets=[listener])
    jobs.stop()
    ended.set()


if __name__ == "__main__":
    main()
