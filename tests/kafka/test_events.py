"""Events of a link at its target: who follows them from outside sees each within two seconds."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.clusters import ClusterPair, fresh_name
from support.links import wait_for, write_config

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import ensure_own_topics
from heliostat.clusters.past_records import A_DAY, PastRecords
from heliostat.config import Config, load_config
from heliostat.errors import Refused
from heliostat.link.history_part import EVENTS_S, HistoryPart, KeptEvents
from heliostat.names import LinkName
from heliostat.operate.events import EventChoice, LinkEvent, follow_events, past_events
from heliostat.ops.events import Events, Subject
from heliostat.serve.app import make_app
from heliostat.serve.watch import Watch
from heliostat.state_topics import history_topic
from heliostat.status.board import StatusBoard

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
WITHIN_S = 2.0
"""The issue's limit for what one does and others see."""
EVERYTHING = EventChoice()


@contextmanager
def driven(config: Config, name: LinkName, bootstrap: str) -> Iterator[Events]:
    """Yield where events go of a driver that writes them as they come."""
    clock, ends = SystemClock(), threading.Event()
    with ClusterAdmin(bootstrap.split(",")) as admin:
        ensure_own_topics(admin, {history_topic(name): A_DAY}, 1)
    events = KeptEvents(Events(clock.wall_ms, None), name, clock.wall_ms)
    target = config.clusters["west"].access()
    with closing(PastRecords(target, history_topic(name), "test")) as records:
        part = HistoryPart(records, StatusBoard(name), clock, events)

        def turns() -> None:
            while not ends.wait(EVENTS_S):
                part.turn()

        thread = threading.Thread(target=turns)
        thread.start()
        try:
            yield events
        finally:
            ends.set()
            thread.join()


@contextmanager
def following(config: Config, name: str | None) -> Iterator[queue.Queue[LinkEvent]]:
    """Yield what another process would see that follows the events."""
    seen: queue.Queue[LinkEvent] = queue.Queue()
    ends = threading.Event()

    def follow() -> None:
        for event in follow_events(
            config, name, 3_600, EVERYTHING, is_ending=ends.is_set, tell=lambda _: None
        ):
            seen.put(event)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield seen
    finally:
        ends.set()
        thread.join()


def test_what_happens_is_seen_from_outside_within_two_seconds(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a driver / when something happens / then one that follows it and the API show it."""
    name, bootstrap = LinkName(fresh_name("link")), cluster_pair.target.bootstrap
    config = load_config(
        write_config(tmp_path, cluster_pair.source.bootstrap, bootstrap, name=name)
    )
    with pytest.raises(Refused):
        past_events(config, name, 60, EVERYTHING)
    with ExitStack() as stack:
        seen = stack.enter_context(following(config, None))  # before the link has a history
        events = stack.enter_context(driven(config, name, bootstrap))
        watch = Watch(config, SystemClock())
        watch.start()
        stack.callback(watch.stop)
        client = TestClient(make_app(watch), base_url="http://localhost")

        def served() -> list[str]:
            items = client.get(f"/api/v1/events?link={name}&topic=t").json()["items"]
            return [item["text"] for item in items]

        events.info(f"link {name}: the first")
        assert seen.get(timeout=30).text == "the first"
        lasted: list[float] = []
        for number in range(5):
            text = f"t-{number} is paused: ada wishes so, disk {number} is full"
            began_s = time.monotonic()
            events.info(f"link {name}: {text}", Subject(name, "t", number))
            event = seen.get(timeout=30)
            lasted.append(time.monotonic() - began_s)
            assert (event.link, event.text, event.partition) == (name, text, number)
        wait_for("the API", lambda: len(served()) == 5)
        print(f"seen after {', '.join(f'{seconds:.2f}' for seconds in lasted)} s")
        assert max(lasted) <= WITHIN_S
    texts = [event.text for event in past_events(config, None, 600, EVERYTHING)]
    assert texts[0] == "the first"
    assert len(texts) == 6
    chosen = past_events(config, name, 600, EventChoice("INFO", "t"))
    assert [event.partition for event in chosen] == list(range(5))
