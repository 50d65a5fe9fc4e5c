"""From the contents of two registries to what is to be done at the target: pure.

Two ways. *Preserve* and *isolate* put each version where it is at the source, with its id; what is
at that place already must be the same, as a registry in IMPORT mode replaces a version without a
word; so the mode is set by one plan, and used by the next. *Rewrite* looks for the content under
the mirrored name, and registers what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from typing_extensions import override

from heliostat.schemas.content import Fingerprint, RegistryContent, VersionContent, fingerprint
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Compatibility,
    Mode,
    Schema,
    SchemaId,
    SchemaReference,
    SchemaVersion,
    Subject,
    SubjectVersion,
    join_subject,
    split_subject,
)
from heliostat.schemas.schema_plan import (
    Action,
    Import,
    Refusal,
    Register,
    SchemaPlan,
    SchemaRefusal,
    SchemaRules,
    SetCompatibility,
    SetMode,
    SoftDelete,
    Strategy,
)

AT_ONCE = 8
"""Requests in flight to a registry of Confluent's, whose leader puts them into an order; more to
one far away, see `Registry.at_once`.

Apicurio gets them one by one. It registered 100 schemas in 1.4 s one after the other, in 7 s two at
a time and in 92 s eight at a time, and refused some even of two: `Timeout trying to lock table
"SEQUENCES"`, or a primary key violated (2.5.11.Final in memory, 2 cores, 2026-11-25).
"""
_TAKES_IDS = frozenset({Mode.IMPORT, Mode.FORWARD})
_READ_ONLY = frozenset({Mode.READONLY, Mode.READONLY_OVERRIDE})


def plan_schemas(
    source: RegistryContent, target: RegistryContent, rules: SchemaRules
) -> SchemaPlan:
    """What brings the target up to the source; empty where it already is.

    Nothing that others wrote at the target is replaced: such versions are refused. What a refused
    one is referred to by is refused as well; all others go on.
    """
    kind = _Registering if rules.strategy is Strategy.REWRITE else _Importing
    return kind(source, target, rules).plan()


def used_by(of: SubjectVersion, reference: SchemaReference) -> SubjectVersion:
    """What a reference means: its subject is in the context of who refers to it."""
    context, _ = split_subject(of.subject)
    subject = reference.subject
    if not subject.startswith(":."):
        subject = join_subject(context, subject)
    return SubjectVersion(subject, reference.version)


class _Planning:
    """What all strategies share: selection, order, refusals."""

    def __init__(
        self, source: RegistryContent, target: RegistryContent, rules: SchemaRules
    ) -> None:
        self.source, self.target, self.rules = source, target, rules
        self.actions: list[Action] = []
        self.deletions: list[SoftDelete] = []
        self.refused: dict[SubjectVersion, Refusal] = {}
        self.left_out: dict[Subject, str] = {}
        self.placed: dict[tuple[SubjectVersion, Subject], SchemaVersion] = {}
        self.ids: dict[SchemaId, SchemaId] = {}
        self.done: list[SubjectVersion] = []
        self._used = {each.subject for each in target.versions} | set(target.modes)
        pairs = pairwise(sorted(source.versions))
        self._elders = {new: old for old, new in pairs if old.subject == new.subject}
        self._levels: dict[Subject, Compatibility] = {}

    def plan(self) -> SchemaPlan:
        """Go through all versions, references first."""
        for of in self._in_order():
            refusal = self._of_references(of) or self._of_version(of, self.source.versions[of])
            if refusal is None:
                self.done.append(of)
            else:
                self.refused[of] = refusal
        self._finish()
        # Deleted last and in reverse: a registry refuses to delete what is referred to.
        return SchemaPlan(
            (*self.actions, *reversed(self.deletions)),
            self.refused,
            self.left_out,
            self.placed,
            self.ids,
            AT_ONCE if self.target.has_modes else 1,
            self._guids(),
        )

    def _guids(self) -> dict[bytes, bytes]:
        own = self.source.guids(self.rules.source_context)
        theirs = self.target.guids(self.rules.naming.context)
        return {
            own[each]: theirs[there]
            for each, there in self.ids.items()
            if each in own and there in theirs
        }

    def names(self, subject: Subject) -> tuple[Subject, ...]:
        """Names at the target."""
        return self.rules.naming.names(subject)

    def _of_version(self, of: SubjectVersion, content: VersionContent) -> Refusal | None:
        """Plan one version; the reason if it is refused."""
        raise NotImplementedError

    def _finish(self) -> None:
        """What comes after all versions: the source's compatibilities, as far as they are known."""
        if self.rules.carries_compatibility:
            for subject in sorted({of.subject for of in self.done}):
                level = self.source.compatibilities.get(subject)
                if level is not None:
                    for name in self.names(subject):
                        self.set_level(name, level)

    def set_level(self, subject: Subject, level: Compatibility) -> None:
        """Set a compatibility unless it is so."""
        known = self._levels.get(subject, self.target.compatibilities.get(subject))
        if known is None and self._is_new(subject):
            known = self.target.default_compatibility
        if known is not level:
            self._levels[subject] = level
            self.actions.append(SetCompatibility(subject, level))

    def _selected(self) -> list[SubjectVersion]:
        found = []
        for each in sorted(self.source.versions):
            context, _ = split_subject(each.subject)
            if self.rules.selects(each.subject):
                found.append(each)
            elif context == self.rules.source_context and each.subject in self.rules.mirrored:
                self.left_out[each.subject] = self.rules.mirrored[each.subject]
        return found

    def _is_new(self, subject: Subject) -> bool:
        """Whether the target's default counts for it: nobody has used that name."""
        context, _ = split_subject(subject)
        return context == DEFAULT_CONTEXT and subject not in self._used

    def _in_order(self) -> list[SubjectVersion]:
        """Selected versions and what they refer to, each after its references and its elders."""
        ordered: dict[SubjectVersion, None] = {}
        for wanted in self._selected():
            # Not recursive: references may form a long chain.
            open_: list[tuple[SubjectVersion, Iterator[SubjectVersion]]] = []
            if wanted not in ordered:
                open_.append((wanted, self._needs(wanted)))
            begun = {wanted}
            while open_:
                of, needs = open_[-1]
                following = next(needs, None)
                if following is None:
                    ordered[of] = None
                    open_.pop()
                elif following not in ordered and following not in begun:
                    begun.add(following)
                    open_.append((following, self._needs(following)))
        return list(ordered)

    def _needs(self, of: SubjectVersion) -> Iterator[SubjectVersion]:
        """The version before it and what it refers to, as far as the source has them."""
        if of in self._elders:
            yield self._elders[of]
        for reference in self.source.versions[of].schema.references:
            used = used_by(of, reference)
            if used in self.source.versions and used.subject not in self.rules.mirrored:
                yield used

    def _of_references(self, of: SubjectVersion) -> Refusal | None:
        for reference in self.source.versions[of].schema.references:
            used = used_by(of, reference)
            told = f"{used.subject} version {used.version}"
            if split_subject(used.subject)[0] != self.rules.source_context:
                return Refusal(SchemaRefusal.REFERENCE_ELSEWHERE, f"it refers to {told}")
            if used in self.refused:
                why = self.refused[used].reason
                return Refusal(SchemaRefusal.REFERENCE_REFUSED, f"it refers to {told}: {why}")
            if used not in self.source.versions or used.subject in self.rules.mirrored:
                return Refusal(
                    SchemaRefusal.REFERENCE_MISSING,
                    f"it refers to {told}, which the source does not have, or has as a mirror",
                )
        return None


