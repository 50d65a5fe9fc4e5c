"""`heliostat topics` and `heliostat plan`: previews, which change nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from heliostat.cli.exit_codes import DIFFERENCE, HALTED, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.cli.schemas import schema_lines
from heliostat.config import LinkConfig
from heliostat.errors import (
    BrokerError,
    ConnectionLost,
    HeliostatError,
    RegistryAnswerInvalid,
    RegistryError,
    RegistryUnreachable,
    SparkUnavailable,
)
from heliostat.operate.each_link import each_link
from heliostat.operate.links import links_of
from heliostat.operate.plan import plan_link, with_pipelines
from heliostat.operate.schemas import LinkSchemas, link_schemas
from heliostat.operate.topics import TopicPreview, preview_topics
from heliostat.other_links.same_file import ask_topics
from heliostat.other_links.same_process import TopicNames
from heliostat.topics.topic_plan import TopicPlan

_NO_ANSWER = (
    ConnectionLost,
    BrokerError,
    RegistryError,
    RegistryUnreachable,
    RegistryAnswerInvalid,
    SparkUnavailable,
)


@click.command("topics")
@config_option
@link_option
@json_option
def topics_command(config_file: Path, link_name: str | None, as_json: bool) -> None:
    r"""Preview which topics are mirrored, why or why not, and under which name.

    Contacts only the sources and changes nothing. Selected topics that come from the target are
    left out nevertheless: see `heliostat plan`.

    \b
    Examples:
      heliostat topics -c heliostat.yaml
      heliostat topics -c heliostat.yaml --link summit-to-usdf --json
    """
    rows = preview_topics(known_config(config_file, link_name), link_name)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for link in dict.fromkeys(row.link for row in rows):
        own = [row for row in rows if row.link == link]
        click.echo(f"link {link}: {sum(row.selected for row in own)} of {len(own)} topics")
        width = max(len(row.topic) for row in own)
        for row in own:
            click.echo(_preview_line(row, width))


def _preview_line(row: TopicPreview, width: int) -> str:
    sign = "+" if row.selected else "-"
    target = f"→ {row.target}  " if row.target is not None else ""
    return f"  {sign} {row.topic:<{width}}  {target}({row.why})"


@click.command("plan")
@config_option
@link_option
@json_option
@click.pass_context
def plan_command(
    context: click.Context, config_file: Path, link_name: str | None, as_json: bool
) -> None:
    r"""Print what would be done to the targets' topics and schemas, what is refused, and why.

    Also lists what is left out because it comes from the target, where records go that the source
    deletes, offsets of groups that would be published, and where mirrors differ from what is wanted
    and no link can mend it. Changes nothing; `heliostat apply` does it once, a running link by
    itself. Exit code 0 when there is nothing to do, 1 when there is, when
    something is refused, such as a pipeline, or when source records were gone before they were
    copied, 3 when a cluster or a registry does not answer. Links are planned at the same time: an
    error in one does not stop the others.

    \b
    Examples:
      heliostat plan -c heliostat.yaml
      heliostat plan -c heliostat.yaml --json | jq '.[].refuse'
    """
    config = known_config(config_file, link_name)
    plans: dict[str, TopicPlan] = {}
    schemas: dict[str, LinkSchemas] = {}

    def planned(link: LinkConfig) -> TopicPlan:
        plan = plans[link.name] = plan_link(config, link, names.of)
        schemas.update(
            {comparison.link: comparison for comparison in link_schemas(config, link.name)}
        )
        return plan

    names = TopicNames(partial(ask_topics, config))
    links = links_of(config, link_name)
    answers = each_link(config, links, planned, told=_NO_ANSWER)
    failed = {name: why for name, why in answers.items() if isinstance(why, HeliostatError)}
    plans = {link.name: plans[link.name] for link in links if link.name in plans}
    for link in links:  # one after the other: a process has one Spark
        if link.name in plans:
            try:
                plans[link.name] = with_pipelines(config, link, plans[link.name])
            except _NO_ANSWER as error:
                failed[link.name] = error
    if as_json:
        answer = [
            {"link": name, **plan.to_json(), **_schemas_json(schemas.get(name))}
            for name, plan in plans.items()
        ]
        answer += [{"link": name, "error": str(why)} for name, why in failed.items()]
        click.echo(json.dumps(answer, indent=2))
    else:
        for name, plan in plans.items():
            done = "nothing to do" if plan.is_empty else _summary(plan)
            click.echo(f"link {name}: {done}, {len(plan.mirrors)} topics mirrored")
            for line in plan.describe():
                click.echo(f"  {line}")
            for line in schema_lines(schemas[name]) if name in schemas else ():
                click.echo(f"  {line}")
    for name, why in failed.items():
        click.echo(f"heliostat: link {name}: {why}", err=True)
    if failed:
        context.exit(HALTED)
    in_sync = all(plan.is_empty for plan in plans.values())
    in_sync = in_sync and all(comparison.in_sync for comparison in schemas.values())
    context.exit(IN_SYNC if in_sync else DIFFERENCE)


def _schemas_json(schemas: LinkSchemas | None) -> dict[str, object]:
    return {} if schemas is None else {"schemas": schemas.to_json()}


def _summary(plan: TopicPlan) -> str:
    words = ["changes"]
    if plan.refuse:
        words.append(f"{len(plan.refuse)} topics refused")
    if plan.pipelines:
        words.append(f"{len(plan.pipelines)} pipelines refused")
    if plan.gone:
        words.append("records gone at the source")
    return ", ".join(words)
