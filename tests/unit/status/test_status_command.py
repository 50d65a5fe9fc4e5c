"""What `heliostat status` prints, in which order, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from heliostat.cli.status import ROWS, status_command
from heliostat.errors import ConnectionLost, HeliostatError
from heliostat.names import LinkName
from heliostat.operate import status as operate
from heliostat.status.board import StatusBoard, unreachable
from heliostat.status.values import LinkStatus, TopicStatus

NOW_MS = 1_700_000_000_000
LONG = "observatory.summit.telescope.mount.azimuth.drive.motor.temperature.filtered"


def topic(
    name: str, *, state: str = "copying", lag: int | None = 0, rate: float = 0
) -> TopicStatus:
    age_s = None if lag is None else float(lag)
    row = TopicStatus(name, f"usdf.{name}", 1, rate, rate, lag, age_s, {state: 1})
    row.unknown = int(lag is None)
    return row


def link(*topics: TopicStatus) -> LinkStatus:
    status = StatusBoard(LinkName("l")).status(NOW_MS)
    status.state, status.topics, status.partitions = "running", list(topics), len(topics)
    status.lag_records, status.lag_s = 0, 0.0
    return status


TOPICS = [
    topic("busy", rate=9e6),
    *(topic(f"level-{n:02}") for n in range(ROWS + 5)),
    topic("late", lag=5),
    topic("later", lag=99),
    topic("unclear", lag=None),
    topic(LONG, state="blocked", lag=7),
]


def asked(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *words: str,
    status: LinkStatus | None = None,
    error: HeliostatError | None = None,
) -> Result:
    path = folder / "heliostat.yaml"
    clusters = {"a": {"bootstrap": "a:1"}, "b": {"bootstrap": "b:1"}}
    links = [{"name": "l", "source": "a", "target": "b"}]
    path.write_text(yaml.safe_dump({"clusters": clusters, "links": links}))
    found = [(status or link(*TOPICS), error)]
    monkeypatch.setattr(operate, "statuses_apart", lambda *_: found)
    return CliRunner().invoke(status_command, ["-c", str(path), *words])


def names(done: Result) -> list[str]:
    """First words of the table's rows."""
    lines = done.output.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("topic "))
    return [line.split()[0] for line in lines[start + 1 :] if "usdf." in line or "…" in line]


def test_troubled_and_lagging_topics_come_first_and_nothing_is_cut(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = asked(monkeypatch, tmp_path)
    assert done.exit_code == 1
    shown = names(done)
    assert shown[:5] == [LONG, "unclear", "later", "late", "busy"]
    assert len(shown) == ROWS + 1
    assert f"{LONG} → usdf.{LONG}" in done.output
    assert "… 10 more" in done.output


def test_all_topics_some_or_another_order_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert len(names(asked(monkeypatch, tmp_path, "--all"))) == len(TOPICS)
    assert names(asked(monkeypatch, tmp_path, "--sort", "rate"))[0] == "busy"
    by_name = names(asked(monkeypatch, tmp_path, "--sort", "name", "--all"))
    assert by_name == sorted(by_name)
    assert names(asked(monkeypatch, tmp_path, "--topic", "late*")) == ["later", "late"]
    [told] = json.loads(asked(monkeypatch, tmp_path, "--json", "--topic", "late").output)
    assert [row["source"] for row in told["topics"]] == ["late"]
    assert not told["in_sync"]  # of the whole link


def test_a_plugin_answers_in_one_line_whatever_happens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = asked(monkeypatch, tmp_path, "--nagios", status=link(topic("t")))
    assert (done.exit_code, done.output.count("\n")) == (0, 1)
    assert done.output.startswith("HELIOSTAT OK - 1 links in sync | ")
    assert asked(monkeypatch, tmp_path, "--nagios", status=link(topic("t", lag=99))).exit_code == 1
    lost = ConnectionLost("gone")
    status = unreachable(LinkName("l"), NOW_MS, lost)
    assert asked(monkeypatch, tmp_path, "--nagios", status=status, error=lost).exit_code == 3
    assert asked(monkeypatch, tmp_path, status=status, error=lost).exit_code == 3
    wrong = CliRunner().invoke(status_command, ["-c", str(tmp_path / "none.yaml"), "--nagios"])
    assert (wrong.exit_code, wrong.output.count("\n")) == (3, 1)
    assert wrong.output.startswith("HELIOSTAT UNKNOWN - ")