class _Importing(_Planning):
    """Preserve and isolate: each version at its place, with its id."""

    def __init__(
        self, source: RegistryContent, target: RegistryContent, rules: SchemaRules
    ) -> None:
        super().__init__(source, target, rules)
        context = rules.naming.context
        self._by_id = {key: fingerprint(each) for key, each in target.ids(context).items()}
        self._importing: set[Subject] = set()
        self._waiting: set[SubjectVersion] = set()

    @override
    def names(self, subject: Subject) -> tuple[Subject, ...]:
        """Its own name first, since references mean it; then the renamed ones."""
        own = join_subject(self.rules.naming.context, split_subject(subject)[1])
        return tuple(dict.fromkeys((own, *super().names(subject))))

    @override
    def _of_version(self, of: SubjectVersion, content: VersionContent) -> Refusal | None:
        if not self.target.has_modes:
            return Refusal(SchemaRefusal.NO_IMPORT, "the target's registry takes no ids")
        places = [SubjectVersion(name, of.version) for name in self.names(of.subject)]
        wanted = fingerprint(content.schema)
        for place in places:
            refusal = self._conflict(place, content, wanted)
            if refusal is not None:
                return refusal
        self._by_id[content.schema_id] = wanted
        if any(used_by(of, each) in self._waiting for each in content.schema.references):
            self._waiting.add(of)
        for place in places:
            found = self.target.versions.get(place)
            if not _is_to_import(found, content):
                self.placed[of, place.subject] = place.version
            elif self._let_import(place.subject) and of not in self._waiting:
                self.actions.append(Import(of, place, content.schema_id, content.schema))
            else:
                self._waiting.add(of)
                continue
            if content.is_deleted and (found is None or not found.is_deleted):
                self.deletions.append(SoftDelete(of, place.subject, place.version))
        if all((of, place.subject) in self.placed for place in places):
            self.ids[content.schema_id] = content.schema_id
        return None

    def _conflict(
        self, place: SubjectVersion, content: VersionContent, wanted: Fingerprint
    ) -> Refusal | None:
        found = self.target.versions.get(place)
        if found is not None and (
            found.schema_id != content.schema_id or fingerprint(found.schema) != wanted
        ):
            return Refusal(
                SchemaRefusal.VERSION_TAKEN,
                f"{place.subject} version {place.version} is another schema at the target, "
                f"with id {found.schema_id}; the source's has id {content.schema_id}",
            )
        if self._by_id.get(content.schema_id, wanted) != wanted:
            return Refusal(
                SchemaRefusal.ID_TAKEN, f"id {content.schema_id} means another schema at the target"
            )
        mode = self.target.mode(place.subject)
        if mode in _READ_ONLY and _is_to_import(found, content):
            told = f"the mode of {place.subject} at the target is {mode.value}"
            return Refusal(SchemaRefusal.MODE, told)
        return None

    def _let_import(self, subject: Subject) -> bool:
        """Whether it takes ids; otherwise that is set, and the next plan imports.

        In between the target is read again, when nobody else can register there any more: a version
        that a producer registered after this plan's look would be replaced without a word.
        """
        if self.target.mode(subject) in _TAKES_IDS:
            return True
        isolated = self.rules.strategy is Strategy.ISOLATE
        scope = join_subject(self.rules.naming.context, "") if isolated else subject
        if scope not in self._importing:
            self._importing.add(scope)
            self.actions.append(SetMode(scope, Mode.IMPORT))
        return False


