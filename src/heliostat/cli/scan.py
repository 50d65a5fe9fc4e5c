"""`heliostat scan`: what a cluster has, before anything is mirrored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from typing_extensions import override

from heliostat.cli.options import config_option, json_option
from heliostat.config import ClusterConfig, load_config
from heliostat.config.one_cluster import cluster_at, security_in
from heliostat.errors import ConfigError
from heliostat.names import Alias
from heliostat.ops.shown import size_text

if TYPE_CHECKING:
    from heliostat.operate.scanned import ScannedCluster, ScannedTopic

ROWS = 30
"""Topics and groups shown unless all are asked for."""
WINDOW_S_MAX = 3600.0


class Duration(click.ParamType):  # type: ignore[type-arg]  # no arguments at run time
    """Seconds, or a number with s or m."""

    name = "duration"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|)", str(value))
        if match is None:
            self.fail(f"{value!r} is no duration, such as 10s or 2m", param, ctx)
        seconds = float(match[1]) * (60 if match[2] == "m" else 1)
        if seconds > WINDOW_S_MAX:
            self.fail(f"at most {WINDOW_S_MAX:g} s", param, ctx)
        return seconds


def regex(context: click.Context, option: click.Parameter, text: str) -> str:
    """Return an expression, or say why it is none."""
    try:
        re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no expression: {error}", context, option) from None
    return text


security_option = click.option(
    "--security",
    "security_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="For host:port: a YAML file with the keys of clusters.*.security.",
)


@click.command("scan")
@click.argument("cluster", metavar="CLUSTER")
@config_option
@security_option
@click.option(
    "--window", "window_s", type=Duration(), default="0", help="Watch so long for rates, as 10s."
)
@click.option("--topics", default=".*", callback=regex, help="Only topics whose whole name fits.")
@click.option("--all", "shows_all", is_flag=True, help=f"All rows, not the first {ROWS} only.")
@click.option("--markdown", is_flag=True, help="Answer in Markdown, all rows.")
@json_option
def scan_command(
    *,
    cluster: str,
    config_file: Path,
    security_file: Path | None,
    window_s: float,
    topics: str,
    shows_all: bool,
    markdown: bool,
    as_json: bool,
) -> None:
    r"""List what CLUSTER has: topics, sizes, rates, settings, groups, rights, and what needs care.

    CLUSTER is a name of the configuration, or host:port, several separated by commas. Reads only;
    what the cluster does not show is said, and needs Describe on the cluster: sizes, ACLs, quotas.
    Under *care* stands what can't move, or not without a thought: compacted topics, open
    transactions, remote storage, share groups, large messages, internal topics.

    \b
    Examples:
      heliostat scan summit -c heliostat.yaml --window 10s
      heliostat scan kafka-1.example.org:9093 --security sasl.yaml --markdown > summit.md
      heliostat scan summit --json | jq '.care[] | {code, items}'
    """
    from heliostat.operate.scan import scan

    content = scan(
        cluster_of(cluster, config_file, security_file), window_s=window_s, topics=topics
    )
    if as_json:
        click.echo(json.dumps(content.to_json(), indent=2))
    elif markdown:
        for line in markdown_lines(content):
            click.echo(line)
    else:
        for line in text_lines(content, None if shows_all else ROWS):
            click.echo(line)


def cluster_of(name: str, config_file: Path, security_file: Path | None) -> ClusterConfig:
    """Return the cluster of that name in the file, or at that address.

    Raises
    ------
    ConfigError
        There is none, or the file is refused.
    """
    if ":" in name:
        return cluster_at(name, None if security_file is None else security_in(security_file))
    if security_file is not None:
        raise click.UsageError("--security is for host:port; a file's cluster has its own")
    clusters = load_config(config_file).clusters
    if Alias(name) not in clusters:
        raise ConfigError(
            f"{config_file} has no cluster {name}",
            hint=f"there are {', '.join(clusters)}; or give host:port",
        )
    return clusters[Alias(name)]


def _headline(content: ScannedCluster) -> Iterator[str]:
    total = sum(topic.bytes or 0 for topic in content.topics)
    unknown = any(topic.bytes is None for topic in content.topics)
    rights = {True: "rights are checked", False: "no rights are checked", None: "rights not shown"}
    yield f"{content.name} ({content.addresses}), cluster id {content.cluster_id}"
    yield (
        f"{len(content.brokers)} brokers, Kafka {content.release or '?'} or newer, "
        f"{rights[content.has_authorizer]}"
    )
    yield (
        f"{len(content.topics)} topics, {len(content.mirrored)} of them can be mirrored, "
        f"{sum(topic.partitions for topic in content.topics)} partitions, "
        f"{'at least ' if unknown else ''}{size_text(total)}, {len(content.groups)} groups"
    )
    parts = (
        (content.acls, "ACLs"),
        (content.quotas, "quotas"),
        (content.scram_users, "SCRAM users"),
    )
    counts = [f"{len(part)} {what}" for part, what in parts if part is not None]
    counts += [f"{content.subjects} subjects of schemas"] if content.subjects is not None else []
    if counts:
        yield ", ".join(counts)


_TOPIC_HEADS = ("topic", "partitions", "copies", "size", "records", "rec/s", "B/s", "settings")
_GROUP_HEADS = ("group", "kind", "state", "topics", "lag")


def _topic_row(topic: ScannedTopic) -> tuple[str, ...]:
    return (
        topic.name,
        str(topic.partitions),
        str(topic.replication_factor),
        "-" if topic.bytes is None else size_text(topic.bytes),
        "-" if topic.records is None else f"{topic.records:,}",
        "-" if topic.records_per_s is None else f"{topic.records_per_s:,.1f}",
        "-" if topic.bytes_per_s is None else size_text(topic.bytes_per_s),
        " ".join(f"{key}={value}" for key, value in topic.settings.items()),
    )


def _group_rows(content: ScannedCluster) -> list[tuple[str, ...]]:
    rows = sorted(content.groups, key=lambda group: (-(group.lag or 0), group.group))
    return [
        (
            group.group,
            group.kind or "-",
            group.state or "-",
            str(group.topics),
            "-" if group.lag is None else f"{group.lag:,}",
        )
        for group in rows
    ]


def text_lines(content: ScannedCluster, rows: int | None) -> Iterator[str]:
    """Yield lines for a terminal."""
    yield from _headline(content)
    topics = [_topic_row(topic) for topic in content.mirrored]
    for heads, table in ((_TOPIC_HEADS, topics), (_GROUP_HEADS, _group_rows(content))):
        if table:
            yield ""
            yield from _columns(heads, table[:rows])
            if rows is not None and len(table) > rows:
                yield f"  … {len(table) - rows} more (--all)"
    if content.care:
        yield "\ncare"
    yield from (f"  {care.code}: {care.line()}" for care in content.care)
    yield from (f"  not shown: {line}" for line in content.unread)


def _columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    table = [heads, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(heads))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def markdown_lines(content: ScannedCluster) -> Iterator[str]:
    """Yield a page in Markdown."""
    yield f"# {content.name}\n"
    yield from (f"- {line}" for line in _headline(content))
    topics = [_topic_row(topic) for topic in content.mirrored]
    for heads, table in ((_TOPIC_HEADS, topics), (_GROUP_HEADS, _group_rows(content))):
        if table:
            yield f"\n## {heads[0].capitalize()}s\n"
            yield "| " + " | ".join(heads) + " |"
            yield "|---" * len(heads) + "|"
            yield from ("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in table)
    if content.care or content.unread:
        yield "\n## Care\n"
    for care in content.care:
        yield f"- `{care.code}`: {care.text}: {', '.join(f'`{item}`' for item in care.items)}"
    yield from (f"- not shown: {line}" for line in content.unread)
    for title, lines in (("ACLs", content.acls), ("SCRAM users", content.scram_users)):
        if lines:
            yield f"\n## {title}\n"
            yield from (f"- {line}" for line in lines)
    if content.quotas:
        yield "\n## Quotas\n"
        for entity, limits in content.quotas.items():
            yield f"- {entity}: {', '.join(f'{key}={value:g}' for key, value in limits.items())}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
