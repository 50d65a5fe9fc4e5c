"""`heliostat schemas open` and `close`: who may register in the subjects of a link's mirrors.

Opening asks neither the source's cluster nor its registry: after a failover there are none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConfigError, RegistryError
from heliostat.link.schema_rules import context_of, rules_of
from heliostat.names import LinkName, TopicName
from heliostat.operate.links import link_of
from heliostat.operate.schemas import registries_of
from heliostat.schemas import RegistryContent, SubjectNaming, observe_registry
from heliostat.schemas.observe import Registry, own_modes
from heliostat.schemas.opening import (
    ModeChange,
    NotChanged,
    OpeningPlan,
    plan_closing,
    plan_opening,
    with_references,
)
from heliostat.schemas.others import OtherVersions
from heliostat.schemas.registry import calls, error_codes
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Mode,
    Subject,
    join_subject,
    split_subject,
)
from heliostat.state.link_state import LinkState

_NOTHING_CLOSED = {
    "rewrite": "with rewrite the link closes no subject: producers of the target may register",
    "no_modes": "the target's registry has no modes: no subject is closed there",
}
_REFUSED_HINT = "allow mode changes there (mode.mutability), or ask who may change them"


@dataclass(frozen=True, slots=True)
class LinkModes:
    """Modes that were changed, or would be.

    Parameters
    ----------
    link
        Its name.
    opens
        Whether they are opened; otherwise closed.
    dry_run
        Whether nothing was changed.
    plan
        What was changed, or would be; and what was not.
    """

    link: LinkName
    opens: bool
    dry_run: bool
    plan: OpeningPlan

    @property
    def is_done(self) -> bool:
        """Whether all is as wanted."""
        return not self.plan.kept and not (self.dry_run and self.plan.changes)

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "wanted": (Mode.READWRITE if self.opens else Mode.IMPORT).value,
            "dry_run": self.dry_run,
            "is_done": self.is_done,
            "changed": [
                {"scope": change.scope, "was": change.was.value, "now": change.now.value}
                for change in self.plan.changes
            ],
            "kept": [
                {
                    "scope": kept_mode.scope,
                    "mode": kept_mode.mode.value,
                    "reason": kept_mode.reason,
                    "hint": kept_mode.hint,
                }
                for kept_mode in self.plan.kept
            ],
            "notes": list(self.plan.notes),
        }


def open_subjects(config: Config, link_name: str | None, *, dry_run: bool = False) -> LinkModes:
    """Let producers of the target register in the subjects that a link has closed.

    A running link imports nothing into these until they are closed again.

    Raises
    ------
    ConfigError
        No such link, or it mirrors no schemas.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The target's registry does not answer, or refuses.
    ConnectionLost, BrokerError
        The target's cluster does not answer, or refuses.
    """
    return _changed(config, link_name, opens=True, dry_run=dry_run)


def close_subjects(config: Config, link_name: str | None, *, dry_run: bool = False) -> LinkModes:
    """Give mode IMPORT again to what was opened, as far as the source has versions of it.

    Raises
    ------
    ConfigError
        No such link, or it mirrors no schemas.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    ConnectionLost, BrokerError
        The target's cluster does not answer, or refuses.
    """
    return _changed(config, link_name, opens=False, dry_run=dry_run)


def _changed(config: Config, link_name: str | None, *, opens: bool, dry_run: bool) -> LinkModes:
    link = link_of(config, link_name)
    if link.schemas.strategy == "off":
        raise ConfigError(
            f"link {link.name} mirrors no schemas", hint="name a link that has schemas.strategy"
        )
    modes = LinkModes(LinkName(link.name), opens, dry_run, OpeningPlan())
    if link.schemas.strategy == "rewrite" and not (opens and link.topics.merges):
        return replace(modes, plan=OpeningPlan(notes=(_NOTHING_CLOSED["rewrite"],)))
    mirrors, topics = _at_target(config, link, is_opened=opens)
    with registries_of(config, link) as (source, target):
        plan = planned_modes(link, mirrors, topics, target, None if opens else source)
        return replace(modes, plan=plan if dry_run else change_modes(plan, target))


def _at_target(
    config: Config, link: LinkConfig, *, is_opened: bool
) -> tuple[Mapping[TopicName, TopicName], Collection[TopicName]]:
    """Return the link's mirrors by source topic, and all topics of the target.

    What is opened is former mirrors, too: their subjects are closed until somebody opens them.
    """
    cluster = config.clusters[link.target]
    with closing(LinkState(link, cluster)) as state, ClusterAdmin(cluster.access()) as admin:
        stored = state.read()
        records = dict(stored.mirrors)
        if is_opened:
            former = {
                name: mirror.record for name, mirror in stored.promoted.items() if mirror.record
            }
            records = former | records
        return {name: row.target for name, row in records.items()}, admin.describe_topics()


def planned_modes(
    link: LinkConfig,
    mirrors: Mapping[TopicName, TopicName],
    topics: Collection[TopicName],
    target: Registry,
    source: Registry | None,
) -> OpeningPlan:
    """Plan what is opened, or with a source, closed; changes nothing.

    Parameters
    ----------
    link
        Its configuration.
    mirrors, topics
        Its mirrors by source topic, and all topics of the target's cluster.
    target, source
        The registries.
    """
    content = observe_registry(target)
    if not content.has_modes:
        return OpeningPlan(notes=(_NOTHING_CLOSED["no_modes"],))
    context = context_of(link)
    if link.schemas.strategy == "isolate":
        scopes = {join_subject(context, "")}
    else:
        scopes = subjects_of(link, mirrors, topics, content)
    content = replace(content, modes={**content.modes, **own_modes(target, scopes)})
    if source is None:
        return plan_opening(content, scopes)
    naming = SubjectNaming(dict(mirrors), context)

    def names(subject: Subject) -> list[Subject]:
        return [join_subject(context, split_subject(subject)[1]), *naming.names(subject)]

    others = OtherVersions(observe_registry(source), content, DEFAULT_CONTEXT, names)
    return plan_closing(content, scopes, others)


def subjects_of(
    link: LinkConfig,
    mirrors: Mapping[TopicName, TopicName],
    topics: Collection[TopicName],
    content: RegistryContent,
) -> set[Subject]:
    """Return the subjects of the target that a link may have written, by their names.

    Those that are named after its mirrors, under either name; those that are named after no topic
    of the target and that it selects; and what their schemas refer to.
    """
    renamed = {mirror: mirror for mirror in mirrors.values()}
    selected: set[Subject] = set()
    for names in (mirrors, renamed):
        selected |= rules_of(link, names, topics)(content).selected or frozenset()
    named = {subject for subject in selected if split_subject(subject)[0] == DEFAULT_CONTEXT}
    return with_references(content, named)


def change_modes(plan: OpeningPlan, target: Registry) -> OpeningPlan:
    """Set the planned modes; return what was changed, and what the registry refuses to change.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The registry does not answer, or refuses otherwise; the next call goes on from there.
    """
    changed, kept = list[ModeChange](), list(plan.kept)
    for change in plan.changes:
        try:
            target.ask(calls.set_mode(change.now, change.scope, force=True))
        except RegistryError as error:
            if error.registry_code != error_codes.OPERATION_NOT_PERMITTED:
                raise
            kept.append(NotChanged(change.scope, change.was, error.text, _REFUSED_HINT))
        else:
            changed.append(change)
    return replace(plan, changes=tuple(changed), kept=tuple(kept))
