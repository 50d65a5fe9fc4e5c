"""`heliostat try`: what a pipeline makes of records, without writing any."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option
from heliostat.errors import HeliostatError, Refused
from heliostat.names import TopicName
from heliostat.operate.links import links_of
from heliostat.operate.pipeline_files import forget, packages_of, stamps_of
from heliostat.operate.trial import Trial, Trials
from heliostat.operate.tried_records import LastRecords, MadeUp
from heliostat.ops.shown import bytes_of, bytes_text
from heliostat.records.rows.row_names import BACK
from heliostat.records.spark.tried_record import Row, TriedRecord

SHOWN_CHARACTERS_MAX = 200
LOOK_S = 0.2
"""How often `--watch` looks at files."""


@click.command("try")
@click.argument("link_name", metavar="LINK")
@click.argument("topic")
@config_option
@click.option(
    "--last",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Offsets before the end of each partition.",
)
@click.option(
    "--value",
    "values",
    multiple=True,
    metavar="TEXT",
    help="A made-up record's value, several times; no broker is asked then. 0x... are bytes.",
)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A made-up record's value in each line.",
)
@click.option("--key", metavar="TEXT", help="Key of made-up records; alone: of a tombstone.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=TEXT",
    help="A header of made-up records, several times.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Try again at each change of the configuration, --file, or the functions' files.",
)
@json_option
@click.pass_context
def try_command(
    context: click.Context,
    *,
    link_name: str,
    topic: str,
    config_file: Path,
    last: int,
    values: tuple[str, ...],
    file: Path | None,
    key: str | None,
    headers: tuple[str, ...],
    watch: bool,
    as_json: bool,
) -> None:
    r"""Show what a topic's pipeline makes of its last records; nothing is written.

    Marks: `=` unchanged, `~` changed, `-` filtered out, `!` the pipeline fails at it. The link
    may be running. Exit code 0 when the pipeline works for all of them, 1 when it fails at one.

    A function is looked for where Python looks for modules: PYTHONPATH=. heliostat try ...

    \b
    Examples:
      heliostat try summit-to-usdf orders -c heliostat.yaml
      heliostat try summit-to-usdf orders --last 1000 --json | jq '.records[].error'
      heliostat try summit-to-usdf orders --value '{"id": 3}' --header test=1
      heliostat try summit-to-usdf orders --file orders.jsonl --watch
    """

    def records() -> LastRecords | MadeUp:
        made_up = _made_up(values, file, key, headers)
        return LastRecords(last) if made_up is None else made_up

    def tried(trials: Trials) -> Trial:
        config = known_config(config_file, link_name)
        (link,) = links_of(config, link_name)
        try:
            return trials.tried(config, link, TopicName(topic), records())
        except Refused as error:
            raise click.BadParameter(error.text, param_hint="TOPIC") from error

    with Trials() as trials:
        if watch:
            files = [config_file] if file is None else [config_file, file]
            _watch(partial(tried, trials), partial(_show, as_json=as_json), files, link_name)
        trial = tried(trials)
    _show(trial, as_json=as_json)
    context.exit(DIFFERENCE if trial.failed else IN_SYNC)


def _made_up(
    values: tuple[str, ...], file: Path | None, key: str | None, headers: tuple[str, ...]
) -> MadeUp | None:
    """Return the records that are made up; None: none are."""
    contents: list[bytes | None] = [bytes_of(text) for text in values]
    if file is not None:
        contents += file.read_bytes().splitlines()
    elif key is not None and not contents:
        contents = [None]
    pairs = [header.partition("=") for header in headers]
    if wrong := [header for header, (_, sign, _) in zip(headers, pairs, strict=True) if not sign]:
        raise click.BadParameter(f"{wrong[0]} has no =", param_hint="--header")
    if not contents:
        if headers:
            raise click.BadParameter("only with --value, --file or --key", param_hint="--header")
        return None
    named = tuple((name, bytes_of(text)) for name, _, text in pairs)
    return MadeUp(tuple(contents), None if key is None else bytes_of(key), named)


def _show(trial: Trial, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(trial_json(trial), indent=2))
    else:
        for line in trial_lines(trial):
            click.echo(line)


def _watch(
    tried: Callable[[], Trial], show: Callable[[Trial], None], files: list[Path], link_name: str
) -> NoReturn:
    """Show a trial, and again after each change of a file; what is wrong is shown as well."""
    packages: frozenset[str] = frozenset()
    while True:  # until Ctrl-C
        before = stamps_of(files, packages)
        try:
            (link,) = links_of(known_config(files[0], link_name), link_name)
            packages = packages_of(link)
            before = stamps_of(files, packages)
            began_s = time.monotonic()
            show(tried())
            click.echo(f"-- in {time.monotonic() - began_s:.1f} s; waits for a change", err=True)
        except (HeliostatError, click.ClickException) as error:
            text = error.format_message() if isinstance(error, click.ClickException) else error
            click.echo(f"heliostat: {text}", err=True)
        while stamps_of(files, packages) == before:
            time.sleep(LOOK_S)
        forget(packages)


def trial_json(trial: Trial) -> dict[str, Any]:
    """Return a trial as `--json` prints it; bytes are text, or hexadecimal digits after `0x`."""
    return {
        "topic": trial.topic,
        "pipeline": trial.pipeline,
        "records": [
            {
                "partition": record.before["partition"],
                "offset": record.before["offset"],
                "verdict": _verdict(record)[1],
                "before": _shown_row(record.before),
                "after": None if record.after is None else _shown_row(record.after),
                "error": record.error,
            }
            for record in trial.records
        ],
    }


def trial_lines(trial: Trial) -> Iterator[str]:
    """Yield a trial as text: a line for each record, and more for what differs."""
    yield f"{trial.topic} through {trial.pipeline}: {len(trial.records)} records"
    for record in trial.records:
        mark, verdict = _verdict(record)
        yield (
            f"{mark} {record.before['partition']}/{record.before['offset']} {verdict} "
            f"{record.error}"
        )
        if record.after is None or not record.is_changed:
            continue
        before, after = _shown_row(record.before), _shown_row(record.after)
        for name in BACK:
            if before[name] != after[name]:
                yield f"    {name}: {_short(before[name])} -> {_short(after[name])}"


def _verdict(record: TriedRecord) -> tuple[str, str]:
    if record.error:
        return "!", "fails"
    if record.after is None:
        return "-", "filtered out"
    return ("~", "changed") if record.is_changed else ("=", "unchanged")


def _shown_row(row: Row) -> dict[str, Any]:
    return {name: _shown(row[name]) for name in BACK}


def _shown(content: object) -> Any:
    match content:
        case bytes():
            return bytes_text(content)
        case datetime():
            return content.isoformat()
        case list():
            return [[header["key"], _shown(header["value"])] for header in content]
        case _:
            return content


def _short(shown: object) -> str:
    text = json.dumps(shown, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."
