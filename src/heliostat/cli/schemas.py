"""`heliostat schemas`: schemas of the source's registry at the target's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.operate.derived_schemas import DerivedSchema
from heliostat.operate.schemas import LinkSchemas, link_schemas, row_json, verify_schemas
from heliostat.operate.subject_modes import LinkModes, close_subjects, open_subjects
from heliostat.schemas import SchemaRow
from heliostat.schemas.status import SchemaState

_MARKS = {
    SchemaState.MIRRORED: "=",
    SchemaState.MAPPED: "=",
    SchemaState.MISSING: "+",
    SchemaState.REFUSED: "!",
    SchemaState.LEFT_OUT: "-",
}


@click.group("schemas")
def schemas_group() -> None:
    r"""Show and verify schemas that links mirror from registry to registry; open them, close them.

    \b
    Examples:
      heliostat schemas status -c heliostat.yaml
      heliostat schemas verify -c heliostat.yaml --link summit-to-usdf
    """


@schemas_group.command("status")
@config_option
@link_option
@click.option("--all", "shows_all", is_flag=True, help="Also those that are there.")
@json_option
@click.pass_context
def status_command(
    context: click.Context,
    *,
    config_file: Path,
    link_name: str | None,
    shows_all: bool,
    as_json: bool,
) -> None:
    r"""Show which versions of the source's subjects are at the target, and why others are not.

    Marks: `=` there, `+` missing, `!` refused, `-` left out. What pipelines make of schemas is
    listed behind them. Changes nothing. Exit code 0 when everything is there, 1 otherwise.

    \b
    Examples:
      heliostat schemas status -c heliostat.yaml
      heliostat schemas status -c heliostat.yaml --json | jq '.[].versions[].reason'
    """
    all_schemas = link_schemas(known_config(config_file, link_name), link_name)
    if as_json:
        click.echo(json.dumps([schemas.to_json() for schemas in all_schemas], indent=2))
    else:
        for schemas in all_schemas:
            click.echo(f"link {schemas.link}")
            for line in schema_lines(schemas, shows_all=shows_all):
                click.echo(f"  {line}")
    context.exit(IN_SYNC if all(schemas.in_sync for schemas in all_schemas) else DIFFERENCE)


@schemas_group.command("map")
@config_option
@link_option
@json_option
def map_command(*, config_file: Path, link_name: str | None, as_json: bool) -> None:
    r"""Print the id that each schema of the source has at the target.

    \b
    Examples:
      heliostat schemas map -c heliostat.yaml
      heliostat schemas map -c heliostat.yaml --json | jq '.[].ids["17"]'
    """
    all_schemas = link_schemas(known_config(config_file, link_name), link_name)
    if as_json:
        rows = [
            {
                "link": schemas.link,
                "ids": {str(own): there for own, there in schemas.plan.ids.items()},
            }
            for schemas in all_schemas
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for schemas in all_schemas:
        click.echo(f"link {schemas.link}: {len(schemas.plan.ids)} ids ({schemas.strategy})")
        for own, there in sorted(schemas.plan.ids.items()):
            click.echo(f"  {own} → {there}")


@schemas_group.command("verify")
@config_option
@link_option
@json_option
@click.pass_context
def verify_command(
    context: click.Context, *, config_file: Path, link_name: str | None, as_json: bool
) -> None:
    r"""Compare what each id means at the source and at each address of the target's registry.

    Asks for each id at each address. Exit code 0 when all are equal and none is missing.

    \b
    Examples:
      heliostat schemas verify -c heliostat.yaml
    """
    comparisons = list(verify_schemas(known_config(config_file, link_name), link_name))
    if as_json:
        rows = [
            {
                "link": comparison.link,
                "ids": comparison.ids,
                "missing": [row_json(row) for row in comparison.missing],
                "differences": [
                    {
                        "id": difference.schema_id,
                        "target_id": difference.target_id,
                        "address": difference.address,
                        "what": difference.what,
                    }
                    for difference in comparison.differences
                ],
            }
            for comparison in comparisons
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        for comparison in comparisons:
            click.echo(
                f"link {comparison.link}: {comparison.ids} ids compared, "
                f"{len(comparison.differences)} differ, "
                f"{len(comparison.missing)} versions are not at the target"
            )
            for difference in comparison.differences:
                click.echo(
                    f"  ! id {difference.schema_id} → {difference.target_id} "
                    f"at {difference.address}: {difference.what}"
                )
            for row in comparison.missing:
                click.echo(f"  {_row(row)}")
    is_equal = not any(comparison.differences or comparison.missing for comparison in comparisons)
    context.exit(IN_SYNC if is_equal else DIFFERENCE)


_link = click.argument("link_name", metavar="[LINK]", required=False)
_dry_run = click.option("--dry-run", is_flag=True, help="Only print what would be done.")


@schemas_group.command("open")
@_link
@config_option
@_dry_run
@json_option
@click.pass_context
def open_command(
    context: click.Context,
    *,
    config_file: Path,
    link_name: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    r"""Let producers of the target register in the subjects that a link has closed.

    For a failover, after `preserve` or `isolate`: subjects with mode IMPORT, which refuse producers
    (42205), get READWRITE. Needs the target only. The link imports nothing into them until `close`,
    whether it runs or not. Exit code 0 when all are open, 1 otherwise, or if any would be opened.

    \b
    Examples:
      heliostat schemas open summit-to-usdf -c heliostat.yaml --dry-run
      heliostat schemas open summit-to-usdf -c heliostat.yaml
    """
    modes = open_subjects(known_config(config_file, link_name), link_name, dry_run=dry_run)
    _show_modes(context, modes, as_json=as_json)


@schemas_group.command("close")
@_link
@config_option
@_dry_run
@json_option
@click.pass_context
def close_command(
    context: click.Context,
    *,
    config_file: Path,
    link_name: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    r"""Close again what `open` has opened, so that the link goes on importing.

    For a failback, when the producers of the target have stopped. Subjects that have nothing of the
    source's stay as they are. Exit code 0 when all are closed, 1 otherwise, or if any would be.

    \b
    Examples:
      heliostat schemas close summit-to-usdf -c heliostat.yaml
    """
    modes = close_subjects(known_config(config_file, link_name), link_name, dry_run=dry_run)
    _show_modes(context, modes, as_json=as_json)


def _show_modes(context: click.Context, modes: LinkModes, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(modes.to_json(), indent=2))
    else:
        for line in mode_lines(modes):
            click.echo(line)
    context.exit(IN_SYNC if modes.is_done else DIFFERENCE)


def mode_lines(modes: LinkModes) -> Iterator[str]:
    """Describe what was opened or closed, or would be."""
    word = "opened" if modes.opens else "closed"
    number = len(modes.plan.changes)
    done = f"would be {word}" if modes.dry_run else word
    yield f"link {modes.link}: {number} {'subject' if number == 1 else 'subjects'} {done}"
    for change in modes.plan.changes:
        yield f"  {change.scope}: {change.was.value} → {change.now.value}"
    for kept in modes.plan.kept:
        hint = f" (hint: {kept.hint})" if kept.hint else ""
        yield f"  ! {kept.scope or 'the registry'} stays {kept.mode.value}: {kept.reason}{hint}"
    for note in modes.plan.notes:
        yield f"  note: {note}"


def schema_lines(schemas: LinkSchemas, *, shows_all: bool = False) -> Iterator[str]:
    """Describe a link's schemas: how many are where, and a line for each that is not there."""
    counts = Counter(row.state.value for row in schemas.rows)
    states = ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "none"
    yield f"schemas ({schemas.strategy}): {len(schemas.rows)} versions: {states}"
    settled = (SchemaState.MIRRORED, SchemaState.MAPPED)
    for row in schemas.rows:
        if shows_all or row.state not in settled:
            yield f"  {_row(row)}"
    for note in schemas.plan.notes:
        yield f"  note: {note}"
    if schemas.derived:
        missing = sum(schema.target_id is None for schema in schemas.derived)
        yield f"made by pipelines: {len(schemas.derived)} schemas, {missing} not at the target"
    for schema in schemas.derived:
        if shows_all or schema.target_id is None:
            yield f"  {_derived(schema)}"


def _derived(row: DerivedSchema) -> str:
    mark = "!" if row.reason else "+" if row.target_id is None else "="
    where = f" → {', '.join(row.subjects)}" if row.subjects else ""
    there = "" if row.target_id is None else f" id {row.target_id}"
    why = f": {row.reason}" if row.reason else ""
    return f"{mark} id {row.schema_id} through {row.pipeline}{where}{there}{why}"


def _row(row: SchemaRow) -> str:
    mark = _MARKS[row.state]
    deleted = " (soft-deleted)" if row.is_deleted else ""
    there = ""
    if row.target_id is not None:
        there = f" → {', '.join(row.names)} id {row.target_id}"
    why = f": {row.code + ': ' if row.code else ''}{row.reason}" if row.reason else ""
    why += f" (hint: {row.hint})" if row.hint else ""
    return (
        f"{mark} {row.of.subject} version {row.of.version} id {row.schema_id}{deleted}{there}{why}"
    )
