"""`heliostat export-mm2`: write a link as MirrorMaker 2 or Strimzi reads it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.import_mm2 import write_file
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option
from heliostat.mm2.config import SECRETS_FOLDER
from heliostat.mm2.export_forms import ExportForm
from heliostat.operate.export_mm2 import NAMESPACE, export_mm2
from heliostat.operate.links import link_of


@click.command("export-mm2")
@click.argument("link_name", metavar="[LINK]", required=False)
@config_option
@click.option(
    "--as",
    "form",
    type=click.Choice([form.value for form in ExportForm]),
    default=ExportForm.STRIMZI.value,
    show_default=True,
    help="A KafkaMirrorMaker2, KafkaConnector resources, connectors' JSON, or mm2.properties.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the result; standard output by default.",
)
@click.option(
    "--secrets",
    metavar="FOLDER",
    default=SECRETS_FOLDER,
    show_default=True,
    help="Folder in which Kubernetes secrets are mounted for the link, each under its name.",
)
@click.option(
    "--namespace",
    metavar="NAME",
    default=NAMESPACE,
    show_default=True,
    help="Namespace of Kubernetes, of the resources and of the secrets.",
)
@click.option(
    "--policy",
    metavar="CLASS",
    help="A replication policy of your own, for names that MirrorMaker 2 has none for.",
)
@json_option
@click.pass_context
def export_mm2_command(
    context: click.Context,
    link_name: str | None,
    config_file: Path,
    *,
    form: str,
    output: Path | None,
    secrets: str,
    namespace: str,
    policy: str | None,
    as_json: bool,
) -> None:
    r"""Write LINK as a MirrorMaker 2 that does the same: the reverse of `import-mm2`.

    Contacts no cluster. What is to be done, and what MirrorMaker 2 can't do, stands as comments
    before it and on standard error. Secrets are never written: the result names where each must be.

    Exit code 0 when MirrorMaker 2 will do all that the link is configured to do, 1 when something
    will differ.

    \b
    Examples:
      heliostat export-mm2 summit-to-usdf -c heliostat.yaml -o mirror-maker2.yaml
      heliostat export-mm2 summit-to-usdf --as connectors | jq '.[].config'
      heliostat export-mm2 summit-to-usdf --as properties -o mm2.properties
      heliostat export-mm2 summit-to-usdf --json | jq '.differences'
    """
    config = known_config(config_file, link_name)
    exported = export_mm2(
        config,
        link_of(config, link_name),
        ExportForm(form),
        secrets=secrets,
        namespace=namespace,
        policy=policy,
    )
    if output is not None:
        write_file(output, exported.to_text())
    if as_json:
        click.echo(json.dumps(exported.to_json(), indent=2))
    else:
        if output is None:
            click.echo(exported.to_text(), nl=False)
        for kind, lines in (("to do", exported.todo), ("differs", exported.differences)):
            for text in lines:
                click.echo(f"{kind:>8}  {text}", err=True)
    context.exit(DIFFERENCE if exported.differences else IN_SYNC)
