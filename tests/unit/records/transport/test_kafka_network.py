"""The network of a lane over scripted connections: throttling, buffered answers, lost brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.producer import ProduceResponse
from support.scripted_lane import (
    BROKER,
    FETCH,
    PRODUCE,
    WANT,
    Lane,
    ScriptedConnection,
    spec_of,
)

from heliostat.access import PLAINTEXT, Security
from heliostat.clusters.wire.scan import NEWS
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId
from heliostat.records.copier import plain_sends as sent
from heliostat.records.copier.lane import CopySettings
from heliostat.records.copier.network import (
    LIVE,
    Appended,
    AppendLost,
    Channel,
    Fetched,
    FetchLost,
    GroupAnswer,
    Leaders,
    PlainAppended,
    PlainSends,
    Traffic,
    Unanswered,
)
from heliostat.records.transport.answer_room import SMALL_BYTES
from heliostat.records.transport.queries import WireQuestions
from heliostat.records.transport.silent_brokers import AGAIN_S, SILENT_S, TOLD_AFTER_S

PAUSE_MS = 1500
REFUSED = 29
"""TOPIC_AUTHORIZATION_FAILED."""
ROOM = CopySettings().lane_queued_bytes_max


@pytest.fixture
def lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    """One over plain connections, or over those the test names."""
    made = Lane(getattr(request, "param", PLAINTEXT))
    yield made
    made.network.close()
    made.source.close()
    made.target.close()


def one_fetched(error: int = 0, end: int = 5, records: bytes = b"") -> Any:
    return FetchResponse.FetchableTopicResponse.PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        aborted_transactions=[],
        preferred_read_replica=-1,
        records=records,
    )


def all_fetched(throttle_ms: int, **partitions: Any) -> bytes:
    """An answer with a partition of each topic, in that order."""
    kind = FetchResponse.FetchableTopicResponse
    rows = [kind(topic=name, partitions=[one]) for name, one in partitions.items()]
    answer = FetchResponse(throttle_time_ms=throttle_ms, error_code=0, session_id=0, responses=rows)
    return bytes(answer.encode(version=FETCH))


def fetched(
    throttle_ms: int, diverging_epoch: tuple[int, int] | None = None, records: bytes = b""
) -> bytes:
    partition = one_fetched(records=records)
    if diverging_epoch is not None:
        epoch, end = diverging_epoch
        partition.diverging_epoch = partition.EpochEndOffset(epoch=epoch, end_offset=end)
    return all_fetched(throttle_ms, t=partition)


def appended(throttle_ms: int, error: int = 0) -> bytes:
    kind = ProduceResponse.TopicProduceResponse
    partition = kind.PartitionProduceResponse(
        index=0, error_code=error, base_offset=0, log_append_time_ms=-1, log_start_offset=0
    )
    rows = [kind(name="t", partition_responses=[partition])]
    answer = ProduceResponse(responses=rows, throttle_time_ms=throttle_ms)
    return bytes(answer.encode(version=PRODUCE))


def test_throttling_by_the_source_is_respected(lane: Lane) -> None:
    """Given an answer with throttle time / when time passes / then no fetch before it is over."""
    lane.fetch()
    assert not lane.network.can_fetch(BROKER, LIVE)
    lane.source.answer(fetched(PAUSE_MS), is_seen=True)
    [event] = lane.network.wait(1.0, ROOM)
    assert isinstance(event, Fetched)
    assert not lane.network.can_fetch(BROKER, LIVE)
    lane.now_s += PAUSE_MS / 1000 - 0.01
    assert not lane.network.can_fetch(BROKER, LIVE)
    lane.now_s += 0.02
    assert lane.network.can_fetch(BROKER, LIVE)


def test_throttling_by_the_target_is_respected(lane: Lane) -> None:
    """Given an answer with throttle time / when time passes / then no append before it is over."""
    for pause_ms in (PAUSE_MS, 0):
        lane.append()
        lane.target.answer(appended(pause_ms), is_seen=True)
    for _ in range(2):
        [event] = lane.network.wait(1.0, ROOM)
        assert isinstance(event, Appended)
    assert not lane.network.can_append(BROKER, LIVE)
    lane.now_s += PAUSE_MS / 1000 + 0.01
    assert lane.network.can_append(BROKER, LIVE)


def test_the_lines_to_both_sides_are_measured(lane: Lane) -> None:
    """A fetch that waited for records at the broker tells the round trip as an append does."""
    assert lane.network.lines() == (None, None)
    lane.append()
    lane.now_s += 0.15
    lane.target.answer(appended(0), is_seen=True)
    list(lane.network.wait(1.0, ROOM))
    lane.now_s += 0.85
    target = lane.network.lines()[1]
    for _ in range(2):  # the first answer has news: where the log ends
        lane.fetch(GROUPS[0][1])
        lane.now_s += 1.15
        lane.source.answer(fetched(0), is_seen=True)
        list(lane.network.wait(1.0, ROOM))
    source = lane.network.lines()[0]
    assert source is not None
    assert target is not None
    assert (source.round_trip_ms, target.round_trip_ms) == (150, 150)
    assert target.in_flight_bytes == round(5 * 0.15)


@pytest.mark.parametrize("lane", [Security("SSL")], indirect=True)
def test_decrypted_bytes_are_read_though_no_selector_reports_them(lane: Lane) -> None:
    """Given answers already decrypted / when waited for / then they come at once, on both sides."""
    lane.fetch()
    lane.append()
    lane.source.answer(fetched(0), is_seen=False)
    lane.target.answer(appended(0), is_seen=False)
    events = list(lane.network.wait(60.0, ROOM))
    assert {type(event) for event in events} == {Fetched, Appended}


@pytest.mark.parametrize("channel", [LIVE, Channel(Traffic.SPARSE, 3)])
@pytest.mark.parametrize("diverging_epoch", [None, (7, 3)])
def test_a_diverging_epoch_is_reported(
    lane: Lane, channel: Channel, diverging_epoch: tuple[int, int] | None
) -> None:
    """Given a leader of another epoch / when fetched or watched / then DivergingEpoch is passed on.

    Without it the answer looks empty, and the same epoch is sent for ever.
    """
    lane.fetch(channel)
    lane.source.answer(fetched(0, diverging_epoch), is_seen=True)
    event = next(iter(lane.network.wait(1.0, ROOM)))
    found = event.fetched(0) if isinstance(event, GroupAnswer) else event
    assert isinstance(found, Fetched)
    assert (found.diverging_epoch, found.high_watermark) == (diverging_epoch, 5)
    assert found.want == WANT


def test_a_group_is_asked_again_from_where_it_has_moved_on_to(lane: Lane) -> None:
    """Given a group's answer / when asked again / then for what follows, as if it were wanted."""
    group = Channel(Traffic.SPARSE, 3)
    assert not lane.network.fetch_again(BROKER, group)
    lane.fetch(group)
    lane.source.answer(fetched(0), is_seen=True)
    (event,) = lane.network.wait(1.0, ROOM)
    assert isinstance(event, GroupAnswer)
    moved = WANT._replace(offset=77, last_epoch=5)
    event.asked[0] = tuple(moved)
    assert lane.network.fetch_again(BROKER, group)
    again = lane.source.parts[-1]
    lane.source.answer(fetched(0), is_seen=True)
    list(lane.network.wait(1.0, ROOM))
    lane.network.fetch(BROKER, group, [moved])
    assert [bytes(part) for part in again[1:]] == [bytes(x) for x in lane.source.parts[-1][1:]]
    assert lane.network.fetch_again(BROKER, group)
    assert bytes(lane.source.parts[-1][1]) == bytes(again[1])


