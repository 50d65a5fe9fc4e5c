"""One fact, one line: what does not work is told when it begins, and when it is over."""

from __future__ import annotations

import io
import itertools

from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, TlsFailed
from heliostat.link.troubles import REPORTS, SETTLES_S, START, Troubles, duration
from heliostat.ops.events import Events, joined

LOOPS = ("ownership", "report", "topics", "groups", "gaps")


class Hands:
    """A clock that the test sets."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Told:
    """The troubles of one link, and its log."""

    def __init__(self, behind: int | None = None) -> None:
        self.clock, self._out = Hands(), io.StringIO()
        events = Events(self.clock.wall_ms, self._out).of("l")
        aliases = {"base (b:9092)": "base", "summit (s:9092)": "summit"}
        self.troubles = Troubles(aliases, self.clock, events, lambda: behind)

    def fails(self, part: str, error: HeliostatError) -> None:
        self.troubles.failed(part, error)
        self.clock.now_s += 1

    def lines(self) -> list[str]:
        return [line.split(" ", 1)[1] for line in self._out.getvalue().splitlines()]


def lost(words: str, where: str = "base (b:9092)") -> ConnectionLost:
    return ConnectionLost(f"{words} {where}", hint="look there")


def test_an_outage_that_all_parts_notice_is_one_line_and_its_end_another() -> None:
    """Given a cluster that is away for 4 minutes / then two lines of the six loops' failures."""
    told = Told(behind=27_000)
    for number, part in zip(range(240), itertools.cycle((*LOOPS, REPORTS)), strict=False):
        told.fails(part, lost(f"{number}: no answer of"))
    for _ in range(round(SETTLES_S) + 2):
        for part in (*LOOPS, REPORTS):
            told.troubles.works(part)
        told.clock.now_s += 1
    assert told.lines() == [
        (
            "WARN link l: ownership is tried again: [CONNECTION_LOST] 0: no answer of base "
            "(b:9092) (hint: look there)"
        ),
        "INFO link l: base answers again after 4 min, 240 failures; 27,000 records behind",
    ]


def test_a_cluster_is_known_by_its_alias_as_well() -> None:
    """Given a broker of a cluster that has closed its connection / then that cluster is told."""
    told = Told()
    told.fails("topics", ConnectionLost("the broker closed the connection", cluster="base"))
    told.fails("groups", lost("no answer of"))
    told.clock.now_s += SETTLES_S
    told.troubles.works("topics")
    told.troubles.works("groups")
    assert len(told.lines()) == 2
    assert told.lines()[-1].startswith("INFO link l: base answers again")


def test_a_request_that_succeeds_between_two_that_fail_ends_nothing() -> None:
    """One of three brokers is away: what it leads fails, and the next request succeeds."""
    told = Told()
    for _ in range(60):
        told.fails("topics", lost("broker 2 of"))
        told.troubles.works("topics")
    told.clock.now_s += SETTLES_S
    told.troubles.works("report")
    assert [line.split()[0] for line in told.lines()] == ["WARN", "INFO"]


def test_a_part_that_still_fails_keeps_a_trouble_from_being_over() -> None:
    told = Told()
    told.fails("topics", lost("no answer of"))
    told.fails("groups", lost("no answer of"))
    told.clock.now_s += SETTLES_S
    told.troubles.works("topics")
    assert len(told.lines()) == 1
    told.troubles.works("groups")
    assert len(told.lines()) == 2


def test_both_clusters_and_each_cause_are_told_apart() -> None:
    told = Told()
    told.fails("topics", lost("no answer of"))
    told.fails("reports", lost("no answer of", "summit (s:9092)"))
    told.fails("groups", TlsFailed("certificate expired at base (b:9092)"))
    told.fails("gaps", BrokerError("no right", kafka_code=29))
    told.fails("gaps", BrokerError("no right", kafka_code=29))
    assert len(told.lines()) == 4


def test_a_link_that_starts_anew_waits_for_none_of_its_former_loops() -> None:
    told = Told()
    for part in (START, *LOOPS):
        told.fails(part, lost("no answer of"))
    told.clock.now_s += SETTLES_S
    told.troubles.works(START)
    assert told.lines()[1] == "INFO link l: base answers again after 5 s, 6 failures"


def test_what_brokers_say_while_another_is_away_is_the_same_trouble() -> None:
    told = Told()
    told.fails("topics", lost("no answer of"))
    told.fails("ownership", BrokerError("timed out", kafka_code=7))
    told.fails("gaps", ConnectionLost("topic heliostat.l.gaps was not read in time"))
    assert len(told.lines()) == 1


def test_failures_are_counted_by_their_code_and_cluster() -> None:
    """Each failure counts, though only the first of a trouble is told."""
    told = Told()
    told.fails("topics", lost("no answer of"))
    told.fails("groups", lost("no answer of"))
    told.fails("gaps", BrokerError("no right", kafka_code=29))
    told.fails("gaps", BrokerError("timed out", kafka_code=7))
    counts = told.troubles.counts()
    assert counts["TOPIC_AUTHORIZATION_FAILED", ""] == 1
    assert counts["REQUEST_TIMED_OUT", "base"] == 1, "the cluster that is away"
    assert sum(counts.values()) == 4


def test_times_are_for_people() -> None:
    assert [duration(each) for each in (3.2, 119, 240, 9000)] == ["3 s", "119 s", "4 min", "2.5 h"]


def test_lines_that_differ_in_their_first_word_are_one() -> None:
    assert joined([f"t{n} is gone" for n in range(5)]) == ["t0, t1, t2 and 2 more are gone"]
    assert joined(["a is gone", "b stays", "alone"]) == ["a is gone", "b stays", "alone"]
