"""`heliostat init`: a first configuration, by questions or by options."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heliostat.cli.options import config_option
from heliostat.config import load_config
from heliostat.config.first_file import (
    FirstCluster,
    FirstLink,
    proposed_aliases,
    proposed_topics,
)
from heliostat.config.one_cluster import cluster_at, security_in
from heliostat.errors import HeliostatError, Refused
from heliostat.names import Alias

if TYPE_CHECKING:
    from heliostat.operate.first_link import Selection
    from heliostat.operate.scanned import ScannedCluster

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
PURPOSES = ("copy", "failover", "move")
SHOWN = 20
SIDES = ("source", "target")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What options say; None: it is asked for."""

    addresses: tuple[str | None, str | None]
    security: tuple[Path | None, Path | None]
    names: tuple[str | None, str | None]
    topics: str | None
    prefix: str | None
    groups: bool | None
    asks: bool


@click.command("init")
@config_option
@click.option("--source", metavar="HOST:PORT", help="Addresses of the source.")
@click.option("--target", metavar="HOST:PORT", help="Addresses of the target.")
@click.option(
    "--source-security",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="YAML file with the keys of clusters.*.security.",
)
@click.option(
    "--target-security",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The same for the target.",
)
@click.option("--source-name", metavar="NAME", help="Name of the source in the file.")
@click.option("--target-name", metavar="NAME", help="Name of the target in the file.")
@click.option("--topics", metavar="REGEX", help="Topics, by name or expression; all by default.")
@click.option("--prefix", metavar="TEXT", help="Put before names at the target; none by default.")
@click.option(
    "--groups/--no-groups", default=None, help="Whether groups' offsets move along; no by default."
)
@click.option("--yes", is_flag=True, help="Ask nothing; what no option says has its default.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init_command(
    *,
    config_file: Path,
    source: str | None,
    target: str | None,
    source_security: Path | None,
    target_security: Path | None,
    source_name: str | None,
    target_name: str | None,
    topics: str | None,
    prefix: str | None,
    groups: bool | None,
    yes: bool,
    force: bool,
) -> None:
    r"""Write a first configuration: asks for both clusters, tries them, shows topics, then writes.

    What is asked can be given by options; with --yes nothing is asked. Both clusters must answer.
    The file holds no secret: passwords are named by an environment variable or a file. An existing
    file is replaced only if you say so.

    \b
    Examples:
      heliostat init
      heliostat init --yes --source summit:9092 --target usdf:9092 --topics 'lsst[.].*'
      heliostat init --yes --source a:9093 --source-security sasl.yaml --target b:9092 --groups
    """
    wanted = Wanted(
        (source, target),
        (source_security, target_security),
        (source_name, target_name),
        *(topics, prefix, groups),
        asks=not yes and sys.stdin.isatty(),
    )
    _require_answers(wanted, yes=yes)
    _require_free(config_file, wanted, force=force)
    link = _link(wanted)
    _write(config_file, link.text(str(config_file)))
    load_config(config_file)  # it is as any other file
    click.echo(f"\n{config_file} is written. Next: heliostat check -c {config_file}")


def _require_answers(wanted: Wanted, *, yes: bool) -> None:
    """Refuse to ask without a terminal, or to ask nothing without clusters."""
    missing = [
        f"--{side} HOST:PORT"
        for side, address in zip(SIDES, wanted.addresses, strict=True)
        if address is None
    ]
    if not wanted.asks and (missing or not yes):
        need = [*missing, *([] if yes else ["--yes"])]
        why = "--yes asks nothing" if yes else "there is no terminal to ask at"
        raise click.UsageError(f"{why}: give {', '.join(need)} (see heliostat init --help)")


def _require_free(config_file: Path, wanted: Wanted, *, force: bool) -> None:
    if not config_file.exists() or force:
        return
    if wanted.asks and click.confirm(f"{config_file} exists. Replace it?", default=False):
        return
    raise Refused(
        f"{config_file} exists", hint="give --force to replace it, or another name with -c"
    )


def _link(wanted: Wanted) -> FirstLink:
    source, at_source = _cluster(wanted, 0, None)
    target, at_target = _cluster(wanted, 1, at_source)
    first, second = _names(wanted, source, target)
    entry, chosen = _topics(wanted, at_source, at_target)
    return FirstLink(
        replace(source, alias=first),
        replace(target, alias=second),
        include=(entry,),
        prefix=_prefix(wanted, chosen, first),
        groups=_groups(wanted, at_source),
        count=f"{chosen.text()} when this was written",
    )


def _names(wanted: Wanted, source: FirstCluster, target: FirstCluster) -> tuple[Alias, Alias]:
    proposed = proposed_aliases(*(cluster_at(cluster.addresses) for cluster in (source, target)))
    first, second = (
        Alias(name or (_asked(f"Name of the {side}", alias) if wanted.asks else alias))
        for side, name, alias in zip(SIDES, wanted.names, proposed, strict=True)
    )
    return first, second


