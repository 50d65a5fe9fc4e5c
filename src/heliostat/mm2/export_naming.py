"""By which policy and alias MirrorMaker 2 gives mirrors the names that a link gives them."""

from __future__ import annotations

from typing import Any, NamedTuple

from heliostat.config import LinkConfig
from heliostat.errors import ConfigError
from heliostat.mm2.config_topics import NEVER_REPLICATED, internal_topics, returning_topics
from heliostat.mm2.config_values import Ledger

PACKAGE = "org.apache.kafka.connect.mirror"
_DEFAULT, _IDENTITY = f"{PACKAGE}.DefaultReplicationPolicy", f"{PACKAGE}.IdentityReplicationPolicy"
_TOPIC = "${topic}"
DOT = "."
_SEPARATORS = "._-"


class MirrorNaming(NamedTuple):
    """MirrorMaker 2's names for both clusters, and how it makes names of mirrors."""

    source: str
    target: str
    policy: str
    separator: str | None = None
    """None: the policy needs none."""

    @property
    def flow(self) -> str:
        """The name that MirrorMaker 2 gives the flow."""
        return f"{self.source}->{self.target}"

    def properties(self) -> dict[str, Any]:
        """Return the properties that say so; aliases are where the clusters are."""
        properties = {"replication.policy.class": self.policy}
        if self.separator not in (None, DOT):
            properties["replication.policy.separator"] = str(self.separator)
        return properties

    def left_out(self) -> list[str]:
        """Return which topics MirrorMaker 2 never copies, whatever its lists say."""
        topics = [NEVER_REPLICATED]
        if self.separator is not None:
            topics += [] if self.separator == DOT else internal_topics(self.separator)
            topics += returning_topics(self.target, self.separator)
        return topics


def mirror_naming(link: LinkConfig, policy: str | None, ledger: Ledger) -> MirrorNaming:
    """Return how MirrorMaker 2 has to name clusters and mirrors.

    Parameters
    ----------
    link
        The link.
    policy
        A Java class of one's own that makes the link's names; None for one of MirrorMaker 2's.
    ledger
        Takes what a person has to know.

    Raises
    ------
    ConfigError
        None of MirrorMaker 2's policies makes these names.
    """
    form = link.topics.name_format().replace("${source}", link.source)
    if policy is not None:
        return MirrorNaming(link.source, link.target, policy)
    if form == _TOPIC:
        return MirrorNaming(link.source, link.target, _IDENTITY)
    prefix = form.removesuffix(_TOPIC)
    if prefix == form or _TOPIC in prefix:
        raise ConfigError(
            f"no replication policy of MirrorMaker 2 names mirrors {form}",
            hint="give the Java class of one that does: --policy org.example.MyPolicy",
        )
    alias = str(link.source)
    if prefix.strip(_SEPARATORS) != alias.strip(_SEPARATORS) or not prefix.startswith(alias):
        alias = prefix.rstrip(_SEPARATORS) or prefix
        ledger.must_do(
            f"the source is called {alias} there, as MirrorMaker 2 makes names of mirrors with its "
            f"alias: its checkpoints and heartbeats have {alias} in their names, too"
        )
    if alias == link.target:
        raise ConfigError(
            f"mirrors begin with {prefix}, which names the target in MirrorMaker 2",
            hint="give a replication policy of your own: --policy org.example.MyPolicy",
        )
    return MirrorNaming(alias, link.target, _DEFAULT, prefix[len(alias) :])
