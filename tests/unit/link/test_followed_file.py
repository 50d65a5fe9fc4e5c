"""The configuration file while links run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from sim.sim_clock import SimClock

from heliostat.config import Config, ConfigFile, load_config
from heliostat.config.changed_file import ChangedFile
from heliostat.link.followed_file import FollowedFile
from heliostat.link.held_changes import NotInForce
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events

CLUSTERS = {alias: {"bootstrap": [f"{alias}:9092"]} for alias in ("east", "west")}


def link(name: str = "a", *include: str, **sections: Any) -> dict[str, Any]:
    topics = {"include": list(include) or ["t.*"]}
    return {"name": name, "source": "east", "target": "west", "topics": topics, **sections}


class Process:
    """A process whose file is followed; its links are the configuration that they go by."""

    def __init__(self, folder: Path, *links: dict[str, Any], only: str | None = None) -> None:
        self.file = folder / "heliostat.yaml"
        self.events = Events(lambda: 0, None)
        self.clock = SimClock(0)
        self.confirmed = threading.Event()
        self.remarks: dict[str, tuple[str, ...]] = {}
        self.refused: set[str] = set()
        self.taken: list[Config] = []
        self.confirmations: list[bool] = []
        self.write(*links)
        changed = ChangedFile(self.file, self.clock)
        self.followed = FollowedFile(
            changed,
            load_config(self.file),
            only,
            self,
            events=self.events,
            confirm=self.confirmed,
        )

    def write(self, *links: dict[str, Any], **sections: Any) -> None:
        self.put(yaml.safe_dump({"clusters": CLUSTERS, "links": list(links), **sections}))

    def put(self, text: str) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.file)

    def rest(self) -> None:
        """Let the file rest."""
        for _ in range(2):
            self.followed.turn()
            self.clock.sleep(2.1)
        self.followed.turn()

    def hang_up(self) -> None:
        self.confirmed.set()
        self.followed.turn()

    def said(self) -> str:
        return "\n".join(self.events.recent(100))

    def links(self) -> list[str]:
        return [str(each.name) for each in self.taken[-1].links]

    # -- what the links of a process do --------------------------------------------------------

    def change_to(self, config: Config, file: ConfigFile, *, is_confirmed: bool) -> None:
        self.taken.append(config)
        self.confirmations.append(is_confirmed)

    def source_topics(self, link: LinkName) -> frozenset[TopicName] | None:
        del link
        return frozenset(TopicName(f"t{number}") for number in range(10))

    def remark(self, remarks: Mapping[LinkName, NotInForce]) -> None:
        self.remarks = {str(name): told.lines for name, told in remarks.items()}
        self.refused = {str(name) for name, told in remarks.items() if told.is_refused}


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path, link("a"), link("b", "x"))


def test_a_changed_file_takes_effect_once_it_rests_and_is_told(process: Process) -> None:
    process.write(link("a", "t.*", "more"), link("b", "x"))
    process.followed.turn()
    assert not process.taken
    process.rest()
    (config,) = process.taken
    assert config.link("a").topics.include == ("t.*", "more")
    assert "heliostat.yaml: link a: topics.include +more (while it copies)" in process.said()
    process.rest()
    assert len(process.taken) == 1
    assert not process.remarks


def test_an_invalid_file_changes_nothing_and_all_that_is_wrong_is_told(process: Process) -> None:
    """Given two mistakes / then both are told, in the status too, until the file is well again."""
    process.write(link("a", "t.*", "(", lanes={"count": 0}), link("b"))
    process.rest()
    assert not process.taken
    for field in ("links[0].topics.include[1]", "links[0].lanes.count"):
        assert field in process.said()
        assert all(field in lines[0] for lines in process.remarks.values())
    assert process.remarks.keys() == process.refused == {"a", "b"}
    process.write(link("a"), link("b", "x"))
    process.rest()
    assert not process.taken
    assert not process.remarks


@pytest.mark.parametrize(
    "text", ["", "clusters: [", "null", "\x00", "links: 2026-13-45", "links: &a [*a]"]
)
def test_a_file_that_is_no_configuration_changes_nothing(process: Process, text: str) -> None:
    process.put(text)
    process.rest()
    process.file.unlink()
    process.rest()
    assert not process.taken
    assert process.said().count("is refused and changes nothing") == 2


def test_a_link_that_is_gone_runs_on_until_a_person_says_so(process: Process) -> None:
    """Given a file without a link, and with a new one / then the new one begins; the other waits.

    It is told, also in its status, and ends on SIGHUP.
    """
    process.write(link("a"), link("c", "y"))
    process.rest()
    assert process.links() == ["a", "c", "b"]
    assert "WARN link b: the link is gone from the file: held back, send SIGHUP" in process.said()
    line = "link b: the link is gone from the file: held back, send SIGHUP to apply"
    assert process.remarks == dict.fromkeys("acb", (line,))
    assert not process.refused
    process.write(link("a", "t.*", "z"), link("c", "y"))
    process.rest()
    assert process.links() == ["a", "c", "b"]
    process.hang_up()
    assert process.links() == ["a", "c"]
    assert "link b ends; its mirrors and its state stay" in process.said()
    assert not process.remarks


def test_a_narrower_selection_waits_and_its_file_can_be_taken_back(process: Process) -> None:
    process.write(link("a", "t1"), link("b", "x"))
    process.rest()
    assert not process.taken
    assert "a" in process.remarks
    process.write(link("a"), link("b", "x"))
    process.rest()
    assert not process.remarks
    assert not process.taken


def test_a_person_need_not_wait_for_the_file_to_rest(process: Process) -> None:
    process.write(link("a", "t1"), link("b", "x"))
    process.hang_up()
    assert process.taken[-1].link("a").topics.include == ("t1",)
    process.rest()
    assert len(process.taken) == 1
    process.hang_up()
    assert process.confirmations == [True, True], "links of the home may wait for it"


def test_what_needs_another_process_is_told_until_then(process: Process) -> None:
    process.write(link("a"), link("b", "x"), spark={"master": "local[3]"})
    process.rest()
    line = "spark.master local[*] → local[3] (takes effect when the process is started again)"
    assert line in process.said()
    assert process.remarks == {"a": (line,), "b": (line,)}
    process.write(link("a", "t.*", "u"), link("b", "x"), spark={"master": "local[3]"})
    process.rest()
    assert process.said().count(line) == 1
    assert process.remarks["a"] == (line,)


def test_a_process_of_one_link_tells_nothing_of_others(tmp_path: Path) -> None:
    """Given a process of one link / when another one is gone / then nothing is told or begun."""
    process = Process(tmp_path, link("a"), link("b", "x"), only="a")
    process.write(link("a"))
    process.rest()
    assert not process.taken
    assert "link b" not in process.said()
    process.write(link("a"), link("b", "x", "y"))
    process.rest()
    assert process.taken[-1].link("b").topics.include == ("x", "y"), "it may write a's mirrors"
    assert "link b" not in process.said()


def test_a_fault_of_its_own_ends_no_link_and_is_told(process: Process) -> None:
    def fail(config: Config, file: ConfigFile, *, is_confirmed: bool) -> None:
        raise ValueError("what")

    process.change_to = fail  # type: ignore[method-assign]  # links that fail
    process.write(link("a", "t.*", "more"), link("b", "x"))
    process.confirmed.set()
    process.followed.start()
    process.followed._thread.join(10.0)
    assert "heliostat.yaml is no longer followed: ValueError: what" in process.said()
    process.followed.stop()
