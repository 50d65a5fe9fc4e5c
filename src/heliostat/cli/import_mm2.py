"""`heliostat import-mm2`: convert the configuration of MirrorMaker 2 or Replicator into ours."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.options import json_option
from heliostat.config import load_config
from heliostat.errors import ConfigError
from heliostat.mm2.config import SECRETS_FOLDER, import_mm2
from heliostat.mm2.config_replicator import ExecutableFiles
from heliostat.mm2.config_values import Imported

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_VARIABLE = re.compile(r"\$\{env:([^}]*)\}")


@click.command("import-mm2")
@click.argument(
    "files",
    metavar="[FILE...]",
    nargs=-1,
    type=_FILE,
)
@click.option(
    "--consumer.config", "consumer", type=_FILE, help="Of Replicator's executable: the source."
)
@click.option(
    "--producer.config", "producer", type=_FILE, help="Of Replicator's executable: the target."
)
@click.option(
    "--replication.config",
    "replication",
    type=_FILE,
    help="Of Replicator's executable: topics, and all else.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the YAML; standard output by default.",
)
@click.option(
    "--secrets",
    metavar="FOLDER",
    default=SECRETS_FOLDER,
    show_default=True,
    help="Folder for secrets and PEM files on the machines that copy.",
)
@click.option(
    "--naming",
    metavar="FORMAT",
    help="Names of mirrors, such as '${source}.${topic}', for a replication policy of your own.",
)
@json_option
@click.pass_context
def import_mm2_command(
    context: click.Context,
    *,
    files: tuple[Path, ...],
    consumer: Path | None,
    producer: Path | None,
    replication: Path | None,
    output: Path | None,
    secrets: str,
    naming: str | None,
    as_json: bool,
) -> None:
    r"""Convert mm2.properties, connectors' JSON or a Strimzi resource into a configuration file.

    Connectors may be those of MirrorMaker 2 or of Confluent Replicator; the files of Replicator's
    executable are given with its own options. Lists every property as used, replaced, without
    effect or not supported, with the reason. Secrets are neither shown nor written: the file says
    where each must be, and the list says what to put there.

    Exit code 0 when the link will do all that they did, 1 when something will differ.

    \b
    Examples:
      heliostat import-mm2 mm2.properties -o heliostat.yaml
      heliostat import-mm2 source.json checkpoint.json heartbeat.json
      heliostat import-mm2 replicator.json -o heliostat.yaml
      heliostat import-mm2 --consumer.config c.properties --producer.config p.properties \
        --replication.config r.properties
      heliostat import-mm2 mirror-maker.yaml --json | jq '.properties'
    """
    executable = None
    if consumer or producer or replication:
        if not (consumer and producer and replication):
            raise click.UsageError(
                "--consumer.config, --producer.config and --replication.config belong together"
            )
        executable = ExecutableFiles(str(consumer), str(producer), str(replication))
        files = (consumer, producer, replication, *files)
    elif not files:
        raise click.UsageError("Missing argument '[FILE...]'.")
    texts = {str(path): _text(path) for path in files}
    conversion = import_mm2(texts, secrets=secrets, naming=naming, executable=executable)
    _check(conversion)
    if output is not None:
        write_file(output, conversion.to_yaml())
    if as_json:
        click.echo(json.dumps(conversion.to_json(), indent=2))
    else:
        if output is None:
            click.echo(conversion.to_yaml(), nl=False)
        _account(conversion)
    context.exit(DIFFERENCE if conversion.differences else IN_SYNC)


def write_file(output: Path, text: str) -> None:
    """Write a result.

    Raises
    ------
    ConfigError
        The file can't be written.
    """
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{output} can't be written: {error.strerror}", hint="name another file after -o"
        ) from None


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")  # as Java reads properties


def _check(conversion: Imported) -> None:
    """Check that our loader accepts the result, with placeholders for environment variables."""
    text = conversion.to_yaml()
    names = dict.fromkeys(_VARIABLE.findall(text))
    env = {name: f"variable-{number}:9092" for number, name in enumerate(names)}
    for cluster in conversion.config["clusters"].values():
        for url in cluster.get("schema_registry", {}).get("urls", ()):
            env.update(
                (name, f"https://{name}") for name in _VARIABLE.findall(url) if url[0] == "$"
            )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "heliostat.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            load_config(file, env=env)
        except ConfigError as error:
            reason = "the result is not a valid configuration"
            raise ConfigError(reason, problems=error.problems) from None


def _account(conversion: Imported) -> None:
    """Print the outcomes to standard error, so that the YAML can be redirected."""
    for finding in conversion.findings:
        where = f"{finding.origin.file}: {finding.origin.name}"
        click.echo(f"{finding.fate.words:>14}  {where}: {finding.text}", err=True)
    for text in conversion.todo:
        click.echo(f"{'to do':>14}  {text}", err=True)
    for text in conversion.differences:
        click.echo(f"{'differs':>14}  {text}", err=True)
