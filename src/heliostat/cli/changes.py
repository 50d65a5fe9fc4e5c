"""Verbs that change what a link has: of one link, shown before they are carried out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

import click


class Shown(Protocol):
    """What would be done, or was."""

    def describe(self) -> Iterator[str]:
        """Plain lines for people."""
        ...

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        ...


def show(plan: Shown, heading: str, *, as_json: bool) -> None:
    """Print it; for people below a heading."""
    if as_json:
        click.echo(json.dumps(plan.to_json(), indent=2))
        return
    click.echo(heading)
    for line in plan.describe():
        click.echo(f"  {line}")
