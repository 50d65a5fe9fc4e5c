"""What a flow of MirrorMaker 2 did and a link will not do: reported before the link runs."""

from __future__ import annotations

from heliostat.mm2.config_draft import LinkDraft

DEFAULT_CLASSES = {
    "topic.filter.class": "DefaultTopicFilter",
    "group.filter.class": "DefaultGroupFilter",
    "config.property.filter.class": "DefaultConfigPropertyFilter",
    "forwarding.admin.class": "ForwardingAdmin",
}


def tell_what_differs(draft: LinkDraft) -> None:
    """Note in the ledger what this flow did and a link will not do."""
    name = draft.flow.name
    for key, default in DEFAULT_CLASSES.items():
        _own_class(draft, key, default)
    tolerance = draft.given.get("errors.tolerance")
    why = "a record that can't be copied is never left out silently"
    if tolerance is not None and tolerance.value.strip() == "all":
        draft.ledger.unsupported(
            tolerance,
            why,
            f"{name}: errors.tolerance=all left out records that could not be written; a link "
            "stops their partition and reports it",
        )
    elif tolerance is not None:
        draft.ledger.without(tolerance, why)
    if not draft.flow.is_replicator:
        _acls(draft)
        _own_names(draft)


def _acls(draft: LinkDraft) -> None:
    acls = [s for k, s in draft.given.items() if k.startswith("sync.topic.acls.")]
    for setting in acls:
        draft.ledger.without(setting, "ACLs follow only with access.sync_acls, which is off")
    enabled = draft.given.get("sync.topic.acls.enabled")
    difference = (
        f"{draft.flow.name}: Read ACLs of topics were copied to the target (sync.topic.acls, on by "
        "default); existing ones stay, and a link has them follow only with access.sync_acls: true"
    )
    if enabled is None:
        draft.ledger.differs(difference)
    elif enabled.is_true:
        draft.ledger.unsupported(enabled, "access.sync_acls lets people in: it is off", difference)


def _own_names(draft: LinkDraft) -> None:
    """Tell if topics that MirrorMaker 2's clients know by name are called otherwise."""
    if not (draft.parts["heartbeats"]["mirror"] or draft.parts["checkpoints"]["emit"]):
        return
    for client in (draft.flow.source, draft.flow.target):
        if client.alias != client.key:
            draft.ledger.differs(
                f"{draft.flow.name}: the heartbeats and checkpoints topics have {client.key} in "
                f"their names where MirrorMaker 2 had {client.alias!r}"
            )
    separator = draft.given.get("replication.policy.separator")
    theirs = "." if separator is None else separator.value
    ours = _separator(draft)
    if separator is not None and theirs != ours:
        draft.ledger.differs(
            f"{draft.flow.name}: the heartbeats and checkpoints topics have the separator {ours!r} "
            f"in their names where MirrorMaker 2 had {theirs!r}"
        )
    internal = draft.given.get("replication.policy.internal.topic.separator.enabled")
    if internal is not None and not internal.is_true and ours != ".":
        draft.ledger.unsupported(
            internal,
            "a link has one separator",
            f"{draft.flow.name}: the checkpoints topic has the separator {ours!r} in its name "
            "where MirrorMaker 2 had dots, and topics with the names of such topics are left out",
        )


def _separator(draft: LinkDraft) -> str:
    """Return the separator in the names of a link's topics for MirrorMaker 2's clients."""
    naming = draft.parts["topics"]["naming"]
    prefix = naming.get("prefix", "") if isinstance(naming, dict) else ""
    key = draft.flow.source.key
    return (prefix.removeprefix(key) if prefix.startswith(key) else "") or "."


def _own_class(draft: LinkDraft, key: str, default: str) -> None:
    setting = draft.given.get(key)
    if setting is None:
        return
    name = setting.value.rpartition(".")[2]
    why = "a link can't use Java classes"
    if name == default:
        draft.ledger.without(setting, why)
    else:
        difference = f"{draft.flow.name}: {key} {name} decided what the lists now decide"
        draft.ledger.unsupported(setting, why, difference)
