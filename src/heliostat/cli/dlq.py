"""`heliostat dlq`: records that could not be copied."""

from __future__ import annotations

import json
from pathlib import Path

import click

from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.config import Config, LinkConfig
from heliostat.gaps.dead_letters import DeadLetter
from heliostat.names import PartitionId, TopicName
from heliostat.operate.dead_letters import drop, letters_of, replay
from heliostat.operate.links import link_of, links_of
from heliostat.ops.shown import bytes_text, time_text

SHOWN_CHARACTERS_MAX = 80
_offset = click.argument("offset", type=click.IntRange(0), required=False)
_partition = click.argument("partition", type=click.IntRange(0), required=False)
_yes = click.option("--yes", is_flag=True, help="Don't ask.")


@click.group("dlq")
def dlq_group() -> None:
    r"""Show, replay and drop dead letters: records that could not be copied, kept whole.

    \b
    Examples:
      heliostat dlq list -c heliostat.yaml
      heliostat dlq show orders 3 1207
      heliostat dlq replay orders --to orders.repaired
      heliostat dlq drop orders 3 1207 --yes
    """


@dlq_group.command("list")
@click.argument("topic", required=False)
@config_option
@link_option
@json_option
def list_command(
    topic: str | None, config_file: Path, link_name: str | None, as_json: bool
) -> None:
    r"""List dead letters, of all source topics or of one.

    \b
    Examples:
      heliostat dlq list -c heliostat.yaml
      heliostat dlq list orders --json | jq '.[].letters[].reason'
    """
    config = known_config(config_file, link_name)
    wanted = None if topic is None else TopicName(topic)
    by_link = {link.name: letters_of(config, link, wanted) for link in links_of(config, link_name)}
    if as_json:
        rows = [
            {"link": name, "letters": [letter.described() for letter in letters]}
            for name, letters in by_link.items()
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for name, letters in by_link.items():
        click.echo(f"link {name}: {len(letters)} dead letters")
        for letter in letters:
            click.echo(f"  {_line(letter)}")


@dlq_group.command("show")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@config_option
@link_option
@json_option
def show_command(  # noqa: PLR0917 - click passes them by name
    topic: str,
    partition: int,
    offset: int,
    config_file: Path,
    link_name: str | None,
    as_json: bool,
) -> None:
    r"""Show one dead letter whole; with --json its bytes in base64.

    There may be several, if the topic was deleted and created again: each with its topic's id.

    \b
    Examples:
      heliostat dlq show orders 3 1207
      heliostat dlq show orders 3 1207 --json | jq -r .value | base64 -d
    """
    config, link = _link(config_file, link_name)
    for letter in _wanted(config, link, topic, partition, offset):
        if as_json:
            click.echo(json.dumps(letter.whole(), indent=2))
        else:
            _show(letter)


@dlq_group.command("replay")
@click.argument("topic")
@_partition
@_offset
@config_option
@link_option
@click.option("--to", "target_topic", metavar="TOPIC", help="A topic of the target, no mirror.")
@click.option("--to-source", is_flag=True, help="Their source topics; the link copies them again.")
@_yes
def replay_command(  # noqa: PLR0917 - click passes them by name
    topic: str,
    partition: int | None,
    offset: int | None,
    config_file: Path,
    link_name: str | None,
    target_topic: str | None,
    to_source: bool,
    yes: bool,
) -> None:
    r"""Write dead letters of source TOPIC [PARTITION [OFFSET]] again, then remove them.

    Records get key, value, headers and timestamp of the originals, and a header
    `heliostat.replayed` with their source position. A mirror keeps the source's order, so they
    can't come back to their place: with --to-source they are new records at the source. If
    this command dies, a record may be written again by the next one.

    \b
    Examples:
      heliostat dlq replay orders --to orders.repaired
      heliostat dlq replay orders 3 1207 --to-source --yes
    """
    if to_source == (target_topic is not None):
        raise click.UsageError("one of --to and --to-source is needed")
    config, link = _link(config_file, link_name)
    letters = _wanted(config, link, topic, partition, offset)
    where = f"{topic} at {link.source}" if to_source else f"{target_topic} at {link.target}"
    if not yes:
        click.confirm(f"write {len(letters)} records to {where}?", abort=True, err=True)
    replay(config, link, letters, None if target_topic is None else TopicName(target_topic))
    click.echo(f"{len(letters)} records were written to {where}")


@dlq_group.command("drop")
@click.argument("topic")
@_partition
@_offset
@config_option
@link_option
@_yes
def drop_command(  # noqa: PLR0917 - click passes them by name
    topic: str,
    partition: int | None,
    offset: int | None,
    config_file: Path,
    link_name: str | None,
    yes: bool,
) -> None:
    r"""Remove dead letters of source TOPIC [PARTITION [OFFSET]] for good.

    The gap ledger keeps their rows.

    \b
    Examples:
      heliostat dlq drop orders --yes
      heliostat dlq drop orders 3 1207
    """
    config, link = _link(config_file, link_name)
    letters = _wanted(config, link, topic, partition, offset)
    if not yes:
        click.confirm(f"drop {len(letters)} dead letters?", abort=True, err=True)
    drop(config, link, letters)
    click.echo(f"{len(letters)} dead letters were dropped")


def _link(config_file: Path, link_name: str | None) -> tuple[Config, LinkConfig]:
    config = known_config(config_file, link_name)
    return config, link_of(config, link_name)


def _wanted(
    config: Config, link: LinkConfig, topic: str, partition: int | None, offset: int | None
) -> list[DeadLetter]:
    number = None if partition is None else PartitionId(partition)
    letters = letters_of(config, link, TopicName(topic), number, offset)
    if not letters:
        which = "/".join(str(part) for part in (topic, partition, offset) if part is not None)
        raise click.BadParameter(f"link {link.name} has no dead letter of {which}")
    return letters


def _show(letter: DeadLetter) -> None:
    click.echo(_line(letter))
    click.echo(f"  topic id: {letter.source_id or 'not known'}")
    click.echo(f"  key: {_shown(letter.key)}")
    click.echo(f"  value: {_shown(letter.value)}")
    for name, content in letter.headers:
        click.echo(f"  header {name}: {_shown(content)}")


def _line(letter: DeadLetter) -> str:
    many = f"..{letter.last}" if letter.last > letter.offset else ""
    return (
        f"{time_text(letter.at_ms)}  {letter.source} offset {letter.offset}{many}  "
        f"{letter.cause.words}, decided by {letter.decided_by}: {letter.reason}"
    )


def _shown(content: bytes | None) -> str:
    if content is None:
        return "null"
    text = bytes_text(content)
    more = f"... ({len(content)} bytes)" if len(text) > SHOWN_CHARACTERS_MAX else ""
    return text[:SHOWN_CHARACTERS_MAX] + more
