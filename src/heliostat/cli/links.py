"""`heliostat links`: which links there are, and those that lie on the home cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import yaml

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.options import by_option, config_option, json_option
from heliostat.config import read_config_file
from heliostat.errors import ConfigError

if TYPE_CHECKING:
    from heliostat.operate.link_definitions import Asker, DefinitionAnswer, LinkDefinition

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FIELDS_MAX = 20


def _change_options(command: _Command) -> _Command:
    """Add what all verbs that change links have in common."""
    for option in reversed(_CHANGE_OPTIONS):
        command = option(command)
    return command


_CHANGE_OPTIONS = (
    config_option,
    click.option("--why", default="", metavar="TEXT", help="Why; shown with the link."),
    by_option("Who asks for it"),
    click.option("--dry-run", is_flag=True, help="Only tell what would change."),
    json_option,
)
_generation = click.option(
    "--if-generation",
    "expected",
    type=int,
    metavar="NUMBER",
    help="Only if it was not changed since it had this generation, as `links show` tells.",
)
_content = click.argument("content_file", metavar="FILE", type=click.File())


@click.group("links")
def links_group() -> None:
    r"""List links; make, change and delete those that are not in the file.

    They lie on the cluster that `service.home` names, in heliostat.links: every `heliostat run`
    with that home takes part in them, one as their owner, the others as standbys. Links of the file
    are changed there.

    \b
    Examples:
      heliostat links list
      heliostat links create summit-to-usdf link.yaml --why "for the commissioning"
      echo 'topics: {include: ["lsst[.].*"]}' | heliostat links change summit-to-usdf -
      heliostat links delete summit-to-usdf --state --dry-run
    """


@links_group.command("list")
@config_option
@json_option
@click.pass_context
def list_command(context: click.Context, *, config_file: Path, as_json: bool) -> None:
    r"""List all links: of the file and of the home, with state, owner and generation.

    One that this file can't take waits, with the reason. Exit code 1 if one waits, or the home does
    not answer.

    \b
    Example:
      heliostat links list --json | jq '.items[] | select(.origin == "home")'
    """
    from heliostat.operate.link_states import list_links

    listing = list_links(read_config_file(config_file))
    if as_json:
        click.echo(json.dumps(listing.to_json(), indent=2))
    else:
        for link in listing.links:
            click.echo("\n".join(link_lines(link)))
    if listing.error is not None:
        click.echo(f"heliostat: {listing.error}", err=True)
    is_whole = listing.error is None and not any(link.waits for link in listing.links)
    context.exit(IN_SYNC if is_whole else DIFFERENCE)


@links_group.command("show")
@click.argument("name", metavar="LINK")
@config_option
@json_option
def show_command(*, name: str, config_file: Path, as_json: bool) -> None:
    r"""Print how LINK is defined, where, by whom and why; defaults of the file are not in it.

    \b
    Example:
      heliostat links show summit-to-usdf
    """
    from heliostat.operate.link_states import show_link

    link = show_link(read_config_file(config_file), name)
    if as_json:
        click.echo(json.dumps(link.to_json(), indent=2))
        return
    click.echo("\n".join(f"# {line.strip()}" for line in link_lines(link)))
    click.echo(yaml.safe_dump(dict(link.content), sort_keys=False).rstrip())


@links_group.command("create")
@click.argument("name", metavar="LINK")
@_content
@_change_options
def create_command(*, name: str, content_file: Any, **options: Any) -> None:
    r"""Make LINK on the home, as FILE (YAML or JSON, `-`: standard input) says.

    FILE holds what `links:` of the configuration would, without the name. Clusters are named by
    their aliases in the configuration file; files, functions and variables can't be named, unless
    `service.allow` lists them. All is checked before anything is written.

    \b
    Examples:
      heliostat links create summit-to-usdf link.yaml --dry-run
      echo '{source: summit, target: usdf, topics: {include: [foo]}}' | heliostat links create one -
    """
    from heliostat.operate.link_definitions import create_link

    content = content_in(content_file)
    file = read_config_file(options["config_file"])
    _show(create_link(file, name, content, _asker(options)), as_json=options["as_json"])


@links_group.command("change")
@click.argument("name", metavar="LINK")
@_content
@click.option("--whole", is_flag=True, help="FILE is all of it, not a change of some fields.")
@_generation
@_change_options
def change_command(
    *, name: str, content_file: Any, whole: bool, expected: int | None, **options: Any
) -> None:
    r"""Change LINK on the home, as FILE (YAML or JSON, `-`: standard input) says.

    FILE holds the fields that change; one that is null is left to its default (RFC 7396). Lists are
    given whole. Partitions that a change does not concern are not disturbed.

    \b
    Examples:
      echo 'topics: {include: [foo, bar]}' | heliostat links change summit-to-usdf - --dry-run
      heliostat links change summit-to-usdf link.yaml --whole --if-generation 12
    """
    from heliostat.operate.link_definitions import change_link

    content = content_in(content_file)
    file, asker = read_config_file(options["config_file"]), _asker(options)
    answer = change_link(file, name, content, asker, is_whole=whole, expected=expected)
    _show(answer, as_json=options["as_json"])


@links_group.command("delete")
@click.argument("name", metavar="LINK")
@click.option("--state", is_flag=True, help="Delete its own topics, heliostat.LINK.*, as well.")
@click.option("--mirrors", is_flag=True, help="Delete its mirrors with all records as well.")
@_generation
@_change_options
def delete_command(
    *, name: str, state: bool, mirrors: bool, expected: int | None, **options: Any
) -> None:
    r"""Delete LINK from the home: whoever runs it lets it go.

    Mirrors and the link's own topics stay, unless asked for: a link of the same name goes on where
    this one ended. Topics are deleted once the link has no owner any more, half a minute is waited
    for that; whoever deletes it again goes on there. `--dry-run` names the topics.

    \b
    Examples:
      heliostat links delete summit-to-usdf
      heliostat links delete summit-to-usdf --state --mirrors --dry-run
    """
    from heliostat.operate.link_removal import Removal, delete_link

    file, asker = read_config_file(options["config_file"]), _asker(options)
    answer = delete_link(file, name, asker, Removal(state, mirrors), expected=expected)
    _show(answer, as_json=options["as_json"])


def content_in(file: Any) -> dict[str, Any]:
    """Return what a file says of a link, as JSON has it.

    Raises
    ------
    ConfigError
        It is no YAML, or no map.
    """
    try:
        content = yaml.load(file, Loader=_TextLoader)  # noqa: S506  # a safe one
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{file.name} is no YAML{where}", hint="JSON is YAML, too") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file.name} is no map with fields of a link")
    try:
        fields: dict[str, Any] = json.loads(json.dumps(content))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file.name} has what JSON has not: {error}") from None
    return fields


class _TextLoader(yaml.SafeLoader):
    """Leaves times as they are written: the configuration reads them itself."""


_TextLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _asker(options: dict[str, Any]) -> Asker:
    from heliostat.operate.link_definitions import Asker

    return Asker(options["by"], options["why"], options["dry_run"])


def _show(answer: DefinitionAnswer, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer.to_json(), indent=2))
    else:
        click.echo("\n".join(answer_lines(answer)))


def answer_lines(answer: DefinitionAnswer) -> list[str]:
    """Return what became of a change, for people."""
    if answer.did == "nothing":
        lines = [f"link {answer.link} is so already"]
    elif answer.is_tried:
        lines = [f"link {answer.link} would be {answer.did}; nothing was changed"]
    else:
        number = "" if answer.generation is None else f" (generation {answer.generation})"
        lines = [f"link {answer.link} is {answer.did}{number}"]
    if answer.differs:
        more = len(answer.differs) - _FIELDS_MAX
        lines.append(
            "  differs: "
            + ", ".join(answer.differs[:_FIELDS_MAX])
            + (f" and {more} more" if more > 0 else "")
        )
    lines += [] if answer.reach is None else [f"  {line}" for line in answer.reach.describe()]
    verb = "would be deleted" if answer.is_tried else "was deleted"
    lines += [f"  topic {name} {verb}" for name in answer.topics]
    return [*lines, *(f"  {note}" for note in answer.notes)]


def link_lines(link: LinkDefinition) -> list[str]:
    """Return lines about a link, for people."""
    ends = f"{link.content.get('source', '?')} → {link.content.get('target', '?')}"
    state = "waits" if link.waits else link.state
    owner = f" at {link.owner}" if link.owner else ""
    lines = [f"{link.name}: {ends}, {state}{owner}, of the {link.origin.value}"]
    if link.generation is not None:
        why = f": {link.why}" if link.why else ""
        lines[0] += f", generation {link.generation} by {link.by}{why}"
    return [*lines, *(f"  {problem}" for problem in link.waits)]
