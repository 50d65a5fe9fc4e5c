"""Schema registries for the benchmark, each in a process of its own.

Apicurio, which the tests run, takes no ids, and *preserve* needs one that does: so they are the
tests' double with Confluent's rules, over HTTP.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STOP_S = 10.0
Subjects = Sequence[tuple[str, str]]
"""Subjects, each with the text of a schema."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A running one."""

    url: str
    ids: list[int]
    """Of what it was filled with."""
    pid: int


def schema_of(number: int, fields: int = 3) -> str:
    """Return an Avro schema that no other number has."""
    each = [{"name": f"f{n}", "type": "double", "default": 0} for n in range(fields)]
    name = f"Record{number}"
    return json.dumps({"type": "record", "name": name, "namespace": "bench", "fields": each})


@contextlib.contextmanager
def registry(folder: Path, name: str, subjects: Subjects = ()) -> Iterator[Registry]:
    """Start one that has these subjects; stop it at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-subjects.json"
    file.write_text(json.dumps(subjects))
    paths = [str(ROOT / "tests"), str(ROOT / "sandbox"), str(ROOT / "src")]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.registry_process", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError((folder / f"{name}.log").read_text())
        said = json.loads(line)
        yield Registry(said["url"], said["ids"], process.pid)
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=STOP_S)
        process.kill()
        process.wait()


@contextlib.contextmanager
def registries_of(
    wanted: dict[str, Any], folder: Path, strategy: str, source: Subjects, target: Subjects = ()
) -> Iterator[None]:
    """Add running registries of both sides, and a strategy, to a configuration."""
    with registry(folder, "source", source) as here, registry(folder, "target", target) as there:
        for name, each in (("A", here), ("B", there)):
            wanted["clusters"][name]["schema_registry"] = {"urls": each.url}
        wanted["links"][0]["schemas"] = {"strategy": strategy}
        yield
