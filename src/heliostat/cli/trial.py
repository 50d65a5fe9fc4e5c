"""`heliostat try`: what a pipeline makes of records, without writing any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.options import config_option, json_option
from heliostat.config import load_config
from heliostat.errors import Refused
from heliostat.names import TopicName
from heliostat.operate.links import links_of
from heliostat.operate.trial import Trial, try_pipeline
from heliostat.ops.shown import bytes_text
from heliostat.records.rows.row_names import BACK
from heliostat.records.spark.trial import Row, TriedRecord

SHOWN_CHARACTERS_MAX = 200


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
@json_option
@click.pass_context
def try_command(
    context: click.Context,
    *,
    link_name: str,
    topic: str,
    config_file: Path,
    last: int,
    as_json: bool,
) -> None:
    r"""Show what a topic's pipeline makes of its last records; nothing is written.

    Marks: `=` unchanged, `~` changed, `-` filtered out, `!` the pipeline fails at it. The link
    may be running. Exit code 0 when the pipeline works for all of them, 1 when it fails at one.

    \b
    Examples:
      heliostat try summit-to-usdf orders -c heliostat.yaml
      heliostat try summit-to-usdf orders --last 1000 --json | jq '.records[].error'
    """
    config = load_config(config_file)
    (link,) = links_of(config, link_name)
    try:
        trial = try_pipeline(config, link, TopicName(topic), last)
    except Refused as error:
        raise click.BadParameter(error.text, param_hint="TOPIC") from error
    if as_json:
        click.echo(json.dumps(trial_json(trial), indent=2))
    else:
        for line in trial_lines(trial):
            click.echo(line)
    context.exit(DIFFERENCE if trial.failed else IN_SYNC)


def trial_json(trial: Trial) -> dict[str, Any]:
    """Return a trial as `--json` prints it; bytes are text, or hexadecimal digits after `0x`."""
    return {
        "topic": trial.topic,
        "pipeline": trial.pipeline,
        "records": [
            {
                "partition": each.before["partition"],
                "offset": each.before["offset"],
                "verdict": _verdict(each)[1],
                "before": _shown_row(each.before),
                "after": None if each.after is None else _shown_row(each.after),
                "error": each.error,
            }
            for each in trial.records
        ],
    }


def trial_lines(trial: Trial) -> Iterator[str]:
    """Yield a trial as text: a line for each record, and more for what differs."""
    yield f"{trial.topic} through {trial.pipeline}: {len(trial.records)} records"
    for each in trial.records:
        mark, verdict = _verdict(each)
        yield f"{mark} {each.before['partition']}/{each.before['offset']} {verdict} {each.error}"
        if each.after is None or not each.is_changed:
            continue
        before, after = _shown_row(each.before), _shown_row(each.after)
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
            return [[each["key"], _shown(each["value"])] for each in content]
        case _:
            return content


def _short(shown: object) -> str:
    text = json.dumps(shown, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."
