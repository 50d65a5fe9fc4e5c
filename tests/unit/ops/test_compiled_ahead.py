"""Loops are compiled once, ahead of the first lane, and a line says so."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from heliostat.ops import compiled_ahead
from heliostat.ops.compiled_ahead import MODULES, PACKAGE, LoopsAhead, is_there, stamp

USES = re.compile(r"^from heliostat\.ops\.compiled import", re.MULTILINE)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


def program(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(compiled_ahead, "PROGRAM", (sys.executable, "-S", "-c", text))


def test_all_modules_with_loops_are_named() -> None:
    with_loops = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if USES.search(path.read_text(encoding="utf-8"))
    }

    assert set(MODULES) == with_loops
    assert list(MODULES) == sorted(MODULES)


def test_it_is_said_when_it_begins_and_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    program(monkeypatch, "pass")

    LoopsAhead("local[2]", lines.append).wait()

    assert lines == [compiled_ahead.BEGINS, "compiled in 0 s"]


def test_a_failure_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    program(monkeypatch, "raise OSError('disk full')")

    LoopsAhead("local[*]", lines.append).wait()

    assert lines[1:] == ["not compiled beforehand, the first lane does it: OSError: disk full"]


def test_it_ends_with_a_start_that_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    program(monkeypatch, "import time; time.sleep(60)")
    began_s = time.monotonic()

    loops = LoopsAhead("local", lines.append)
    loops.end()
    loops.wait()

    assert lines == [compiled_ahead.BEGINS]
    assert time.monotonic() - began_s < 30


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_executors_compile_for_their_own_machines(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, "raise SystemExit(1)")

    LoopsAhead(master, pytest.fail).wait()


def test_nothing_is_done_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    program(monkeypatch, "raise SystemExit(1)")
    stamp().touch()

    LoopsAhead("local[2]", pytest.fail).wait()

    assert is_there()


def test_another_processor_or_version_compiles_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stamp()
    processor = tmp_path / "cpuinfo"
    processor.write_text("processor : 0\nmodel name : other\nflags : avx512\n")

    monkeypatch.setattr(compiled_ahead, "PROCESSOR", processor)
    of_another_processor = stamp()
    monkeypatch.setattr(compiled_ahead.importlib.metadata, "version", lambda _: "0.99")

    assert len({before, of_another_processor, stamp()}) == 3
