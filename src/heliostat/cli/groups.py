"""`heliostat groups`: where consumers would continue at the target, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.groups.values import CommitDecision
from heliostat.operate.groups import GroupView, LinkGroups, group_views


@click.command("groups")
@config_option
@link_option
@click.option(
    "--explain", "group", metavar="GROUP", help="Only this group, partition by partition."
)
@json_option
@click.pass_context
def groups_command(
    context: click.Context,
    config_file: Path,
    link_name: str | None,
    group: str | None,
    as_json: bool,
) -> None:
    r"""Show each consumer group's offsets on both sides, and why it is or isn't synced.

    `reread` is the number of records that a consumer would read again if it continued at the
    target now. Changes nothing. Exit code 0 when all selected groups are in sync, 1 otherwise.

    \b
    Examples:
      heliostat groups -c heliostat.yaml
      heliostat groups -c heliostat.yaml --explain telegraf-ESS
      heliostat groups -c heliostat.yaml --json | jq '.[].reasons'
    """
    all_groups = group_views(known_config(config_file, link_name), link_name, group)
    if as_json:
        click.echo(json.dumps([link_groups.to_json() for link_groups in all_groups], indent=2))
    else:
        for link_groups in all_groups:
            for line in _lines(link_groups, group):
                click.echo(line)
    in_sync = all(view.is_in_sync for link_groups in all_groups for view in link_groups.groups)
    context.exit(IN_SYNC if in_sync else DIFFERENCE)


def _lines(link_groups: LinkGroups, group: str | None) -> Iterator[str]:
    selected = [view for view in link_groups.groups if view.skip is None]
    state = "" if link_groups.sync else " (sync is off: what would be done)"
    took = ", ".join(f"{step} {ms} ms" for step, ms in link_groups.took_ms.items())
    yield (
        f"link {link_groups.link}: {len(selected)} of {len(link_groups.groups)} groups{state}; "
        f"{took}"
    )
    if group is None:
        reasons = sorted(link_groups.reasons.items(), key=lambda item: -item[1])
        yield "  partitions: " + (", ".join(f"{n} {name}" for name, n in reasons) or "none")
        for view in link_groups.groups:
            yield _summary(view)
        return
    if not link_groups.groups:
        yield f"  {group}: the source has no such group, or we have no permission to see it"
    for view in link_groups.groups:
        yield from _explained(view)


def _summary(view: GroupView) -> str:
    if view.decided is None:
        return f"  - {view.shown_name}  ({view.why})"
    if view.decided.problem:
        return f"  ! {view.shown_name}  {view.decided.problem}"
    rows = [row for row in view.decided.partitions if row.target is not None]
    if not rows:
        return f"  - {view.shown_name}  (no offsets of mirrored topics)"
    open_rows, reread = view.open_rows, view.reread_records
    if not open_rows:
        return f"  = {view.shown_name}  {len(rows)} partitions, reread {reread}"
    return (
        f"  ~ {view.shown_name}  {len(open_rows)} of {len(rows)} partitions are not in sync, "
        f"reread {reread}: {open_rows[0].why}"
    )


def _explained(view: GroupView) -> Iterator[str]:
    yield f"  {view.shown_name}: {view.why}"
    if view.decided is None:
        return
    source, target = view.decided.source, view.decided.target
    yield f"  at the source: {'gone' if source is None else source.state or 'state unknown'}"
    yield f"  at the target: {'not there' if target is None else target.state or 'state unknown'}"
    for member in view.members:
        yield f"    member {member.client_id} on {member.host}"
    if view.decided.problem:
        yield f"  {view.decided.problem}"
    for row in view.decided.partitions:
        yield f"  {_row(row)}"


def _row(row: CommitDecision) -> str:
    if row.target is None:
        return f"{row.source}  source {_number(row.source_offset)}  {row.reason.name}: {row.why}"
    name = str(row.source) if row.source == row.target else f"{row.source} → {row.target}"
    return (
        f"{name}  source {_number(row.source_offset)}  target {_number(row.target_offset)}"
        f"  wanted {_number(row.wanted)}  reread {_number(row.reread_records)}"
        f"  {row.reason.name}: {row.why}"
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
