"""A pipeline is tried with made-up records: no broker is asked, and no Spark is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from heliostat.cli import trial as cli_trial
from heliostat.cli.trial import try_command
from heliostat.config import load_config
from heliostat.operate.pipeline_files import forget, packages_of, stamps_of
from heliostat.operate.tried_records import NO_CLUSTER
from heliostat.records.spark import trial as in_spark

HELIOSTAT = Path(sys.executable).with_name("heliostat")
TRIED_WITHIN_S = 2.0
"""Of processor time: others may be busy. It takes 1.0 s on a quiet machine, twice that if not."""
TRIES = 4
CONFIG: dict[str, Any] = {
    "clusters": {"summit": {"bootstrap": ["127.0.0.1:1"]}, "usdf": {"bootstrap": ["127.0.0.1:2"]}},
    "links": [{"name": "l", "source": "summit", "target": "usdf"}],
}
MASKED: list[dict[str, Any]] = [
    {"drop_with_header": {"name": "test"}},
    {"insert_origin": {"what": ["cluster", "topic", "partition", "offset"]}},
    {"json_fields": {"mask": {"name": None}}},
]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def not_started(_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(in_spark, "trial_session", not_started)
    return write(tmp_path / "heliostat.yaml", *MASKED)


def write(path: Path, *steps: dict[str, Any]) -> Path:
    (link,) = CONFIG["links"]
    pipelines = [{"name": "hide", "topics": ["orders"], "steps": steps}]
    path.write_text(json.dumps({**CONFIG, "links": [{**link, "pipelines": pipelines}]}))
    return path


def tried(config: Path, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(try_command, ["l", "orders", "-c", str(config), "--json", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    found: list[dict[str, Any]] = json.loads(done.stdout)["records"]
    assert done.exit_code == any(each["error"] for each in found)
    return found


def test_made_up_records_go_through_steps_in_place(config: Path, tmp_path: Path) -> None:
    """Given records from options and a file, at which steps fail or not / then each is shown."""
    lines = tmp_path / "values"
    lines.write_bytes(b'{"name": 3}\nno object\n\xff\n{"id": 4}')
    words = ("--value", '{"name":"me"}', "--file", str(lines), "--key", "0x00ff", "--header", "a=b")
    found = tried(config, *words)
    assert [(each["offset"], each["verdict"]) for each in found] == [
        (0, "changed"),
        (1, "changed"),
        (2, "fails"),
        (3, "fails"),
        (4, "changed"),
    ]
    assert found[0]["after"]["value"] == '{"name":""}'
    assert found[0]["after"]["key"] == "0x00ff"
    origin = ["cluster", NO_CLUSTER], ["topic", "orders"], ["partition", "0"], ["offset", "0"]
    named = [[f"origin.{name}", text] for name, text in origin]
    assert found[0]["after"]["headers"] == [["a", "b"], *named]
    assert "no JSON object" in found[2]["error"]
    assert found[2]["after"] is None


def test_what_is_filtered_out_and_a_tombstone(config: Path) -> None:
    (found,) = tried(config, "--value", "{}", "--header", "test=")
    assert found["verdict"] == "filtered out"
    (found,) = tried(config, "--key", "k")
    assert (found["before"]["value"], found["verdict"]) == (None, "changed")


def test_headers_need_a_record_and_a_name(config: Path) -> None:
    for words in (["--header", "a=b"], ["--header", "a", "--value", "1"]):
        done = CliRunner().invoke(try_command, ["l", "orders", "-c", str(config), *words])
        assert done.exit_code == 2
        assert "--header" in done.stderr


def test_it_is_tried_again_at_each_change_of_a_file(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given `--watch` / when configuration or values change, or are wrong for a while / then what

    the pipeline makes of them is shown each time, or why not; and Ctrl-C ends it.
    """
    values = tmp_path / "values"
    values.write_text("{}\n")
    changes: list[Callable[[], object]] = [
        lambda: values.write_text('{"name":"me"}\n'),
        lambda: config.write_text("links: ["),
        lambda: write(config, {"drop_headers": ["x", "y"]}),
    ]

    def sleep(_: float) -> None:
        if not changes:
            raise KeyboardInterrupt
        changes.pop(0)()

    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)  # other threads sleep, too
    monkeypatch.setattr(cli_trial, "time", clock)
    words = ["l", "orders", "-c", str(config), "--watch", "--file", str(values)]
    done = CliRunner().invoke(try_command, words)
    assert done.exit_code in {1, 130}
    marks = [line[0] for line in done.stdout.splitlines() if line[1:2] == " "]
    assert [each for each in marks if each in "=~-!"] == ["~", "~", "="]
    assert done.stderr.count("waits for a change") == 3
    assert "CONFIG" in done.stderr


def test_a_module_that_has_changed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given functions in a package and in a module / when a file of theirs changes / then that is

    seen, and the next import has what is in it now.
    """
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    package = tmp_path / "tried_steps"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("NUMBER = 1\n")
    (tmp_path / "tried_alone.py").write_text("")
    steps = [{"function": "tried_steps.one:f"}, {"function": "tried_alone:f"}]
    config = load_config(write(tmp_path / "c.yaml", *steps))
    packages = packages_of(config.links[0])
    assert packages == {"tried_steps", "tried_alone"}
    files = [tmp_path / "c.yaml", tmp_path / "gone"]
    before = stamps_of(files, packages)
    names = {"c.yaml", "__init__.py", "one.py", "tried_alone.py"}
    assert {each.name for each in before} == names
    from tried_steps import one  # type: ignore[import-not-found]  # made above

    assert one.NUMBER == 1
    time.sleep(0.01)
    (package / "one.py").write_text("NUMBER = 22\n")
    assert stamps_of(files, packages) != before
    forget(packages)
    from tried_steps import one as again

    assert again.NUMBER == 22


def test_a_try_without_spark_takes_some_seconds_at_most(config: Path) -> None:
    """Given steps that need no Spark / when tried from the command / then at once."""
    words = [HELIOSTAT, "try", "l", "orders", "-c", config, "--value", '{"name":"me"}']
    took_s: list[float] = []
    while len(took_s) < TRIES and all(
        each > TRIED_WITHIN_S for each in took_s
    ):  # the first may compile
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            _, code, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(code)
        assert process.returncode == 0
        took_s.append(used.ru_utime + used.ru_stime)
    assert min(took_s) <= TRIED_WITHIN_S
