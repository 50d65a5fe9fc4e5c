"""`heliostat access`: rights and quotas that follow the source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option, link_option
from heliostat.operate.access import LinkAccess, link_access


@click.command("access")
@config_option
@link_option
@click.option(
    "--allow-delete",
    is_flag=True,
    help="Confirm the removals that are shown: the running link carries out just these.",
)
@by_option("Who confirms")
@json_option
@click.pass_context
def access_command(
    context: click.Context,
    *,
    config_file: Path,
    link_name: str | None,
    allow_delete: bool,
    by: str,
    as_json: bool,
) -> None:
    r"""Show which ACLs and quotas a link makes, keeps ready and removes at its target, and why.

    Nothing is removed by itself where a tenth would go at once, where the source lists nothing any
    more or has become another cluster: `--allow-delete` confirms it. Exit code 0 when all is in
    step, 1 otherwise.

    \b
    Examples:
      heliostat access -c heliostat.yaml
      heliostat access -c heliostat.yaml --link summit-to-usdf --allow-delete
    """
    config = known_config(config_file, link_name)
    views = link_access(config, link_name, allow_delete_by=by if allow_delete else "")
    if as_json:
        click.echo(json.dumps([view.to_json() for view in views], indent=2))
    else:
        for view in views:
            for line in _lines(view):
                click.echo(line)
    context.exit(IN_SYNC if all(view.is_in_step for view in views) else DIFFERENCE)


def _lines(view: LinkAccess) -> Iterator[str]:
    plan = view.plan
    state = "" if view.is_on else " (off: what would be done)"
    others = len(plan.acls.foreign) + len(plan.limits.foreign)
    yield (
        f"link {view.link}{state}: {plan.kept} rules kept ready, {others} are there already and "
        "somebody else's"
    )
    for line in plan.lines():
        yield f"  {line}"
    if view.is_confirmed:
        yield "  confirmed: the running link removes these with its next comparison"
    elif plan.asks:
        yield f"  nothing is removed: {plan.asks}; --allow-delete confirms it"
