"""`heliostat acls`: the ACLs to request from a cluster's administrator."""

from __future__ import annotations

import json
from pathlib import Path

import click

from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, peer_options
from heliostat.mm2.adopt_plan import peer_of
from heliostat.operate.acls import ClusterGrants, home_grants, link_grants
from heliostat.operate.links import links_of
from heliostat.operate.verb_acls import grants_of_verbs


@click.command("acls")
@click.argument("link_name", metavar="[LINK]", required=False)
@config_option
@click.option(
    "--principal",
    metavar="User:NAME",
    help="Principal of the link on both clusters; the configured user names by default.",
)
@click.option(
    "--adopt", "adopts", is_flag=True, help="Add what `heliostat adopt` and adopt --back need."
)
@click.option(
    "--switch",
    "switches",
    is_flag=True,
    help="Add what `switch`, `failover`, `tail`, `reverse` and `drill` need, by verb.",
)
@peer_options
@json_option
def acls_command(
    link_name: str | None,
    config_file: Path,
    principal: str | None,
    *,
    adopts: bool,
    switches: bool,
    alias: str | None,
    offsets_topic: str | None,
    group: str | None,
    workers_run_on: bool,
    as_json: bool,
) -> None:
    r"""Print the ACLs that a link needs at its source and at its target, and no others.

    Where links by API are kept (`service.home`) is a side of its own. Contacts no cluster. Replace
    `admin.properties` by a file with an administrator's credentials, or omit that option if none
    are needed. With --adopt, identify the MirrorMaker 2 as for `heliostat adopt`.

    \b
    Examples:
      heliostat acls summit-to-usdf -c heliostat.yaml
      heliostat acls summit-to-usdf --principal User:mirror --json | jq '.[].sides[].acls'
      heliostat acls summit-to-usdf --adopt --alias S
      heliostat acls summit-to-usdf --switch
    """
    if principal is not None and ":" not in principal:
        raise click.BadParameter(
            "must begin with a type, such as User:mirror", param_hint="--principal"
        )
    if not adopts and (workers_run_on or {alias, offsets_topic, group} != {None}):
        raise click.UsageError("options about a MirrorMaker 2 need --adopt")
    config = known_config(config_file, link_name)
    by_link: dict[str, tuple[ClusterGrants, ...]] = {}
    for link in links_of(config, link_name):
        peer = peer_of(
            link, alias=alias, topic=offsets_topic, group=group, workers_run_on=workers_run_on
        )
        grants = grants_of_verbs if switches else link_grants
        both = grants(config, link, principal, peer if adopts else None)
        by_link[link.name] = (*both, *home_grants(config, principal))
    if as_json:
        answer = [
            {"link": name, "sides": [side.to_json() for side in sides]}
            for name, sides in by_link.items()
        ]
        click.echo(json.dumps(answer, indent=2))
        return
    for name, sides in by_link.items():
        for side in sides:
            _show(name, side)


def _show(link: str, side: ClusterGrants) -> None:
    """Print commands that can be pasted into a shell, and all else as `#` comments."""
    click.echo(f"# link {link}: {side.side} {side.cluster}, {side.principal}")
    for note in side.notes:
        click.echo(f"# note: {note}")
    for verb in side.verbs:
        if verb:
            click.echo(f"# for heliostat {verb}")
        for command in side.commands(verb):
            click.echo(command)
