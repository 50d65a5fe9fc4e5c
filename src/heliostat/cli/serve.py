"""`heliostat serve`."""

from __future__ import annotations

from pathlib import Path

import click

from heliostat.cli.options import config_option, link_option, log_option
from heliostat.config import read_config_file


@click.command("serve")
@config_option
@click.option(
    "--listen", metavar="HOST:PORT", default=None, help="In place of service.listen; port 0 = any."
)
@link_option
@log_option
@click.option(
    "--ends-with-parent",
    is_flag=True,
    hidden=True,
    help="Stop when the process that has started this one ends.",
)
def serve_command(
    config_file: Path,
    listen: str | None,
    link_name: str | None,
    log_form: str,
    *,
    ends_with_parent: bool,
) -> None:
    r"""Serve metrics and the reading API of links, until Ctrl-C; works on any machine.

    Reads what links write at their targets, and asks all brokers of their clusters whether they
    answer: figures stay right while a driver, a lane or a broker is away. Prints its address, and
    logs what begins and ends.

    \b
    Examples:
      heliostat serve -c heliostat.yaml
      curl http://127.0.0.1:8083/metrics
      curl 'http://127.0.0.1:8083/api/v1/links/summit-to-usdf/topics?state=blocked'
    """
    from heliostat.clock import SystemClock
    from heliostat.config.service import ServiceConfig
    from heliostat.operate.links import known_links
    from heliostat.ops.events import Events, LogFormat
    from heliostat.serve.process import serve

    file = read_config_file(config_file)
    config = file.config
    if listen is not None:
        fields = {**config.service.model_dump(), "listen": listen}
        config = config.model_copy(update={"service": ServiceConfig.model_validate(fields)})
    config = config.model_copy(update={"links": known_links(config, link_name)})
    form = LogFormat(log_form)
    events = Events(SystemClock().wall_ms, form=form)

    def announce(url: str) -> None:
        if form is LogFormat.JSON and not ends_with_parent:
            events.info(f"serving at {url}")
        else:
            click.echo(f"serving at {url}")

    serve(config, file, announce, only=link_name, ends_with_parent=ends_with_parent, form=form)