@pytest.mark.parametrize("channel", [Channel(Traffic.BACKLOG, 0), Channel(Traffic.SPARSE, 3)])
def test_an_answer_may_be_limited(lane: Lane, channel: Channel) -> None:
    """Given a limit / then the request says so, also one that is sent again, until it is lifted."""
    said: list[int] = []
    for bytes_max in (0, 4096, 4096, 1024, 0):
        is_again = channel.traffic is Traffic.SPARSE and bool(said)
        if not is_again or not lane.network.fetch_again(BROKER, channel, bytes_max):
            lane.network.fetch(BROKER, channel, [WANT], bytes_max)
        request = b"".join(bytes(part) for part in lane.source.parts[-1])
        body_at = request.index(b"\xff" * 4)  # the id of a replica, which we are not
        said.append(int.from_bytes(request[body_at + 12 : body_at + 16], "big"))
        lane.source.answer(fetched(0), is_seen=True)
        list(lane.network.wait(1.0, ROOM))
    assert said[1:4] == [4096, 4096, 1024]
    assert said[0] == said[4] >= 8 << 20


def test_a_refused_partition_comes_behind_the_others_of_a_group() -> None:
    """Given topics of one partition each / when one is refused, so that the broker answers it last

    / then each has its own answer, and the next answer in order is read against those.
    """
    lane = Lane(PLAINTEXT, *map(spec_of, "abc"))
    group, wants = Channel(Traffic.SPARSE, 3), [WANT._replace(index=index) for index in range(3)]
    try:
        lane.fetch(group, *wants)
        seen = all_fetched(0, a=one_fetched(), c=one_fetched(end=7), b=one_fetched(REFUSED, -1))
        lane.source.answer(seen, is_seen=True)
        *found, _ = lane.network.wait(1.0, ROOM)
        assert all(isinstance(event, Fetched) for event in found)
        told = {each.want.index: (each.error, each.high_watermark) for each in found}
        assert told == {0: (0, 5), 1: (REFUSED, -1), 2: (0, 7)}
        lane.fetch(group, *wants)
        again = all_fetched(0, a=one_fetched(), b=one_fetched(end=7), c=one_fetched(end=7))
        lane.source.answer(again, is_seen=True)
        (event,) = lane.network.wait(1.0, ROOM)
        assert isinstance(event, GroupAnswer)
        news = [event.fetched(int(row[NEWS])) for row in event.watched[: event.news]]
        assert (1, 7) in {(each.want.index, each.high_watermark) for each in news}
        lane.fetch(group, *wants)
        lane.source.answer(all_fetched(0, a=one_fetched(end=6), x=one_fetched()), is_seen=True)
        (lost,) = lane.network.wait(1.0, ROOM)
        assert isinstance(lost, FetchLost)
        assert "not requested" in lost.reason
    finally:
        for each in (lane.network, lane.source, lane.target):
            each.close()


