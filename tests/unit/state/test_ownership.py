"""Claims of a link, with simulated clocks, no two of which agree."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.errors import BrokerError, ConnectionLost, LinkTakenOver
from heliostat.invariants import first_generation, is_from_current_owner
from heliostat.names import LinkName
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.ops.events import Events
from heliostat.state.ownership import CLAIM_LASTS_MS, TELL_EVERY_S, Owner, Ownership

FENCED = 90
WAIT_S = 10.0


class Hands:
    """A clock that the test advances; actions may be scheduled on it."""

    def __init__(self, wall_ms: int = 0) -> None:
        self.now_s = 0.0
        self.wall = wall_ms
        self.as_time_passes: Callable[[], None] = lambda: None

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return self.wall + round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += max(seconds, 0.001)
        self.as_time_passes()


class Topic:
    """The state topic with its coordinator."""

    def __init__(self) -> None:
        self.owner: Owner | None = None
        self.epoch = 0
        self.writes = 0
        self.is_away = False
        self.refuses_with = 0


class Store:
    """One instance's view of the topic."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.epoch = -1
        self.after_fence: Callable[[], None] = lambda: None
        self.claims_heard = 0

    def _ask(self) -> None:
        if self.topic.is_away:
            raise ConnectionLost("away")

    def fence_owner(self) -> None:
        self._ask()
        self.topic.epoch += 1
        self.epoch = self.topic.epoch
        happened, self.after_fence = self.after_fence, lambda: None
        happened()

    @property
    def may_put_owner(self) -> bool:
        return self.epoch >= 0

    def put_owner(self, owner: Owner) -> None:
        epoch, self.epoch = self.epoch, -1
        self._ask()
        if epoch != self.topic.epoch:
            raise BrokerError("fenced", kafka_code=FENCED)
        if self.topic.refuses_with:
            raise BrokerError("refused", kafka_code=self.topic.refuses_with)
        self.epoch = epoch
        self.topic.owner = owner
        self.topic.writes += 1

    def read_owner(self) -> Owner | None:
        self._ask()
        return self.topic.owner

    def watch_owner(self, *, anew: bool) -> Owner | None:
        del anew
        return self.read_owner()

    def last_claim(self) -> int:
        return self.claims_heard


class Instance:
    """An `Ownership` with all it needs."""

    def __init__(self, topic: Topic, wall_ms: int = 0) -> None:
        self.hands = Hands(wall_ms)
        self.store = Store(topic)
        self.events = Events(self.hands.wall_ms, None)
        self.must_stop = False
        self.ownership = Ownership(
            LinkName("east-to-west"),
            self.store,
            clock=self.hands,
            events=self.events,
            must_stop=lambda: self.must_stop,
        )

    @property
    def waited(self) -> bool:
        return "waiting for its owner" in self.told()

    def told(self) -> str:
        return "\n".join(self.events.recent(100))


def owned(topic: Topic, wall_ms: int = 0) -> Instance:
    instance = Instance(topic, wall_ms)
    assert instance.ownership.claim()
    return instance


def test_the_first_claims_at_once() -> None:
    """Given a link that nobody drives / when claimed / then without a wait, as its first owner."""
    instance = owned(Topic())
    assert (instance.hands.now_s, instance.waited) == (0.0, False)
    assert instance.ownership.claim_number == 1


def test_a_resigned_predecessor_is_not_waited_for() -> None:
    """Given a clean stop / when another claims / then at once, and as the second owner."""
    topic = Topic()
    owned(topic).ownership.resign()
    second = owned(topic)
    assert (second.hands.now_s, second.ownership.claim_number) == (0.0, 2)


@pytest.mark.parametrize("wall_ms", [0, 10**12, -(10**12)])
def test_a_silent_predecessor_is_waited_for_by_the_standbys_own_clock(wall_ms: int) -> None:
    """Given 20 s announced and wall clocks that disagree / when claimed / then after 20 s."""
    topic = Topic()
    first = owned(topic)
    first.ownership.keep(20.0)
    second = owned(topic, wall_ms)
    assert 20.0 <= second.hands.now_s < 20.5
    assert second.waited
    assert "waiting" in second.told()
    assert "takes over" in second.told()


def test_each_renewal_restarts_the_wait_and_is_logged_once_a_minute() -> None:
    """Given an owner that renews for five minutes / when waited for / then until it is silent."""
    topic = Topic()
    first = owned(topic)
    second = Instance(topic)

    def renew() -> None:
        if second.hands.now_s < 300 and second.hands.now_s - first.hands.now_s > 2:
            first.hands.now_s = second.hands.now_s
            first.ownership.keep(6.0)

    second.hands.as_time_passes = renew
    assert second.ownership.claim()
    assert 304 <= second.hands.now_s < 310 + CLAIM_LASTS_MS / 1000
    assert second.told().count("waiting") == 1 + 300 // TELL_EVERY_S


