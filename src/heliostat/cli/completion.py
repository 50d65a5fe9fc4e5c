"""What a shell offers while a line is typed; it contacts no cluster, and is silent about errors."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

DEFAULT_FILE = "heliostat.yaml"


def link_names(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Return the links of the configuration file whose names begin like that."""
    import yaml

    path = context.params.get("config_file") or DEFAULT_FILE
    with suppress(OSError, ValueError, yaml.YAMLError):
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        links = content.get("links") if isinstance(content, dict) else None
        names = [link.get("name") for link in links or [] if isinstance(link, dict)]
        return [name for name in names if isinstance(name, str) and name.startswith(typed)]
    return []
