"""New rounds of lanes: by themselves they go on for as long as their link runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
from support.clusters import until
from support.command import said
from support.links import kill

WITHIN_S = 90.0
"""A lane whose round fails again and again waits up to 5 s before the next one."""


def rounds_of(config: Path) -> dict[tuple[str, int], int]:
    """Return the generation of the newest round that has reported, by link and lane."""
    return {
        (status["link"], lane["lane"]): lane["generation"]
        for status in said(config, "status")
        for lane in status["lanes"]
    }


def _wanted(config: Path) -> set[tuple[str, int]]:
    """Return the lanes that drivers want by their last reports, by link and lane."""
    return {
        (status["link"], int(lane))
        for status in said(config, "status")
        for lane in status["driver"].get("generations", {})
    }


def begin_new_rounds(
    config: Path, workers: Callable[[], list[psutil.Process]], times: int = 1
) -> None:
    """Kill the lanes' workers, and wait for the rounds that follow; do so a few times."""
    for _ in range(times):
        _begin_anew(config, workers)


def _begin_anew(config: Path, workers: Callable[[], list[psutil.Process]]) -> None:
    before: dict[tuple[str, int], int] = {}

    def have_reported() -> bool:
        before.update(rounds_of(config))
        return bool(before)

    until(have_reported, "rounds that report", timeout_s=WITHIN_S)
    kill(workers())

    def are_new() -> bool:
        now, wanted = rounds_of(config), _wanted(config)
        return bool(wanted) and all(
            now.get(lane, -1) > generation
            for lane, generation in before.items()
            if lane in wanted  # a link that guessed two lanes at first goes on with one
        )

    until(
        are_new,
        lambda: f"rounds after {before}: {rounds_of(config)}, workers {workers()}",
        timeout_s=WITHIN_S,
    )
