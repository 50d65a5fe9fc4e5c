"""The first hour of somebody with two clusters: scan, init by questions, a page's commands."""

from __future__ import annotations

import os
import pty
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat
from support.group_sides import wait_for_coordinators
from support.links import RUN
from support.records import Sample, encode, write_batches
from support.tools import ROOT

from heliostat.cli.main import run
from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.config import load_config
from heliostat.names import GroupId, Offset, PartitionId, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

PAGE = ROOT / "docs" / "first-link.md"
ADDRESSES = ("summit.example.org:9092", "usdf.example.org:9092")
ANSWER_S = 180.0
IN_SYNC_S = 300.0
"""On a loaded machine Spark and the first lane take minutes, and so does each look."""
NOW_MS = time.time_ns() // 1_000_000
OWN_CODE = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
"""Processes run in folders of their own."""
OWN_PORT = "service: {listen: '127.0.0.1:0'}\n"


def test_a_scan_names_what_is_there_and_what_needs_care(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    source = cluster_pair.source
    prefix = fresh_name("scanned")
    plain = create_topic(source, f"{prefix}.plain", partitions=2)
    create_topic(source, f"{prefix}.table", configs={"cleanup.policy": "compact"})
    create_topic(source, f"{prefix}.big", configs={"max.message.bytes": "5000000"})
    write_batches(source.bootstrap, plain, [encode([Sample(None, b"x" * 100, 0)] * 40)])
    group, first = GroupId(f"{prefix}-readers"), TopicPartition(plain, PartitionId(0))
    wait_for_coordinators(source.bootstrap)
    with ClusterAdmin(source.bootstrap) as admin:
        admin.commit_offsets({group: {first: CommittedOffset(Offset(10))}})
    words = ("scan", source.bootstrap, "--topics", rf"{prefix}\..*", "--window", "1s")
    seen = heliostat(tmp_path / "none.yaml", *words, "--json").json
    topics = {row["name"]: row for row in seen["topics"]}
    assert topics[plain]["records"] == 40
    assert topics[plain]["bytes"] > 0
    assert topics[plain]["records_per_s"] == 0
    groups = {row["group"]: row for row in seen["groups"]}
    assert groups[group]["lag"] == 30
    care = {row["code"]: row["items"] for row in seen["care"]}
    assert care["COMPACTED"] == [f"{prefix}.table"]
    assert care["LARGE_MESSAGES"] == [f"{prefix}.big"]
    assert seen["has_authorizer"] is False
    shown = heliostat(tmp_path / "none.yaml", *words[:4])
    assert "COMPACTED: compacted, so offsets have holes" in shown.stdout
    page = heliostat(tmp_path / "none.yaml", *words[:4], "--markdown")
    assert f"| {plain} | 2 | 1 |" in page.stdout


class Terminal:
    """`heliostat` at a pseudo terminal, and what it has printed."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**OWN_CODE, "TERM": "dumb"},
        )
        os.close(theirs)
        self.text = ""

    def answer(self, question: str, answer: str) -> None:
        """Wait for a question, and type."""
        self.expect(question)
        os.write(self._ours, f"{answer}\n".encode())

    def expect(self, text: str) -> None:
        """Wait until this is printed; what was printed before is used up."""
        until_s = time.monotonic() + ANSWER_S
        while text not in self.text:
            assert time.monotonic() < until_s, f"no {text!r} in {self.text!r}"
            if select.select([self._ours], [], [], 0.5)[0]:
                try:
                    self.text += os.read(self._ours, 65_536).decode()
                except OSError:
                    assert text in self.text, self.text
        self.text = self.text.partition(text)[2]

    def end(self) -> int:
        """Wait for its end."""
        code = self.process.wait(ANSWER_S)
        os.close(self._ours)
        return code


def test_questions_are_asked_again_until_a_cluster_answers(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    prefix = fresh_name("asked")
    create_topic(cluster_pair.source, f"{prefix}.one")
    file = tmp_path / "heliostat.yaml"
    file.write_text("mine: true\n")
    terminal = Terminal(tmp_path, "init")
    terminal.answer("Replace it?", "y")
    terminal.answer("Address of the source", "127.0.0.1:1")
    terminal.answer("Protocol", "PLAINTEXT")
    terminal.expect("CONNECTION_LOST")
    terminal.answer("Address of the source", cluster_pair.source.bootstrap)
    terminal.answer("Protocol", "")
    terminal.expect("it answers: 1 brokers")
    terminal.answer("Address of the target", cluster_pair.source.bootstrap)
    terminal.answer("Protocol", "")
    terminal.expect("is the same cluster as")
    terminal.answer("Address of the target", cluster_pair.target.bootstrap)
    terminal.answer("Protocol", "")
    terminal.answer("Name of the source", "summit")
    terminal.answer("Name of the target", "usdf")
    terminal.answer("Topics, a name", "(")
    terminal.expect("bad regex")
    terminal.answer("Topics, a name", rf"{prefix}\..*")
    terminal.expect("1 of ")
    terminal.answer("Copy these", "")
    terminal.answer("What is it for", "failover")
    terminal.answer("Shall consumer groups move along", "")
    terminal.expect("Next: heliostat check -c heliostat.yaml")
    assert terminal.end() == 0
    (link,) = load_config(file).links
    assert (link.name, link.topics.include) == ("summit-to-usdf", (rf"{prefix}\..*",))
    assert link.groups.sync
    assert len(file.read_text().splitlines()) <= 12


@pytest.mark.spark
@pytest.mark.long
def test_each_command_of_the_page_does_what_the_page_says(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = create_topic(cluster_pair.source, "weather.station")
    write_batches(
        cluster_pair.source.bootstrap, topic, [encode([Sample(None, b"sun", NOW_MS)] * 100)]
    )
    codes: dict[str, int] = {}
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in page_commands(cluster_pair):
            verb = command[1] if command[0] == "heliostat" else command[0]
            if verb == "run":
                running.append(started(command[1:], tmp_path))
                continue
            if verb == "cat":
                with Path(command[1]).open("a") as file:
                    file.write(OWN_PORT)  # that of the page may be another test's
                continue
            if verb == "status":
                until(lambda words=command[1:]: typed(words) == 0, "the link in sync", IN_SYNC_S)
            codes[" ".join(command[1:])] = typed(command[1:])
            print(capsys.readouterr().out, file=sys.stderr)
    finally:
        for process in running:
            process.terminate()
            process.wait(ANSWER_S)
    assert {words: code for words, code in codes.items() if code} == {"plan": 1}
    assert len(codes) == 7
    assert len(running) == 1


def page_commands(pair: ClusterPair) -> list[list[str]]:
    """Return the commands of the page, with the clusters' own addresses."""
    text = PAGE.read_text()
    for address, cluster in zip(ADDRESSES, (pair.source, pair.target), strict=True):
        text = text.replace(address, cluster.bootstrap)
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return [shlex.split(line) for line in lines if line.startswith(("heliostat ", "cat "))]


def typed(words: list[str]) -> int:
    """Run a verb in this process; return its exit code."""
    try:
        return run(words)
    except SystemExit as ended:
        return int(ended.code or 0)


def started(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a verb that goes on until it is stopped."""
    return subprocess.Popen([sys.executable, "-c", RUN, *words], cwd=folder, env=OWN_CODE)
