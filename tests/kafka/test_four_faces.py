"""One link with an owner and a standby, steered by four faces: each sees what the others did.

`kafkaconnect`, plain HTTP, the page in Chromium and the command line take turns; each change is to
be seen by all others within two seconds, a takeover after the lease. `curl` asks the owner's
service, page and `kafkaconnect` that of the standby; the command line asks the clusters. That
wishes and orders outlive whoever was to carry them out is `test_killed_steering.py`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.browser import chromium, watched_tab
from support.clusters import HEAP_MB, create_topic, until
from support.connect_clients import Client
from support.connect_tour import ConnectTour
from support.faces import (
    LIMIT,
    LINKS,
    OWNER,
    RESTARTS,
    STATE,
    TOPICS,
    CommandLine,
    Curl,
    Face,
    KafkaConnect,
    Page,
)
from support.links import LinkProcess
from unit.connect.technote import CHECKPOINT, HEARTBEAT, SOURCE

from heliostat_sandbox import ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LINK, CONNECTOR, HOME_LINK = "src-to-destn", "mirror-source", "by-hand"
OWNED_BY, TAKEN_BY = "first-host", "second-host"
SEEN_WITHIN_S = 2.0
LEASE_S = 5
TAKEN_WITHIN_S = LEASE_S + 1 + SEEN_WITHIN_S + 1
"""A standby on another host takes over a second after the lease, and looks once a second."""
WATCHED_S = 20.0
"""How long a face is watched that shows nothing: so that a failure tells how late it is."""
TAB_WITHIN_MS = 15_000
Holds = Callable[[Any], bool]


class Show:
    """The link, who runs it, and the faces."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        specs = [ClusterSpec(name, heap_mb=HEAP_MB) for name in ("src", "destn")]
        source, target = (stack.enter_context(each) for each in start_many(specs))
        tours: list[ConnectTour] = []
        for host in (OWNED_BY, TAKEN_BY):
            (folder / host).mkdir()
            tours.append(ConnectTour(source, target, folder / host))
            with tours[-1].config.open("a") as file:
                file.write(f"defaults: {{lanes: {{lease_s: {LEASE_S}}}}}\n")
        self.tour, standby = tours
        self.topic, self.other = self.tour.topic, create_topic(source)
        create_topic(source, self.topic)
        self.owner = stack.enter_context(LinkProcess(self.tour.config, "--plain", host=OWNED_BY))
        options = ["-c", standby.url]
        client = Client("connect_clients", "kafkaconnect.cli:main", options, {})
        self._client = stack.enter_context(client)
        tab = stack.enter_context(watched_tab(stack.enter_context(chromium()), TAB_WITHIN_MS))
        until(lambda: "watch it at" in self.owner.text(), self.owner.text)
        self.standby = stack.enter_context(LinkProcess(standby.config, "--plain", host=TAKEN_BY))
        self.standby_url = standby.url
        until(lambda: "watch it at" in self.standby.text(), self.standby.text)
        self.standby.process.send_signal(signal.SIGSTOP)  # until the first one owns the links
        self.connect = KafkaConnect(client, {LINK: CONNECTOR})
        self.curl, self.cli = Curl(self.tour.url), CommandLine(standby.config)
        self.page = Page(tab, standby.url)
        self.faces: tuple[Face, ...] = (self.connect, self.curl, self.page, self.cli)
        self.times: list[tuple[str, str, str, float]] = []
        self._pool = stack.enter_context(ThreadPoolExecutor(len(self.faces)))

    def upload(self, *topics: str) -> None:
        """Upload the MirrorSource connector; `foo` stands for the topic."""
        config = SOURCE | {"topics": ",".join(topics)}
        self.tour.upload(self._client, CONNECTOR, config)

    def upload_partners(self) -> None:
        """Upload the other two."""
        self.tour.upload(self._client, "heartbeat", HEARTBEAT)
        self.tour.upload(self._client, "checkpoint", CHECKPOINT)

    def seen(
        self,
        change: str,
        actor: Face,
        act: Callable[[], object],
        what: str,
        holds: Holds,
        *,
        link: str = LINK,
        within_s: float = SEEN_WITHIN_S,
    ) -> None:
        """Change something by one face, and measure when each other one shows it.

        However long the change itself takes, the last one shows it within two seconds of the first.
        """
        others = [face for face in self.faces if face is not actor and what in face.shows]
        early = [face.name for face in others if holds(face.shown(what, link))]
        assert not early, f"{change} by {actor.name} is shown before it is done, by {early}"
        watched = {
            face.name: self._pool.submit(_watch, face, what, link, holds)
            for face in others
            if face is not self.page
        }
        at_s: dict[str, tuple[float, object]] = {}
        if actor is self.page:
            act()
        else:
            acting = self._pool.submit(act)
            if self.page in others:
                at_s[self.page.name] = _watch(self.page, what, link, holds)
            acting.result()
        at_s |= {name: each.result() for name, each in watched.items()}
        late: list[str] = []
        for name, (seen_s, last) in at_s.items():
            took_s = seen_s - actor.began_s
            self.times.append((change, actor.name, name, took_s))
            if took_s > within_s:
                late.append(
                    f"{change} by {actor.name}: {name} shows it after {took_s:.1f} s: {last}"
                )
        assert late == [], f"{late}\n{self.standby.text()[-2000:]}"
        shown_s = {name: seen_s - actor.began_s for name, (seen_s, _) in at_s.items()}
        apart_s = max(shown_s.values()) - min(shown_s.values())
        assert apart_s <= SEEN_WITHIN_S, f"{change}: faces are {apart_s:.1f} s apart: {shown_s}"
        if what in actor.shows:
            until(lambda: holds(actor.shown(what, link)), f"{actor.name} shows its own {change}")

    def table(self) -> str:
        """Return the measured times: a line a change, a column a face."""
        names = [face.name for face in self.faces]
        rows: dict[tuple[str, str], dict[str, float]] = {}
        for change, actor, name, took_s in self.times:
            rows.setdefault((change, actor), {})[name] = took_s
        lines = [f"{'change':34}{'by':14}" + "".join(f"{name:>14}" for name in names)]
        for (change, actor), row in rows.items():
            cells = (f"{row[name]:.2f}" if name in row else "-" for name in names)
            lines.append(f"{change:34}{actor:14}" + "".join(f"{cell:>14}" for cell in cells))
        return "\n".join(lines)