def test_a_stop_ends_the_wait_without_a_takeover() -> None:
    """Given a waiting standby / when stopped / then at once, and the record is unchanged."""
    topic = Topic()
    first = owned(topic)
    first.ownership.keep(3600.0)
    record = topic.owner
    second = Instance(topic)

    def stop() -> None:
        second.must_stop = second.hands.now_s > 5

    second.hands.as_time_passes = stop
    assert not second.ownership.claim()
    assert second.hands.now_s < 6
    assert topic.owner == record
    first.ownership.keep(6.0)


def test_a_stop_just_before_the_takeover_prevents_it() -> None:
    """Given a fenced predecessor / when the stop comes then / then its record is unchanged."""
    topic = Topic()
    first = owned(topic)
    second = Instance(topic)
    second.store.after_fence = lambda: setattr(second, "must_stop", True)
    assert not second.ownership.claim()
    assert topic.owner is not None
    assert topic.owner.instance == first.ownership.instance


def test_an_owner_that_renews_between_the_wait_and_the_fence_stays() -> None:
    """Given a record that changes at the last moment / when claimed / then the wait restarts."""
    topic = Topic()
    first = owned(topic)
    second = Instance(topic)

    def renew() -> None:
        first.hands.now_s = second.hands.now_s
        first.ownership.keep(50.0)

    second.store.after_fence = renew
    assert second.ownership.claim()
    assert second.hands.now_s >= 50.0


def test_an_owner_that_renews_just_before_the_fence_stays() -> None:
    """Given a record that changes between the last read and the fence / then the wait restarts."""
    topic = Topic()
    first = owned(topic)
    second = Instance(topic)
    fence = second.store.fence_owner

    def renewed_before() -> None:
        second.store.fence_owner = fence  # type: ignore[method-assign]  # the first time only
        first.hands.now_s = second.hands.now_s
        first.ownership.keep(50.0)
        fence()

    second.store.fence_owner = renewed_before  # type: ignore[method-assign]  # as above
    assert second.ownership.claim()
    assert second.hands.now_s >= 50.0


def test_an_older_version_that_resigned_is_not_waited_for() -> None:
    """Given its record without a duration / when another claims / then at once."""
    topic = Topic()
    older = {"instance": "x", "host": "h", "pid": 1, "deadline_ms": 77, "resigned": True}
    topic.owner = Owner.from_json(older)
    assert owned(topic).hands.now_s == 0.0


def test_an_owner_that_slept_learns_of_a_takeover_before_it_acts() -> None:
    """Given a takeover meanwhile / when the first only keeps its claim / then it is rejected."""
    topic = Topic()
    first = owned(topic)
    first.ownership.keep(6.0)
    first.ownership.hold(6.0)
    owned(topic)
    first.hands.now_s = 3600
    with pytest.raises(LinkTakenOver):
        first.ownership.hold(6.0)
    assert not first.ownership.is_ours


def test_of_two_that_claim_at_once_one_wins_and_the_other_waits() -> None:
    """Given two past the wait / when one fences the other / then there is one owner."""
    topic = Topic()
    winner, loser = Instance(topic), Instance(topic)
    loser.store.after_fence = lambda: assert_true(winner.ownership.claim())

    def stop() -> None:
        loser.must_stop = loser.waited

    loser.hands.as_time_passes = stop
    assert not loser.ownership.claim()
    assert topic.owner is not None
    assert topic.owner.instance == winner.ownership.instance
    winner.ownership.keep(6.0)


def assert_true(value: object) -> None:
    assert value


def test_a_predecessor_that_wakes_up_learns_of_its_successor() -> None:
    """Given a takeover / when the first announces / then it is rejected, and writes no more."""
    topic = Topic()
    first = owned(topic)
    second = owned(topic)
    writes = topic.writes
    first.hands.now_s = 3600
    for act in (
        lambda: first.ownership.keep(9.0),
        lambda: first.ownership.keep(6.0),
        lambda: first.ownership.hold(6.0),
    ):
        with pytest.raises(LinkTakenOver, match="LINK_TAKEN_OVER"):
            act()
    first.ownership.resign()
    assert topic.writes == writes
    assert topic.owner is not None
    assert topic.owner.instance == second.ownership.instance
    second.ownership.keep(6.0)


def test_an_owner_fenced_by_a_standby_that_died_continues() -> None:
    """Given a standby that fenced and died / when the owner announces / then it keeps the link."""
    topic = Topic()
    first = owned(topic)
    Store(topic).fence_owner()
    first.ownership.keep(30.0)
    assert topic.owner is not None
    assert (topic.owner.instance, topic.owner.lasts_ms) == (first.ownership.instance, 30_000)


def test_an_owner_whose_record_was_deleted_rewrites_it() -> None:
    """Given a state topic that was deleted / when the owner renews / then it is there again."""
    topic = Topic()
    first = owned(topic)
    topic.owner = None
    first.ownership.keep(6.0)
    assert topic.owner is not None