def _is_to_import(found: VersionContent | None, content: VersionContent) -> bool:
    """Whether it is not there, or deleted there alone."""
    return found is None or (found.is_deleted and not content.is_deleted)


class _Registering(_Planning):
    """Rewrite: the target gives ids, and content decides what is there already."""

    def __init__(
        self, source: RegistryContent, target: RegistryContent, rules: SchemaRules
    ) -> None:
        super().__init__(source, target, rules)
        self._there: dict[Subject, dict[Fingerprint, tuple[SchemaVersion, VersionContent]]] = {}
        for place, each in sorted(target.versions.items(), key=lambda item: item[0]):
            known = self._there.setdefault(place.subject, {})
            former = known.get(fingerprint(each.schema))
            if former is None or former[1].is_deleted:
                known[fingerprint(each.schema)] = (place.version, each)
        self._alive = {
            (each.subject, fingerprint(content.schema))
            for each, content in source.versions.items()
            if not content.is_deleted
        }
        self._alive_subjects = {subject for subject, _ in self._alive}
        self._registered: set[Subject] = set()

    @override
    def _of_version(self, of: SubjectVersion, content: VersionContent) -> Refusal | None:
        names = self.names(of.subject)
        for name in names:
            mode = self.target.mode(name)
            if mode is not Mode.READWRITE:
                told = f"the mode of {name} at the target is {mode.value}"
                return Refusal(SchemaRefusal.MODE, told)
        # A version may be deleted, and its content alive under a later one.
        is_deleted = (of.subject, fingerprint(content.schema)) not in self._alive
        for name in names:
            found = self._found(of, name, content.schema)
            if found is not None and (is_deleted or not found[1].is_deleted):
                self.placed[of, name] = found[0]
                self.ids.setdefault(content.schema_id, found[1].schema_id)
            else:
                self._register(Register(of, content.schema_id, name, content.schema))
            is_there = found is None or not found[1].is_deleted
            if is_deleted and is_there and self._can_delete(of.subject):
                number = None if found is None else found[0]
                self.deletions.append(SoftDelete(of, name, number))
        return None

    def _can_delete(self, subject: Subject) -> bool:
        """Whether what is soft-deleted can still be seen at the target.

        Apicurio (2.5, and it has no modes) shows no version of a subject that is wholly deleted, so
        the next plan would register it again, for ever. There it stays.
        """
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
        """Register; before a second version the subject must take any.

        After the first: Apicurio has no setting for a subject that is not there.
        """
        is_first = action.subject not in self._there and action.subject not in self._registered
        if not is_first:
            self.set_level(action.subject, Compatibility.NONE)
        self.actions.append(action)
        self._registered.add(action.subject)

    @override
    def _finish(self) -> None:
        super()._finish()
        if not self.rules.carries_compatibility:
            for name in self._registered:
                self.set_level(name, Compatibility.NONE)