def _watch(face: Face, what: str, link: str, holds: Holds) -> tuple[float, object]:
    """Return when a face shows something (monotonic), or when it still did not."""
    until_s = time.monotonic() + WATCHED_S
    while not holds(last := face.shown(what, link)) and time.monotonic() < until_s:
        time.sleep(0.05)
    return time.monotonic(), last


@pytest.fixture(scope="module")
def show(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Show]:
    with ExitStack() as stack:
        made = Show(stack, tmp_path_factory.mktemp("show"))
        until(lambda: made.connect.shown(LINKS, "") == set(), made.standby.text)
        yield made
        print(f"\nseconds until a face shows it\n{made.table()}", file=sys.stderr)


def has(*names: str) -> Holds:
    return lambda shown: shown >= {*names}


def lacks(name: str) -> Holds:
    return lambda shown: name not in shown


def equals(wanted: object) -> Holds:
    return lambda shown: shown == wanted


def refused(answer: httpx.Response, status: int, words: str) -> None:
    assert (answer.status_code, words in answer.text) == (status, True), answer.text


def test_links_are_made(show: Show) -> None:
    connect, page = show.connect, show.page
    show.upload_partners()
    page.look_at_all()
    upload = partial(connect.put, lambda: show.upload("foo"))
    show.seen("made", connect, upload, LINKS, has(LINK))
    show.seen("made", page, lambda: page.create(HOME_LINK, [show.other]), LINKS, has(HOME_LINK))
    for link, topic in ((LINK, show.topic), (HOME_LINK, show.other)):
        until(lambda name=link: show.curl.shown(STATE, name) == "running", show.owner.text)
        page.look(link)
        for face in show.faces:
            until(lambda f=face, a=link, t=topic: t in f.shown(TOPICS, a), face.name)
            assert face.shown(OWNER, link) == OWNED_BY, face.name
    show.standby.process.send_signal(signal.SIGCONT)
    until(lambda: show.standby.text().count("waiting for its owner") == 2, show.standby.text, 20.0)


def test_a_link_is_paused_and_resumed(show: Show) -> None:
    connect, curl, page, cli = show.connect, show.curl, show.page, show.cli
    acts: tuple[tuple[str, Face, Callable[[], object]], ...] = (
        ("paused", connect, lambda: connect.wish("pause", LINK)),
        ("running", page, lambda: page.wish("Resume")),
        ("paused", cli, lambda: cli.run("pause", LINK)),
        ("running", curl, lambda: curl.wish("resume", LINK)),
        ("paused", page, lambda: page.wish("Pause")),
        ("running", connect, lambda: connect.wish("resume", LINK)),
        ("paused", curl, lambda: curl.wish("pause", LINK)),
        ("running", cli, lambda: cli.run("resume", LINK)),
    )
    page.look(LINK)
    for state, face, act in acts:
        show.seen(state, face, act, STATE, equals(state))