def test_batches_of_compiled_code_are_answered_together_or_as_objects(lane: Lane) -> None:
    """Given requests with rows / when answered, refused or lost / then rows, or an event each."""
    rows = np.zeros((1, sent.SENT_FIELDS), np.int64)
    rows[0, [sent.SIZE, sent.COUNT, sent.SENT_ATTEMPT, sent.LANDED_AT]] = 5, 1, 4, -1

    def append() -> None:
        lane.network.append_plain(BROKER, LIVE, PlainSends(rows.copy(), np.zeros(5, np.uint8), 5))

    append()
    lane.target.answer(appended(0), is_seen=True)
    (event,) = lane.network.wait(1.0, ROOM)
    assert isinstance(event, PlainAppended)
    assert event.sends.rows[0, sent.LANDED_AT] == 0
    append()
    lane.target.answer(appended(0, error=6), is_seen=True)
    (refused,) = lane.network.wait(1.0, ROOM)
    assert isinstance(refused, Appended)
    assert (refused.error, refused.send.attempt, refused.send.batch.records) == (6, 4, 1)
    lane.target.takes_nothing = True
    append()
    lane.network.send_no_more()
    (lost,) = lane.network.wait(1.0, ROOM)
    assert isinstance(lost, AppendLost)
    assert [(each.index, each.batch.size) for each in lost.sends] == [(0, 5)]


class Dialed:
    """A source that notes which connections are opened, how many at once, and refuses some."""

    def __init__(self, refused: int | None = None) -> None:
        self.opened: list[ScriptedConnection] = []
        self.at_once_max = 0
        self._at_once = self._asked = 0
        self._refused = refused
        self._lock = threading.Condition()

    def open_data(self, _: BrokerId) -> ScriptedConnection:
        with self._lock:
            self._asked += 1
            asked = self._asked
            self._at_once += 1
            self.at_once_max = max(self.at_once_max, self._at_once)
            self._lock.notify_all()
            alone = 2 if self._refused == 1 else 1
            if asked > alone:  # all after the first that works: they wait for each other
                self._lock.wait_for(lambda: self.at_once_max == len(GROUPS) - 1, SIDE_BY_SIDE_S)
            self._at_once -= 1
            if asked == self._refused:
                raise ConnectionLost("refused")
            self.opened.append(ScriptedConnection(PLAINTEXT))
            return self.opened[-1]


SIDE_BY_SIDE_S = 10.0
"""More than a thread needs to begin on a machine that is full; over once all are there."""
GROUPS = [(BROKER, Channel(Traffic.SPARSE, slot)) for slot in range(9)]


