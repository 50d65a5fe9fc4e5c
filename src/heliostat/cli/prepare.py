"""`heliostat prepare`."""

from __future__ import annotations

import sys

import click

from heliostat.cli.exit_codes import DIFFERENCE
from heliostat.operate.prepare import Prepared, prepare


@click.command("prepare")
def prepare_command() -> None:
    r"""Compile and keep what a first start on this machine would, so that links begin at once.

    Do it once after an installation or an upgrade, as the user who runs links, and in an image
    for each kind of processor that it may run on. Without it the first link does the same: some
    15 s of processor time. Needs Java. Exit code 1: a part can't be kept, links run without it.

    \b
    Examples:
      heliostat prepare
      NUMBA_CACHE_DIR=/var/cache/heliostat/numba heliostat prepare
    """
    made = prepare(tell)
    if any(part.why_not for part in made):
        sys.exit(DIFFERENCE)


def tell(part: Prepared) -> None:
    """Print what became of one part."""
    if part.why_not:
        click.echo(f"not kept: {part.name}: {part.why_not}", err=True)
    else:
        click.echo(f"kept {part.name} ({part.seconds:.0f} s)")