def test_a_link_is_limited(show: Show) -> None:
    curl, page, cli = show.curl, show.page, show.cli
    acts: tuple[tuple[int | None, Face, Callable[[], object]], ...] = (
        (3_000_000, curl, lambda: curl.wish("limit", LINK, limit="3MB/s")),
        (2_000_000, page, lambda: page.wish("Limit", field="2MB/s")),
        (1_000_000, cli, lambda: cli.run("limit", LINK, "1MB/s")),
        (None, page, lambda: page.wish("Lift")),
    )
    page.look(LINK)
    for limit, face, act in acts:
        show.seen(f"limit {limit}", face, act, LIMIT, equals(limit))
        assert show.connect.shown(STATE, LINK) == "running", "Kafka Connect has no limits"


def test_a_selection_changes(show: Show) -> None:
    connect, curl, page, cli = show.connect, show.curl, show.page, show.cli
    more = create_topic(show.tour.cluster)
    both = [show.other, more]
    acts: tuple[tuple[str, Face, Callable[[], object], Holds], ...] = (
        ("one more", curl, lambda: curl.select(HOME_LINK, both), has(more)),
        ("one less", page, lambda: page.select(HOME_LINK, [show.other]), lacks(more)),
        ("one more", cli, lambda: cli.select(HOME_LINK, both), has(more)),
    )
    for change, face, act, holds in acts:
        page.look(HOME_LINK)
        show.seen(change, face, act, TOPICS, holds, link=HOME_LINK)
    page.look(LINK)
    upload = partial(connect.put, lambda: show.upload(f"foo,{more}"))
    show.seen("one more", connect, upload, TOPICS, has(more))
    refused(curl.select(LINK, both), 409, f"connector {CONNECTOR}")
    path = f"{show.standby_url}/connectors/{HOME_LINK}/config"
    refused(httpx.put(path, json=SOURCE | {"name": HOME_LINK}), 403, "no connector")


def test_a_link_is_restarted(show: Show) -> None:
    connect, curl, page, cli = show.connect, show.curl, show.page, show.cli
    acts: tuple[tuple[Face, Callable[[], object]], ...] = (
        (connect, lambda: connect.wish("restart", LINK)),
        (curl, lambda: curl.wish("restart", LINK)),
        (page, lambda: page.wish("Restart")),
        (cli, lambda: cli.run("restart", LINK)),
    )
    page.look(LINK)
    for number, (face, act) in enumerate(acts, 1):
        show.seen(f"restart {number}", face, act, RESTARTS, equals(number))
        assert connect.shown(STATE, LINK) == "running", "Kafka Connect tells of no restart"


def test_a_standby_takes_over_and_does_what_was_wished_meanwhile(show: Show) -> None:
    page, cli = show.page, show.cli
    page.look(LINK)

    def kill() -> None:
        cli.run("pause", LINK, "--wait", "0", code=1)
        show.owner.kill_driver()

    show.curl.url = show.standby_url
    show.seen("takeover", cli, kill, OWNER, equals(TAKEN_BY), within_s=TAKEN_WITHIN_S)
    for face in show.faces:
        until(lambda f=face: f.shown(STATE, LINK) == "paused", face.name)
    show.seen("running", page, lambda: page.wish("Resume"), STATE, equals("running"))


def test_links_are_deleted(show: Show) -> None:
    connect, curl, page, cli = show.connect, show.curl, show.page, show.cli
    acts: tuple[tuple[str, Face, str, Callable[[], object]], ...] = (
        ("deleted", page, HOME_LINK, lambda: page.delete(HOME_LINK)),
        ("made", curl, "third", lambda: curl.create("third", [show.other])),
        ("deleted", cli, "third", lambda: cli.run("links", "delete", "third")),
        ("made", cli, "fourth", lambda: cli.create("fourth", [show.other])),
        ("deleted", curl, "fourth", lambda: curl.delete("fourth")),
        ("deleted", connect, LINK, lambda: connect.delete(LINK)),
    )
    for change, face, link, act in acts:
        show.seen(change, face, act, LINKS, has(link) if change == "made" else lacks(link))
    assert show.standby.stop() == 0, show.standby.text()