@pytest.fixture
def opening(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Dialed]]:
    made: list[Dialed] = []

    def dialing(refused: int | None = None) -> Dialed:
        made.append(Dialed(refused))
        lane.network.expect(GROUPS)
        monkeypatch.setattr(lane.network._source, "open_data", made[-1].open_data)
        monkeypatch.setattr(lane.network, "offset_maps", lambda _: {})
        return made[-1]

    yield dialing
    for each in made:
        for connection in each.opened:
            connection.close()


def test_connections_are_opened_in_parallel(lane: Lane, opening: Callable[..., Dialed]) -> None:
    """Given nine groups / when a round is prepared / then the first is tried, then all others."""
    dialed = opening()
    assert not any(lane.network.open([]))
    assert len(dialed.opened) == len(GROUPS)
    assert dialed.at_once_max == len(GROUPS) - 1
    assert not any(lane.network.open([]))
    assert len(dialed.opened) == len(GROUPS)


def test_if_the_first_connection_is_refused_no_other_is_tried(
    lane: Lane, opening: Callable[..., Dialed]
) -> None:
    """Given a broker that is down / when its groups are opened / then one lost connection."""
    dialed = opening(refused=1)
    assert not any(lane.network.open([]))
    assert not dialed.opened
    lane.network.fetch(*GROUPS[4], [WANT])  # it is back: all are opened
    assert len(dialed.opened) == len(GROUPS)


def test_a_refused_connection_fails_no_other(lane: Lane, opening: Callable[..., Dialed]) -> None:
    dialed = opening(refused=3)
    lane.network.fetch(*GROUPS[0], [WANT])
    assert len(dialed.opened) == len(GROUPS) - 1
    for broker, channel in GROUPS:
        lane.network.fetch(broker, channel, [WANT])
    assert len(dialed.opened) == len(GROUPS)


def test_a_broker_that_does_not_answer_is_probed_and_reported(lane: Lane) -> None:
    """Given a fetch and an append / when both stay unanswered / then

    each broker is doubted once, and reported once it has not answered the probe either.
    """
    lane.network._leaders = Leaders({0: BROKER}, {0: BROKER}, {})
    lane.fetch()
    lane.append()
    lane.now_s += SILENT_S + 0.1
    assert list(lane.network.wait(0.0, ROOM)) == []
    assert lane.doubted == [BROKER]  # the target: a fetch waits for records as long as that
    lane.now_s += CopySettings().fetch_wait_ms / 1000
    assert list(lane.network.wait(0.0, ROOM)) == []
    assert lane.doubted == [BROKER, BROKER]
    lane.silent_s = TOLD_AFTER_S
    lane.now_s += 0.2
    told = [Unanswered([0], lane.silence, is_target) for is_target in (False, True)]
    assert list(lane.network.wait(0.0, ROOM)) == told
    lane.now_s += 0.2
    assert list(lane.network.wait(0.0, ROOM)) == []
    assert len(lane.doubted) == 2
    lane.target.is_receiving = lane.source.is_receiving = True  # an answer comes, slowly
    lane.now_s += AGAIN_S
    assert list(lane.network.wait(0.0, ROOM)) == []
    assert len(lane.doubted) == 2


def test_a_partition_without_a_leader_still_waits_for_the_silent_broker(lane: Lane) -> None:
    """Given an append, and a cluster that has missed its broker / then

    the silence is reported all the same: the end of a round waits for answers of all others, 10 s.
    """
    lane.network._leaders = Leaders({0: BROKER}, {}, {})
    lane.append()
    lane.now_s += SILENT_S + 0.1
    lane.silent_s = TOLD_AFTER_S
    assert list(lane.network.wait(0.0, ROOM)) == [Unanswered([0], lane.silence, True)]


def test_nothing_waits_for_a_broker_that_reads_nothing(lane: Lane) -> None:
    """Given a partly sent append / then no other is begun before the broker reads more."""
    lane.target.takes_nothing = True
    lane.append()
    assert not lane.network.can_append(BROKER, LIVE)
    lane.fetch()
    lane.source.answer(fetched(0), is_seen=True)
    assert [type(each) for each in lane.network.wait(1.0, ROOM)] == [Fetched]
    lane.network.send_on()
    assert not lane.network.can_append(BROKER, LIVE)
    lane.target.takes_nothing = False
    lane.network.send_on()
    assert lane.network.can_append(BROKER, LIVE)
    lane.network.send_no_more()
    assert list(lane.network.wait(0.0, ROOM)) == []


