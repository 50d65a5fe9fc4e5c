"""When a link that halted begins again, as a table."""

from __future__ import annotations

import pytest

from heliostat.errors import (
    BrokerError,
    ConfigError,
    LinkTakenOver,
    ProtocolError,
    StateIncomplete,
)
from heliostat.wishes.restarts import Cure, Phase, RestartMemory, cure_of, pause_s

MINUTE_MS = 60_000
BAD = ProtocolError("a record that is not ours")


@pytest.mark.parametrize(
    ("count", "minutes"),
    [(0, 0), (1, 2), (2, 6), (3, 12), (4, 20), (5, 30), (6, 42), (7, 56), (8, 60), (1000, 60)],
)
def test_pauses_grow_to_an_hour(count: int, minutes: int) -> None:
    assert pause_s(count) == 60 * minutes


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (BAD, Cure.TIME),
        (StateIncomplete("rows are gone"), Cure.TIME),
        (BrokerError("refused", kafka_code=44), Cure.TIME),
        (ValueError("a bug"), Cure.TIME),
        (ConfigError("one cluster"), Cure.CONFIGURATION),
        (LinkTakenOver("by another"), Cure.STANDBY),
    ],
)
def test_what_may_cure_it(error: Exception, cure: Cure) -> None:
    assert cure_of(error) is cure


def test_it_begins_again_later_each_time_until_it_gives_up() -> None:
    """Given a limit of 3 / when it halts again and again / then after 0, 2, 6 min, and no more."""
    memory, waited = RestartMemory(), list[float | None]()
    for _ in range(4):
        memory = memory.halted(BAD, 1_000, 3)
        waited.append(None if memory.next_ms is None else (memory.next_ms - 1_000) / MINUTE_MS)
        if memory.phase is Phase.WAITS:
            memory = memory.tried().runs()
            assert not memory.is_halted
    assert waited == [0, 2, 6, None]
    assert memory.phase is Phase.GAVE_UP
    assert (memory.count, memory.total) == (3, 3)
    assert "given up after 3 restarts" in memory.text(1_000)
    assert memory.code == "PROTOCOL"


@pytest.mark.parametrize(
    ("error", "limit", "phase"),
    [
        (BAD, 7, Phase.WAITS),
        (BAD, 0, Phase.GAVE_UP),
        (ConfigError("one cluster"), 7, Phase.REFUSED),
        (ConfigError("one cluster"), 0, Phase.GAVE_UP),
        (ValueError("a bug"), 7, Phase.WAITS),
    ],
)
def test_what_becomes_of_a_link_that_halts(error: Exception, limit: int, phase: Phase) -> None:
    memory = RestartMemory().halted(error, 5, limit, "a.host")
    assert memory.phase is phase
    assert (memory.halted_ms, memory.host) == (5, "a.host")


def test_after_a_quiet_time_it_counts_from_zero_and_keeps_the_total() -> None:
    memory = (
        RestartMemory().halted(BAD, 0, 7).tried().runs().halted(BAD, 0, 7).tried().runs().quiet()
    )
    assert (memory.count, memory.total, memory.code) == (0, 2, "PROTOCOL")
    assert memory.halted(BAD, 9, 7).next_ms == 9


@pytest.mark.parametrize(
    ("now_ms", "text"),
    [
        (1_000, "it begins again in 2 min (restart 2 of 7)"),
        (111_000, "it begins again in 10 s (restart 2 of 7)"),
        (121_000, "it begins again at once (restart 2 of 7)"),
        (999_000, "it was to begin again, and no driver has done so (restart 2 of 7)"),
    ],
)
def test_it_tells_when(now_ms: int, text: str) -> None:
    memory = RestartMemory().halted(BAD, 0, 7).tried().runs().halted(BAD, 1_000, 7)
    assert memory.text(now_ms) == text


def test_a_row_is_read_as_it_was_written() -> None:
    memory = RestartMemory().halted(BAD, 5, 7, "a.host")
    assert RestartMemory.from_json(memory.to_json()) == memory
    with pytest.raises((ValueError, LookupError, TypeError)):
        RestartMemory.from_json({**memory.to_json(), "phase": "asleep"})
