"""The plan of *rewrite*: the target gives ids, and content decides what is there already."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import override

from heliostat.schemas.content import Fingerprint, RegistryContent, VersionContent, fingerprint
from heliostat.schemas.others import beside_note, level_note
from heliostat.schemas.planning import READ_ONLY, READ_ONLY_HINT, Planning, used_by
from heliostat.schemas.registry.values import (
    Compatibility,
    Mode,
    Schema,
    SchemaReference,
    SchemaVersion,
    Subject,
    SubjectVersion,
)
from heliostat.schemas.schema_plan import Refusal, Register, SchemaRules, SoftDelete

_IMPORT_HINT = (
    "no ids are given there: set its mode to READWRITE, or, for mirrors that have no records yet, "
    "take schemas.strategy preserve; records whose ids are known go on meanwhile, the others wait"
)


class Registering(Planning):
    """See the module."""

    def __init__(
        self, source: RegistryContent, target: RegistryContent, rules: SchemaRules
    ) -> None:
        super().__init__(source, target, rules)
        self._there: dict[Subject, dict[Fingerprint, tuple[SchemaVersion, VersionContent]]] = {}
        for place, target_content in sorted(target.versions.items(), key=lambda item: item[0]):
            by_fingerprint = self._there.setdefault(place.subject, {})
            former = by_fingerprint.get(fingerprint(target_content.schema))
            if former is None or former[1].is_deleted:
                by_fingerprint[fingerprint(target_content.schema)] = (place.version, target_content)
        self._alive = {
            (of.subject, fingerprint(content.schema))
            for of, content in source.versions.items()
            if not content.is_deleted
        }
        self._alive_subjects = {subject for subject, _ in self._alive}
        self._registered: dict[Subject, SubjectVersion] = {}

    @override
    def _of_version(self, of: SubjectVersion, content: VersionContent) -> Refusal | None:
        # A version may be deleted, and its content alive under a later one.
        is_deleted = (of.subject, fingerprint(content.schema)) not in self._alive
        may_be_deleted = is_deleted or not self.rules.follows_deletions
        places = {name: self._found(of, name, content.schema) for name in self.names(of.subject)}
        missing: list[Subject] = []
        for name, place in places.items():
            if place is not None and (may_be_deleted or not place[1].is_deleted):
                self.placed[of, name] = place[0]
                self.ids.setdefault(content.schema_id, place[1].schema_id)
            else:
                missing.append(name)
        for name in missing:
            mode = self.target.mode(name)
            if mode is not Mode.READWRITE:
                hint = READ_ONLY_HINT if mode in READ_ONLY else _IMPORT_HINT
                return self.mode_refusal(name, hint)
        for name, place in places.items():
            if name in missing:
                self._register(Register(of, content.schema_id, name, content.schema))
            is_there = place is None or not place[1].is_deleted
            if is_deleted and is_there and self._can_delete(of.subject, name):
                number = None if place is None else place[0]
                self.deletions.append(SoftDelete(of, name, number))
        return None

    @override
    def _of_references(self, of: SubjectVersion) -> Refusal | None:
        """What is there already needs nothing of what it refers to."""
        refusal = super()._of_references(of)
        schema = self.source.versions[of].schema
        is_there = refusal is not None and all(
            self._found(of, name, schema) is not None for name in self.names(of.subject)
        )
        return None if is_there else refusal

    def _can_delete(self, subject: Subject, name: Subject) -> bool:
        """Whether it is ours to delete, and what is soft-deleted can still be seen at the target.

        Apicurio (2.5, and it has no modes) shows no version of a subject that is wholly deleted, so
        the next plan would register it again, for ever. There it stays.
        """
        is_left = not self.rules.follows_deletions or self.target.mode(name) in READ_ONLY
        if is_left or self.others_in(name):
            return False
        return self.target.has_modes or subject in self._alive_subjects

    def _found(
        self, of: SubjectVersion, name: Subject, schema: Schema
    ) -> tuple[SchemaVersion, VersionContent] | None:
        """Where the content already is; None if what it refers to is not there yet."""
        mapped = []
        for reference in schema.references:
            used = used_by(of, reference)
            own = self.names(used.subject)[0]
            number = self.placed.get((used, own))
            if number is None:
                return None
            mapped.append(SchemaReference(reference.name, own, number))
        wanted = fingerprint(replace(schema, references=tuple(mapped)))
        return self._there.get(name, {}).get(wanted)

    def _register(self, action: Register) -> None:
        """Register; before that the subject must take any version, if it is the link's to say.

        Of a new one after its first version, where there are no modes: Apicurio has no setting for
        a subject that is not there.
        """
        name = action.subject
        others = self.others_in(name)
        if others:
            self.notes[beside_note(name, others)] = None
        is_first = name not in self._there and name not in self._registered
        if self.target.has_modes or not is_first:
            self._let_take_any(name, action.of)
        self.actions.append(action)
        self._registered[name] = action.of

    def _let_take_any(self, name: Subject, of: SubjectVersion) -> None:
        """Set compatibility NONE, unless others may rely on what it is.

        The link sets it before a subject's first version. So one that has another was there before,
        or somebody has changed it since; with `carry` it is as at the source again in the end.
        """
        level = self.level(name)
        is_known = name in self.target.compatibilities and level is not Compatibility.NONE
        if not is_known or name in self._levels or self._is_ours(name, of, level):
            self.set_level(name, Compatibility.NONE)
        else:
            self.notes[level_note(name, level)] = None

    def _is_ours(self, name: Subject, of: SubjectVersion, level: Compatibility | None) -> bool:
        if self.rules.carries_compatibility:
            is_as_there = level is self.source.compatibilities.get(of.subject)
            return is_as_there or not self.others_in(name)
        return name not in self._there and name not in self.target.own_levels

    @override
    def _finish(self) -> None:
        super()._finish()
        if not self.rules.carries_compatibility:
            for name, of in self._registered.items():
                self._let_take_any(name, of)
