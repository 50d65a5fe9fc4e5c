"""Printing of plans for verbs that show changes of a link before they make them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

import click


class Shown(Protocol):
    """Plan of changes that would be made, or were."""

    def describe(self) -> Iterator[str]:
        """Yield lines for people."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        ...


def show(plan: Shown, heading: str, *, as_json: bool) -> None:
    """Print a plan, as JSON or as lines below a heading."""
    if as_json:
        click.echo(json.dumps(plan.to_json(), indent=2))
        return
    click.echo(heading)
    for line in plan.describe():
        click.echo(f"  {line}")
