"""`heliostat examples`."""

from __future__ import annotations

from pathlib import Path

import click

from heliostat.operate.examples import copy_examples, example_files, example_text


@click.command("examples")
@click.argument("name", required=False)
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Copy all of them below this folder.",
)
def examples_command(name: str | None, folder: Path | None) -> None:
    r"""List the files that come with the program, print one, or copy all.

    Configurations, a unit file for systemd, files for containers and Kubernetes, alert rules and
    boards. Nothing is overwritten.

    \b
    Examples:
      heliostat examples
      heliostat examples heliostat.yaml > heliostat.yaml
      heliostat examples --to heliostat-examples
    """
    if name is not None and folder is not None:
        raise click.UsageError("give a name or --to, not both")
    if name is not None:
        click.echo(example_text(name), nl=False)
    elif folder is not None:
        fresh = copy_examples(folder)
        click.echo(f"{len(fresh)} files copied to {folder}" if fresh else "all are there already")
    else:
        for file_name in example_files():
            click.echo(file_name)