def test_an_unsent_append_is_given_up_at_the_rounds_end(lane: Lane) -> None:
    """Given an append that was not sent whole / when the round ends / then it is lost (I10)."""
    lane.target.takes_nothing = True
    lane.append()
    lane.network.send_no_more()
    [lost] = lane.network.wait(0.0, ROOM)
    assert isinstance(lost, AppendLost)
    assert lane.target.fileno() == -1


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_silent_broker_that_leads_no_more_is_not_waited_for(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, *, is_silent: bool
) -> None:
    """Given an append in flight / when another leads and the first is silent / then it is lost."""
    lane.network._leaders = Leaders({0: BROKER}, {0: BROKER}, {})
    lane.append()
    lane.silent_s = 0.0 if is_silent else -1.0
    leads: list[dict[int, BrokerId]] = [{0: BROKER}, {0: BrokerId(BROKER + 1)}]
    found = Leaders(*leads, {})
    monkeypatch.setattr(WireQuestions, "leaders", lambda *_: found)
    assert lane.network.leaders() is found
    assert [type(each) for each in lane.network.wait(0.0, ROOM)] == [AppendLost] * is_silent


@pytest.mark.parametrize("lane", [PLAINTEXT, Security("SSL")], indirect=True)
def test_an_answer_without_room_stays_with_its_broker(lane: Lane) -> None:
    """Given a lane without room / when a large answer arrives / then

    it is not read, not polled again and again, and not overdue; with room it is read.
    """
    lane.fetch()
    lane.source.answer(fetched(0, records=bytes(2 * SMALL_BYTES)), is_seen=True)
    assert list(lane.network.wait(0.0, 0)) == []
    assert lane.source.waits_for_room
    assert lane.network.held_bytes() == 0
    began_s = time.monotonic()
    assert list(lane.network.wait(0.05, 0)) == []
    assert time.monotonic() - began_s >= 0.05
    lane.now_s += 1000.0
    assert list(lane.network.wait(0.0, 0)) == []
    assert lane.doubted == []
    [event] = lane.network.wait(1.0, 1)
    assert isinstance(event, Fetched)
    assert event.end - event.start == 2 * SMALL_BYTES
    assert lane.network.held_bytes() >= 2 * SMALL_BYTES
    del event
    assert lane.network.held_bytes() == 0
    assert lane.network.can_fetch(BROKER, LIVE)


def test_a_small_answer_is_read_without_room(lane: Lane) -> None:
    """Given a lane without room / when an answer is nearly empty / then it is read."""
    lane.fetch()
    lane.source.answer(fetched(0), is_seen=True)
    assert [type(each) for each in lane.network.wait(0.0, 0)] == [Fetched]


def test_answers_that_come_together_share_the_room(lane: Lane) -> None:
    """Given two large answers / when there is room for less than one / then one is read."""
    channels = [LIVE, Channel(Traffic.BACKLOG, 0)]
    other = ScriptedConnection(PLAINTEXT)
    made = iter([lane.source, other])
    network: Any = lane.network
    network._source.open_data = lambda _: next(made)
    for channel, connection in zip(channels, (lane.source, other), strict=True):
        lane.fetch(channel)
        connection.answer(fetched(0, records=bytes(2 * SMALL_BYTES)), is_seen=True)
    events = list(lane.network.wait(0.0, 1))
    assert [type(each) for each in events] == [Fetched]
    assert list(lane.network.wait(0.0, 0)) == []
    assert [type(each) for each in lane.network.wait(1.0, 1)] == [Fetched]


def test_a_connection_whose_answer_waits_can_be_lost(lane: Lane) -> None:
    """Given an answer that waits for room / when its broker leads no more / then it is fetched
    elsewhere."""
    lane.network._leaders = Leaders({0: BROKER}, {}, {})
    lane.fetch()
    lane.source.answer(fetched(0, records=bytes(2 * SMALL_BYTES)), is_seen=True)
    assert list(lane.network.wait(0.0, 0)) == []
    lane.network._drop(("fetch", BROKER, LIVE), "gone")
    [lost] = lane.network.wait(0.0, ROOM)
    assert isinstance(lost, FetchLost)
    assert lane.source.fileno() == -1