def _topics(
    wanted: Wanted, at_source: ScannedCluster, at_target: ScannedCluster
) -> tuple[str, Selection]:
    """Return the entry for topics, and what it selects; a person sees the count first."""
    from heliostat.operate.first_link import selection

    asks = wanted.asks and wanted.topics is None
    proposed = proposed_topics([topic.name for topic in at_source.mirrored]) if asks else ".*"
    entry = wanted.topics or proposed
    while True:  # ends when the answer is accepted, or nobody is asked
        if asks:
            entry = _asked("Topics, a name or a regular expression", entry)
        try:
            chosen = selection(at_source, at_target, entry)
        except ValueError as error:
            if not asks:
                raise click.BadParameter(f"{entry!r}: {error}", param_hint="--topics") from None
            click.echo(f"  {error}")
            continue
        click.echo(f"  {chosen.text()}")
        if not asks or click.confirm("Copy these, and those to come?", default=bool(chosen.topics)):
            return entry, chosen


def _prefix(wanted: Wanted, chosen: Selection, source: Alias) -> str:
    """Return what to put before names; asked where the target has such names."""
    if wanted.prefix is not None or not chosen.at_target:
        return wanted.prefix or ""
    some = ", ".join(chosen.at_target[:3])
    click.echo(f"  the target has {len(chosen.at_target)} of these names already: {some}")
    if not wanted.asks:
        return ""
    prefix = _asked("Prefix of names at the target (- for none)", f"{source}.")
    return "" if prefix == "-" else prefix


def _groups(wanted: Wanted, source: ScannedCluster) -> bool:
    if wanted.groups is not None or not wanted.asks:
        return bool(wanted.groups)
    purpose = click.prompt(
        "What is it for", type=click.Choice(PURPOSES), default=PURPOSES[0], show_choices=True
    )
    count = len(source.groups)
    return click.confirm(
        f"Shall consumer groups move along ({count} now)?", default=purpose != PURPOSES[0]
    )


def _cluster(
    wanted: Wanted, side: int, other: ScannedCluster | None
) -> tuple[FirstCluster, ScannedCluster]:
    """Return a cluster that answers; a person is asked again until it does."""
    from heliostat.operate.first_link import looked_at

    address, file = wanted.addresses[side], wanted.security[side]
    security: dict[str, Any] = security_in(file) if file is not None else {}
    is_asked = address is None
    while True:  # ends when the cluster answers, or nobody can be asked
        if is_asked:
            address = _asked(f"Address of the {SIDES[side]}, host:port", address)
            security = security_in(file) if file is not None else _asked_security(security)
        assert address is not None
        first = FirstCluster(Alias(SIDES[side]), address, security)
        try:
            content = looked_at(cluster_at(address, security, first.alias), other)
        except HeliostatError as error:
            if not wanted.asks:
                raise
            click.echo(f"  {error}\n  Once more:")
            is_asked = True
            continue
        click.echo(
            f"  it answers: {len(content.brokers)} brokers, "
            f"Kafka {content.release or '?'} or newer, "
            f"{len(content.mirrored)} topics, {len(content.groups)} groups"
        )
        _show_topics(content)
        return first, content


def _asked(text: str, default: str | None = None) -> str:
    return str(click.prompt(text, default=default)).strip()


def _asked_security(before: dict[str, Any]) -> dict[str, Any]:
    """Ask for protocol and credentials, which are named, never given."""
    protocol = click.prompt(
        "Protocol", type=click.Choice(PROTOCOLS), default=before.get("protocol", PROTOCOLS[0])
    )
    if protocol == PROTOCOLS[0]:
        return {}
    security: dict[str, Any] = {"protocol": protocol}
    if protocol.endswith("SSL"):
        authorities = "File of the authorities, PEM (- for the system's)"
        security |= _asked_file("ca_file", authorities, before)
    if protocol == "SSL":
        security |= _asked_certificate(before)
    if protocol.startswith("SASL"):
        kind = before.get("mechanism", MECHANISMS[0])
        security["mechanism"] = click.prompt(
            "Mechanism", type=click.Choice(MECHANISMS), default=kind
        )
        security["username"] = _asked("User", before.get("username"))
        security["password"] = _asked_secret("Password")
    return security


def _asked_certificate(before: dict[str, Any]) -> dict[str, Any]:
    """Ask for our own certificate, for clusters that know their clients by it (mutual TLS)."""
    own = _asked_file("certificate_file", "Certificate of this client, PEM (- for none)", before)
    if own:
        own["key_file"] = str(Path(_asked("Its key, PEM", before.get("key_file"))).absolute())
        if click.confirm("Has the key a password?", default="key_password" in before):
            own["key_password"] = _asked_secret("Password of the key")
    return own


def _asked_file(key: str, text: str, before: dict[str, Any]) -> dict[str, Any]:
    """Ask for a file that may be left out."""
    path = _asked(text, before.get(key, "-"))
    return {} if path == "-" else {key: str(Path(path).absolute())}


def _asked_secret(text: str) -> dict[str, str]:
    """Ask where a secret is; it is never typed here."""
    where = _asked(f"{text}: name of an environment variable, or path of a file")
    return {"file": str(Path(where).absolute())} if "/" in where else {"env": where}


def _show_topics(content: ScannedCluster) -> None:
    from heliostat.ops.shown import size_text

    for topic in content.mirrored[:SHOWN]:
        size = "size not shown" if topic.bytes is None else size_text(topic.bytes)
        click.echo(f"    {topic.name}: {topic.partitions} partitions, {size}")
    if len(content.mirrored) > SHOWN:
        click.echo(f"    … {len(content.mirrored) - SHOWN} more (heliostat scan lists them)")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(
            f"{path} can't be written: {error.strerror}", hint="give another place with -c"
        ) from None
