"""`heliostat export-mm2`: a link as the configuration of a MirrorMaker 2 that does the same.

The reverse of `mm2.config`: `mm2.export_rules` says what becomes of the keys, for all formats, and
`mm2.export_differences` what MirrorMaker 2 lacks. Pure: writes no file, contacts no cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heliostat.config import Config, LinkConfig
from heliostat.mm2.config import SECRETS_FOLDER
from heliostat.mm2.config_values import Ledger
from heliostat.mm2.export_differences import ALWAYS, tell_what_is_lost
from heliostat.mm2.export_forms import ExportForm, Mirror, text_of
from heliostat.mm2.export_naming import mirror_naming
from heliostat.mm2.export_rules import connectors_of
from heliostat.topics.merged_links import refuse_if_merged

NAMESPACE = "kafka"


@dataclass(frozen=True, slots=True)
class Exported:
    """A link as MirrorMaker 2 reads it.

    Parameters
    ----------
    link
        Name of the link.
    form
        The format of the text.
    text
        Contents of the file; without secrets.
    todo
        What a person has to do before it can run.
    differences
        What the link did and MirrorMaker 2 will not do.
    """

    link: str
    form: ExportForm
    text: str
    todo: tuple[str, ...]
    differences: tuple[str, ...]

    def to_text(self) -> str:
        """Return the file, with things to do and differences as comments, where it can have any."""
        if self.form is ExportForm.CONNECTORS:
            return self.text
        lines = [f"# to do: {text}" for text in self.todo]
        lines += [f"# differs: {text}" for text in self.differences]
        lines += [f"# as any MirrorMaker 2: {text}" for text in ALWAYS]
        return "".join(line.replace("\n", " ") + "\n" for line in lines) + self.text

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "form": self.form.value,
            "text": self.text,
            "todo": list(self.todo),
            "differences": list(self.differences),
            "always": list(ALWAYS),
        }


def export_mm2(
    config: Config,
    link: LinkConfig,
    form: ExportForm = ExportForm.STRIMZI,
    *,
    secrets: str = SECRETS_FOLDER,
    namespace: str = NAMESPACE,
    policy: str | None = None,
) -> Exported:
    """Convert one link.

    Parameters
    ----------
    config, link
        The link, and the clusters.
    form
        The format.
    secrets
        Folder in which Kubernetes secrets are mounted for the link, each under its own name.
    namespace
        The namespace of Kubernetes that has the secrets, and gets the resources.
    policy
        A replication policy of one's own that makes the link's names.

    Raises
    ------
    ConfigError
        MirrorMaker 2 can't give mirrors these names, or can't have one of the expressions.
    """
    refuse_if_merged(link, "export-mm2")
    ledger = Ledger()
    naming = mirror_naming(link, policy, ledger)
    mirror = Mirror(
        link,
        config.clusters[link.source],
        config.clusters[link.target],
        naming,
        connectors_of(link, naming, ledger),
        secrets,
        namespace,
        ledger,
    )
    tell_what_is_lost(link, ledger)
    text = text_of(mirror, form)
    return Exported(link.name, form, text, tuple(ledger.todo), tuple(ledger.differences))
