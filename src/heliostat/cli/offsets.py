"""`heliostat offsets`: translate offsets, show and rebuild offset maps."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.cli.skip import skip_command
from heliostat.config import LinkConfig
from heliostat.names import Offset, PartitionId, TopicName
from heliostat.offsets.merged_translation import MergedRun
from heliostat.offsets.translation import (
    Answer,
    MapSummary,
    Question,
    Side,
    TranslatedPartition,
)
from heliostat.operate.links import link_of
from heliostat.operate.offsets import translated
from heliostat.operate.pipes_alone import pipes_alone
from heliostat.operate.translators import open_translator
from heliostat.rebuild.offset_maps import Rebuilt, rebuild_maps

EXTENTS_SHOWN = 50
"""Extents of one partition shown as text; `--json` has all."""


@click.group("offsets")
def offsets_group() -> None:
    r"""Translate offsets between source and target; have a mirror go on at a later one.

    \b
    Examples:
      heliostat offsets translate -c heliostat.yaml orders 0 1200
      heliostat offsets show -c heliostat.yaml orders 0
      heliostat offsets rebuild -c heliostat.yaml
      heliostat offsets skip -c heliostat.yaml orders 0 --to 1200
    """


offsets_group.add_command(skip_command)


@offsets_group.command("translate")
@click.argument("question", nargs=-1, metavar="[TOPIC PARTITION OFFSET]")
@config_option
@link_option
@click.option(
    "--to",
    "to",
    type=click.Choice([side.value for side in Side]),
    default=Side.TARGET.value,
    show_default=True,
    help="The side to translate to; name topics as on the other side.",
)
@click.option(
    "--file",
    "-f",
    "file",
    type=click.File("r", encoding="utf-8"),
    help="One question per line: `topic partition offset` or a JSON object; `-` for stdin.",
)
@json_option
@click.pass_context
def translate_command(
    context: click.Context,
    *,
    question: tuple[str, ...],
    config_file: Path,
    link_name: str | None,
    to: str,
    file: TextIO | None,
    as_json: bool,
) -> None:
    r"""Translate offsets of one side of a link into offsets of the other.

    A source offset without a record (compacted, aborted, or a transaction marker) is translated to
    the offset of the next record: a reader that continues there skips nothing and reads nothing
    twice. Nothing is guessed: an offset that can't be translated gets the reason. Of a topic that
    both sites write (topics.naming merge) the answer is where the record is; where a reader goes on
    says `heliostat groups`. Exit code 0 when every offset was translated, 1 when one was not.

    \b
    Examples:
      heliostat offsets translate -c heliostat.yaml orders 0 1200
      heliostat offsets translate -c heliostat.yaml --to source east.orders 0 1187
      heliostat offsets translate -c heliostat.yaml --file offsets.txt --json
      echo '{"topic": "orders", "partition": 0, "offset": 7}' | heliostat offsets translate -f -
    """
    if bool(question) == (file is not None):
        raise click.UsageError("name one topic, partition and offset, or give a --file")
    lines = enumerate(file, 1) if file is not None else [(1, " ".join(question))]
    questions = list(_questions(lines))
    config = known_config(config_file, link_name)
    link = link_of(config, link_name)
    translation = translated(config, link, questions, Side(to))
    answers = list(translation.answers)
    if as_json:
        click.echo(json.dumps([answer.to_json() for answer in answers], indent=2))
    else:
        for line in _table(answers):
            click.echo(line)
    _tell_of_source(link, is_known=translation.is_source_known)
    is_answered = all(answer.to_offset is not None for answer in answers)
    context.exit(IN_SYNC if is_answered else DIFFERENCE)


@offsets_group.command("show")
@click.argument("topic", required=False)
@click.argument("partition", required=False, type=click.IntRange(min=0))
@config_option
@link_option
@json_option
def show_command(
    *,
    topic: str | None,
    partition: int | None,
    config_file: Path,
    link_name: str | None,
    as_json: bool,
) -> None:
    r"""Show offset maps: exact or mapped, number of extents, size.

    Without a topic: one line per mirror. With a topic (its name at the source): one line per
    partition. With a partition: also its extents, which are runs of records whose offsets differ
    by the same number. Of a topic that both sites write (topics.naming merge) these lead to numbers
    of the link's own records, with the target offset of the first one.

    \b
    Examples:
      heliostat offsets show -c heliostat.yaml
      heliostat offsets show -c heliostat.yaml orders 0 --json
    """
    config = known_config(config_file, link_name)
    link = link_of(config, link_name)
    name = None if topic is None else TopicName(topic)
    number = None if partition is None else PartitionId(partition)
    with open_translator(config, link, None if name is None else {name}) as translator:
        summaries = translator.summaries(name, number)
        shown = translator.partitions(name, number) if number is not None else []
        runs = [translator.merged_runs(mirror_partition) for mirror_partition in shown]
    if as_json:
        rows: list[dict[str, Any]] = [summary.to_json() for summary in summaries]
        for row, mirror_partition, merged in zip(rows, shown, runs, strict=False):
            extents = mirror_partition.extents() if merged is None else merged
            row["extent_list"] = [list(extent) for extent in extents]
        click.echo(json.dumps(rows, indent=2))
    else:
        lines = _mirror_lines(summaries) if name is None else _partition_lines(summaries)
        parts = (
            _extent_lines(mirror_partition) if merged is None else _run_lines(merged)
            for mirror_partition, merged in zip(shown, runs, strict=True)
        )
        for line in [*lines, *(line for part in parts for line in part)]:
            click.echo(line)
    _tell_of_source(link, is_known=translator.is_source_known)


@offsets_group.command("rebuild")
@click.argument("topic", required=False)
@click.argument("partition", required=False, type=click.IntRange(min=0))
@config_option
@link_option
@json_option
@click.pass_context
def rebuild_command(
    context: click.Context,
    *,
    topic: str | None,
    partition: int | None,
    config_file: Path,
    link_name: str | None,
    as_json: bool,
) -> None:
    r"""Rebuild offset maps whose records are gone (OFFSET_MAP_LOST).

    Reads all records of both sides and aligns them. If they align in exactly one way, that is the
    map, and the mirror continues; a running link need not be restarted. If they align in no way or
    in several, it prints the offset and changes nothing. Of a mirror with a pipeline, what it makes
    of the source's records now is aligned; of a topic that both sites write (topics.naming merge)
    what the link itself has brought. Without a topic (its name at the source) it rebuilds all
    lost maps of the link. Exit code 0 when each was rebuilt, 1 when one was not.

    \b
    Examples:
      heliostat offsets rebuild -c heliostat.yaml
      heliostat offsets rebuild -c heliostat.yaml orders 0 --json
    """
    config = known_config(config_file, link_name)
    name = None if topic is None else TopicName(topic)
    number = None if partition is None else PartitionId(partition)
    outcomes: list[Rebuilt] = []
    link = link_of(config, link_name)
    for outcome in rebuild_maps(config, link, pipes_alone(config, link), name, number):
        outcomes.append(outcome)
        if not as_json:
            click.echo(_rebuilt_line(outcome))
    if as_json:
        click.echo(json.dumps([outcome.to_json() for outcome in outcomes], indent=2))
    context.exit(DIFFERENCE if any(outcome.why_not for outcome in outcomes) else IN_SYNC)


def _rebuilt_line(outcome: Rebuilt) -> str:
    if outcome.why_not:
        return f"{outcome.source} → {outcome.target}: not rebuilt: {outcome.why_not}"
    return (
        f"{outcome.source} → {outcome.target}: {outcome.extents:,} extents of "
        f"{outcome.records:,} records"
    )


def _tell_of_source(link: LinkConfig, *, is_known: bool) -> None:
    if not is_known:
        text = f"{link.source} does not answer; these answers use {link.target} only"
        click.echo(f"note: {text}", err=True)


def _questions(lines: Iterable[tuple[int, str]]) -> Iterator[Question]:
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        try:
            yield from _parsed(text)
        except (ValueError, KeyError, TypeError) as error:
            raise click.UsageError(
                f"line {number}: not `topic partition offset` nor JSON with these keys: {text[:80]}"
            ) from error


def _parsed(text: str) -> Iterator[Question]:
    """Yield the questions of one line: three words, a JSON object, or an array of objects."""
    if text[0] not in "{[":
        topic, partition, offset = text.split()
        yield _question(topic, int(partition), int(offset))
        return
    content = json.loads(text)
    for row in content if isinstance(content, list) else [content]:
        yield _question(row["topic"], row["partition"], row["offset"])


def _question(topic: object, partition: object, offset: object) -> Question:
    if not (isinstance(topic, str) and type(partition) is int and type(offset) is int):
        raise TypeError("a topic is text, partition and offset are whole numbers")
    if partition < 0 or offset < 0:
        raise ValueError("partition and offset are not negative")
    return Question(TopicName(topic), PartitionId(partition), Offset(offset))


def _table(answers: list[Answer]) -> Iterator[str]:
    rows = [("topic", "partition", "offset", "to topic", "to partition", "to offset", "")]
    for answer in answers:
        offset = "-" if answer.to_offset is None else str(answer.to_offset)
        why = "exact" if answer.why is None else f"{answer.why.value}: {answer.text}"
        to = "-" if answer.to_partition is None else str(answer.to_partition)
        asked = answer.topic, str(answer.partition), str(answer.offset)
        rows.append((*asked, answer.to_topic or "-", to, offset, why))
    return _aligned(rows)


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows with aligned columns; to the right where the last row has a number."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_number = [cell.replace(",", "").isdigit() or cell == "-" for cell in rows[-1]]
    for row in rows:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        )
        yield "  ".join(cells).rstrip()


def _mirror_lines(summaries: list[MapSummary]) -> Iterator[str]:
    mirrors: dict[tuple[str, str], list[MapSummary]] = defaultdict(list)
    for summary in summaries:
        mirrors[summary.topic, summary.target_topic].append(summary)
    rows = [("topic", "target topic", "partitions", "mapped", "extents", "map bytes")]
    for (topic, target), some in mirrors.items():
        mapped = sum(summary.kind != "exact" for summary in some)
        extents, size = (
            sum(summary.extents for summary in some),
            sum(summary.map_bytes for summary in some),
        )
        rows.append((topic, target, f"{len(some)}", f"{mapped}", f"{extents:,}", f"{size:,}"))
    return _aligned(rows)


def _partition_lines(summaries: list[MapSummary]) -> Iterator[str]:
    rows = [("partition", "kind", "extents", "map bytes", "source position", "target end")]
    rows += [
        (
            f"{summary.topic}-{summary.partition} → {summary.target_topic}-{summary.partition}",
            summary.kind,
            f"{summary.extents:,}",
            f"{summary.map_bytes:,}",
            f"{summary.position}",
            f"{summary.target_end}",
        )
        for summary in summaries
    ]
    return _aligned(rows)


def _extent_lines(partition: TranslatedPartition) -> Iterator[str]:
    heads = "source offset", "target offset", "records"
    return _run_table(
        heads, [(extent.source, extent.target, extent.length) for extent in partition.extents()]
    )


def _run_lines(runs: Sequence[MergedRun]) -> Iterator[str]:
    heads = "source offset", "number", "records", "target offset"
    rows = [(*run[:3], "gone" if run.target is None else run.target) for run in runs]
    return _run_table(heads, rows)


def _run_table(heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> Iterator[str]:
    yield ""
    yield from _aligned([heads, *(tuple(map(str, row)) for row in rows[:EXTENTS_SHOWN])])
    if len(rows) > EXTENTS_SHOWN:
        yield f"... and {len(rows) - EXTENTS_SHOWN:,} more extents"
