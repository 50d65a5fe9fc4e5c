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
    for key, setting in draft.given.items():
        if key.startswith(("transforms", "predicates")) and setting.value.strip():
            draft.ledger.unsupported(
                setting,
                "records are copied as they are, but for pipelines",
                f"{name}: transforms changed records; a link changes none without a pipeline",
            )
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


def _acls(draft: LinkDraft) -> None:
    acls = [s for k, s in draft.given.items() if k.startswith("sync.topic.acls.")]
    for each in acls:
        draft.ledger.without(each, "ACLs are not copied; `heliostat acls` lists what a link needs")
    enabled = draft.given.get("sync.topic.acls.enabled")
    difference = (
        f"{draft.flow.name}: Read ACLs of topics were copied to the target (sync.topic.acls, on by "
        "default); a link copies none, and existing ones stay"
    )
    if enabled is None:
        draft.ledger.differs(difference)
    elif enabled.is_true:
        draft.ledger.unsupported(enabled, "ACLs are not copied", difference)


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
