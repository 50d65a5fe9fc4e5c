"""`heliostat sandbox`: real brokers on this machine, and load for them."""

from __future__ import annotations

import json

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat_sandbox import named
from heliostat_sandbox.cluster import HEAP_MB, Storage
from heliostat_sandbox.load_command import load_command
from heliostat_sandbox.outage_commands import (
    pause_command,
    resume_command,
    start_command,
    stop_command,
)
from heliostat_sandbox.security import SandboxSecurity
from heliostat_sandbox.shown_clusters import show
from heliostat_sandbox.versions import KAFKA_3_9, KAFKA_4_3

_names = click.argument("names", nargs=-1, metavar="[NAME]...")
_json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@click.group("sandbox")
def sandbox_group() -> None:
    r"""Run named clusters of real Kafka brokers on this machine, to try things out and for tests.

    \b
    Examples:
      heliostat sandbox up summit usdf
      heliostat sandbox load summit --profile quiet --topics 50 --seconds 60
      heliostat sandbox status
      heliostat sandbox pause summit           # and `resume`; `stop`, and `start` with its data
      heliostat sandbox down
    """


for _command in (load_command, stop_command, start_command, pause_command, resume_command):
    sandbox_group.add_command(_command)


@sandbox_group.command("up")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--brokers",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="Brokers per cluster.",
)
@click.option(
    "--version",
    type=click.Choice([KAFKA_4_3, KAFKA_3_9]),
    default=KAFKA_4_3,
    show_default=True,
    help="Version of Kafka.",
)
@click.option("--tmpfs", is_flag=True, help="Keep the logs in memory.")
@click.option(
    "--heap-mb",
    type=click.IntRange(128),
    default=HEAP_MB,
    show_default=True,
    help="Java heap per broker, in MB.",
)
@click.option("--secure", is_flag=True, help="Also listeners with TLS and passwords.")
@click.option("--registry", "has_registry", is_flag=True, help="A schema registry beside each.")
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A broker setting; repeatable."
)
@_json_option
def up_command(
    names: tuple[str, ...],
    *,
    brokers: str,
    version: str,
    tmpfs: bool,
    heap_mb: int,
    secure: bool,
    has_registry: bool,
    pairs: tuple[str, ...],
    as_json: bool,
) -> None:
    r"""Start clusters, which keep running until `down`; those already running are left alone.

    With --secure it prints the `security` section that a configuration needs; the open listener
    stays. With --registry, also of clusters that run, an Apicurio: it gives ids of its own and
    keeps its schemas in its memory.

    \b
    Examples:
      heliostat sandbox up summit usdf
      heliostat sandbox up base --secure
      heliostat sandbox up src destn --registry
      heliostat sandbox up big --brokers 3 --tmpfs --set log.retention.ms=600000
    """
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {pair!r}", param_hint="--set")
        settings[key.strip()] = value.strip()
    named.up(
        names,
        brokers=int(brokers),
        settings=settings,
        storage=Storage.TMPFS if tmpfs else Storage.DISK,
        heap_mb=heap_mb,
        version=version,
        security=SandboxSecurity() if secure else None,
        has_registry=has_registry,
    )
    show(named.status(names), as_json=as_json)


@sandbox_group.command("down")
@_names
@_json_option
def down_command(names: tuple[str, ...], *, as_json: bool) -> None:
    r"""Stop the named clusters (all by default), and delete their data.

    \b
    Examples:
      heliostat sandbox down
      heliostat sandbox down summit
    """
    stopped = named.down(names)
    if as_json:
        click.echo(json.dumps({"stopped": stopped}))
    else:
        click.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing runs")


@sandbox_group.command("status")
@_names
@_json_option
@click.pass_context
def status_command(context: click.Context, names: tuple[str, ...], *, as_json: bool) -> None:
    r"""Show the clusters and what runs of them; exit code 1 when a part is dead.

    \b
    Examples:
      heliostat sandbox status
      heliostat sandbox status summit --json | jq -r '.[0].bootstrap'
    """
    found = named.status(names)
    show(found, as_json=as_json)
    context.exit(IN_SYNC if all(cluster.alive for cluster in found) else DIFFERENCE)