def test_a_deleted_topic_does_not_keep_its_owner_from_recreating_it() -> None:
    """Given no topic to write to / when the owner checks whether it may act / then it may."""
    topic = Topic()
    first = owned(topic)
    first.hands.now_s += 100
    topic.refuses_with = UNKNOWN_TOPIC_OR_PARTITION
    first.ownership.hold(6.0)
    with pytest.raises(BrokerError):
        first.ownership.keep(9.0)


def test_time_without_the_target_is_not_counted_against_the_owner() -> None:
    """Given a target away for longer than announced / when it is back / then the wait restarts."""
    topic = Topic()
    owned(topic)
    second = Instance(topic)

    def away() -> None:
        topic.is_away = 3 < second.hands.now_s < 60

    second.hands.as_time_passes = away
    assert second.ownership.claim()
    assert second.hands.now_s >= 60 + CLAIM_LASTS_MS / 1000


def test_a_target_that_is_unreachable_from_the_start_is_reported() -> None:
    """Given no target / when claimed / then it fails at once, as a start without a target does."""
    topic = Topic()
    topic.is_away = True
    with pytest.raises(ConnectionLost):
        Instance(topic).ownership.claim()


def test_a_check_within_the_claim_costs_no_write_whatever_wall_clocks_show() -> None:
    topic = Topic()
    first = owned(topic)
    first.ownership.keep(20.0)
    writes = topic.writes
    first.hands.wall -= 10**9
    first.hands.now_s += 19.0
    first.ownership.hold(6.0)
    assert topic.writes == writes
    first.hands.now_s += 2.0
    first.ownership.hold(6.0)
    assert topic.writes == writes + 1
    assert topic.owner is not None
    assert topic.owner.lasts_ms == 6_000


def test_a_renewal_never_shortens_what_was_announced() -> None:
    """Given 20 s announced / when renewed for 6 s after 5 / then it lasts 15 more."""
    topic = Topic()
    first = owned(topic)
    first.ownership.keep(20.0)
    first.hands.now_s += 5
    first.ownership.keep(6.0)
    assert topic.owner is not None
    assert topic.owner.lasts_ms == 15_000


def test_a_check_within_the_claim_does_not_wait_for_another_threads_write() -> None:
    """Given a write that a hung broker delays / when the claim is checked / then at once."""
    topic = Topic()
    first = owned(topic)
    first.ownership.keep(20.0)
    is_asked, goes_on = threading.Event(), threading.Event()
    put = first.store.put_owner

    def held_up(owner: Owner) -> None:
        is_asked.set()
        assert goes_on.wait(WAIT_S)
        put(owner)

    first.store.put_owner = held_up  # type: ignore[method-assign]  # as a broker that hangs
    keeping = threading.Thread(target=first.ownership.keep, args=(30.0,))
    keeping.start()
    try:
        assert is_asked.wait(WAIT_S)
        PendingAnswer(lambda: first.ownership.hold(6.0), "hold").answer(WAIT_S)
        again = PendingAnswer(lambda: first.ownership.keep(6.0), "keep")
        with pytest.raises(NoAnswerYet):
            again.answer(0.05)
    finally:
        goes_on.set()
        keeping.join(WAIT_S)
    again.answer(WAIT_S)


def test_no_announcement_holds_after_resigning() -> None:
    """Given 20 s announced / when resigning fails, though it may have landed / then none holds."""
    topic = Topic()
    first = owned(topic)
    first.ownership.keep(20.0)
    topic.is_away = True
    with pytest.raises(ConnectionLost):
        first.ownership.resign()
    with pytest.raises(ConnectionLost):
        first.ownership.hold(1.0)
    with pytest.raises(ConnectionLost):
        first.ownership.keep(1.0)


def test_claims_continue_from_the_last_one_that_lanes_know() -> None:
    """Given a state topic that was lost / when claimed / then lanes accept the new owner."""
    instance = Instance(Topic())
    instance.store.claims_heard = 41
    assert instance.ownership.claim()
    claim = instance.ownership.claim_number
    assert claim == 42
    assert is_from_current_owner(claim, first_generation(claim) + 5)
    assert is_from_current_owner(claim + 1, first_generation(claim) + 5)
    assert not is_from_current_owner(claim - 1, first_generation(claim) + 5)


def test_records_are_read_back_and_older_ones_too() -> None:
    """Given what this version and the one before wrote / when read / then an owner with a time."""
    owner = replace(Owner.here(5), claim=3, renewal=9, lasts_ms=1234)
    assert Owner.from_json(owner.to_json()) == owner
    older = {"instance": "x", "host": "h", "pid": 1, "deadline_ms": 77, "resigned": False}
    assert Owner.from_json(older).lasts_ms == 60_000
