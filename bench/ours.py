"""Heliostat as a user runs it: one configuration file, `heliostat run`, stopped by SIGTERM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from reach import Way

from heliostat.clusters.byte_topic import ByteTopic
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import offsets_topic

PREFIX = "ours."
LINK = "bench"
CONFIG_FILE = "heliostat.yaml"
PLAIN, MERGED = "ours", "ours_merged"
"""Parts: the second copies into topics that others might write as well (`topics.naming: merge`)."""


def prefix_of(part: str) -> str:
    """Return what a part of ours puts before names at the target."""
    return "" if part == MERGED else PREFIX


def map_rows(bootstrap: str) -> dict[bytes, bytes]:
    """Read the rows of the link's offset map, the last of each key."""
    with ByteTopic([bootstrap], TopicName(offsets_topic(LinkName(LINK))), "bench") as topic:
        return {row.key or b"": row.value or b"" for row in topic.read_all()}


def config(
    source: Way,
    target: Way,
    topics: Sequence[str],
    master: str = "local[*]",
    *,
    steps: Sequence[Mapping[str, Any]] = (),
    latency_target_ms: float | None = None,
    part: str = PLAIN,
) -> dict[str, Any]:
    """Return the minimal configuration of a user: no setting is tuned for the benchmark.

    `steps` are of a pipeline that all records go through; empty: there is none. A latency target is
    given to show what one costs.
    """
    records = {} if latency_target_ms is None else {"latency_target_ms": latency_target_ms}
    naming = "merge" if part == MERGED else {"prefix": PREFIX}
    pipeline = {"name": LINK, "topics": list(topics), "steps": [dict(each) for each in steps]}
    return {
        "clusters": {"A": _cluster(source), "B": _cluster(target)},
        "spark": {"master": master},
        "links": [
            {
                "name": LINK,
                "source": "A",
                "target": "B",
                "topics": {"include": list(topics), "naming": naming},
                **({"pipelines": [pipeline]} if steps else {}),
                **({"records": records} if records else {}),
            }
        ],
    }


def wish(file: Path, verb: str, *words: str) -> None:
    """Write what is wished of the link before it has a driver, which does it from the begin."""
    command_line = [sys.executable, "-m", "heliostat.cli.entry", verb, LINK, *words]
    told = subprocess.run(
        [*command_line, "-c", str(file), "--wait", "0"], capture_output=True, text=True, check=False
    )
    if told.returncode not in {0, 1}:  # 1: it waits for a driver
        raise RuntimeError(f"heliostat {verb}: {told.stderr}")


def _cluster(way: Way) -> dict[str, Any]:
    security = {"security": dict(way.security)} if way.security else {}
    return {"bootstrap": [way.bootstrap], **security}


def command(folder: Path, wanted: dict[str, Any], *, serve: bool = False) -> Sequence[str]:
    """Write the configuration file and return the command line that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / CONFIG_FILE
    file.write_text(yaml.safe_dump(wanted, sort_keys=False))
    flags = [] if serve else ["--no-serve"]
    return [sys.executable, "-m", "heliostat.cli.entry", "run", *flags, "-c", str(file)]
