"""`heliostat explain`: why something is as it is, and what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.completion import link_names
from heliostat.cli.exit_codes import DIFFERENCE, HALTED, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option
from heliostat.ops.shown import time_text

if TYPE_CHECKING:
    from heliostat.explaining.values import Explanation


@click.command("explain")
@click.argument("link", shell_complete=link_names)
@click.argument("what", nargs=-1, metavar="[TOPIC[-P[@OFFSET]] | group G]")
@config_option
@json_option
def explain_command(link: str, what: tuple[str, ...], config_file: Path, *, as_json: bool) -> None:
    r"""Explain why a LINK, topic, partition, record or group is as it is, and what to do.

    Why a topic is not mirrored, why it is late, why it is stopped with what each choice would do,
    where the record at a source offset is at the target and when it was copied. Changes nothing.
    What is not known is told as not known; a cluster that does not answer makes it say less. Exit
    code 0 if it is at the target, 1 if not, or not all of it, 3 if it can't be known now.

    \b
    Examples:
      heliostat explain summit-to-usdf
      heliostat explain summit-to-usdf lsst.sal.ESS.temperature
      heliostat explain summit-to-usdf lsst.sal.ESS.temperature-0@48211
      heliostat explain summit-to-usdf group archiver
    """
    from heliostat.explaining.values import Kind
    from heliostat.operate.explain import explain_link

    explanation = explain_link(known_config(config_file, link), link, " ".join(what))
    if as_json:
        click.echo(json.dumps(explanation.to_json(), indent=2))
    else:
        for line in explanation_lines(explanation):
            click.echo(line)
    if explanation.kind is Kind.UNKNOWN:
        sys.exit(HALTED)
    sys.exit(IN_SYNC if explanation.kind is Kind.COPIED else DIFFERENCE)


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """Yield an explanation as text."""
    code = f" [{explanation.code}]" if explanation.code else ""
    yield f"{_sentence(explanation.answer)}{code}"
    if explanation.since_ms is not None:
        yield f"  Since {time_text(explanation.since_ms)}."
    for reason in explanation.reasons:
        yield f"  {_sentence(reason)}"
    if explanation.hint:
        yield f"  What helps: {explanation.hint}."
    for step in explanation.next_steps:
        yield f"→ {_sentence(step.text)}"
        if step.command:
            yield f"    {step.command}"
    for choice in explanation.choices:
        why_not = f"not possible: {choice.why_not}" if choice.why_not else choice.does
        yield f"  {choice.choice}: {why_not or 'what it would do could not be read'}"
        if choice.command:
            yield f"    {choice.command}"
    if explanation.as_of_ms:
        yield f"(as of {time_text(explanation.as_of_ms)})"


def _sentence(text: str) -> str:
    """Return a clause as a sentence; names at its beginning keep their case."""
    return text if text.endswith((".", "!", "?", ")")) else text + "."
