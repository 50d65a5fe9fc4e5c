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
            draft.ledger.without(setting, "records are copied as they are")
            draft.ledger.differs(f"{name}: transforms changed records; a link changes none")
    for key, default in DEFAULT_CLASSES.items():
        _own_class(draft, key, default)
    tolerance = draft.given.get("errors.tolerance")
    if tolerance is not None:
        draft.ledger.without(tolerance, "a record that can't be copied is never left out silently")
        if tolerance.value.strip() == "all":
            draft.ledger.differs(
                f"{name}: errors.tolerance=all left out records that could not be written; a "
                "link stops their partition and reports it"
            )
    acls = [s for k, s in draft.given.items() if k.startswith("sync.topic.acls.")]
    for each in acls:
        draft.ledger.without(each, "ACLs are not copied; `heliostat acls` lists what a link needs")
    enabled = draft.given.get("sync.topic.acls.enabled")
    if enabled is None or enabled.is_true:
        draft.ledger.differs(
            f"{name}: Read ACLs of topics were copied to the target (sync.topic.acls, on by "
            "default); a link copies none, and existing ones stay"
        )


def _own_class(draft: LinkDraft, key: str, default: str) -> None:
    setting = draft.given.get(key)
    if setting is None:
        return
    name = setting.value.rpartition(".")[2]
    draft.ledger.without(setting, "a link can't use Java classes")
    if name != default:
        draft.ledger.differs(f"{draft.flow.name}: {key} {name} decided what the lists now decide")
