"""What plans of all strategies share: selection, order, refusals, settings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from heliostat.schemas.content import RegistryContent, VersionContent
from heliostat.schemas.others import OtherVersions, beside_note, carried_note
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Compatibility,
    Mode,
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
    Refusal,
    SchemaPlan,
    SchemaRefusal,
    SchemaRules,
    SetCompatibility,
    SoftDelete,
)

AT_ONCE = 8
"""Requests in flight to a registry of Confluent's, whose leader puts them into an order; more to
one far away, see `Registry.at_once`.

Apicurio gets them one by one. It registered 100 schemas in 1.4 s one after the other, in 7 s two at
a time and in 92 s eight at a time, and refused some even of two: `Timeout trying to lock table
"SEQUENCES"`, or a primary key violated (2.5.11.Final in memory, 2 cores, 2026-11-25).
"""
READ_ONLY = frozenset({Mode.READONLY, Mode.READONLY_OVERRIDE})
READ_ONLY_HINT = (
    "somebody has closed it: set its mode, or that of the registry, to READWRITE; records whose "
    "ids are known go on meanwhile, the others wait"
)


def used_by(of: SubjectVersion, reference: SchemaReference) -> SubjectVersion:
    """What a reference means: its subject is in the context of who refers to it."""
    context, _ = split_subject(of.subject)
    subject = reference.subject
    if not subject.startswith(":."):
        subject = join_subject(context, subject)
    return SubjectVersion(subject, reference.version)


class Planning:
    """One comparison of two registries."""

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
        pairs = pairwise(sorted(source.versions))
        self._elders = {new: old for old, new in pairs if old.subject == new.subject}
        self._levels: dict[Subject, Compatibility] = {}
        self.others = OtherVersions(source, target, rules.source_context, self.names)
        self.notes: dict[str, None] = {}
        self.doubtful: set[Subject] = set()

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
            tuple(self.notes),
            frozenset(self.doubtful),
        )

    def _guids(self) -> dict[bytes, bytes]:
        own = self.source.guids(self.rules.source_context)
        theirs = self.target.guids(self.rules.naming.context)
        return {
            own[source_id]: theirs[there]
            for source_id, there in self.ids.items()
            if source_id in own and there in theirs
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
                        self._carry(name, level)

    def _carry(self, subject: Subject, level: Compatibility) -> None:
        """Set the source's compatibility, unless the subject has versions of others."""
        level_there = self.level(subject)
        is_own = subject in self._levels
        if level_there is not level and subject in self.target.compatibilities:
            self.needs_mode(subject)
        if level_there is level or self.target.mode(subject) in READ_ONLY or self.is_open(subject):
            return
        others = () if is_own else self.others_in(subject)
        if others:
            self.notes[beside_note(subject, others)] = None
            return
        had = self.target.compatibilities.get(subject)
        if had not in {None, level} and self.others.subjects_of(subject):
            self.notes[carried_note(subject, had, level)] = None
        self.set_level(subject, level)

    def others_in(self, subject: Subject) -> tuple[SchemaVersion, ...]:
        """Living versions of a subject at the target that are not the source's."""
        return self.others.by_content(subject)

    def is_open(self, _: Subject) -> bool:
        """Whether a subject that would be closed was opened to producers of the target."""
        return False

    def level(self, subject: Subject) -> Compatibility | None:
        """The compatibility in effect, as far as it is known."""
        level = self._levels.get(subject, self.target.compatibilities.get(subject))
        return (
            self.target.default_compatibility if level is None and self.is_new(subject) else level
        )

    def set_level(self, subject: Subject, level: Compatibility) -> None:
        """Set a compatibility unless it is so."""
        if self.level(subject) is not level:
            self._levels[subject] = level
            self.actions.append(SetCompatibility(subject, level))

    def mode_refusal(self, subject: Subject, hint: str) -> Refusal:
        """Refuse as the mode does not allow it."""
        self.needs_mode(subject)
        reason = f"the mode of {subject} at the target is {self.target.mode(subject).value}"
        return Refusal(SchemaRefusal.MODE, reason, hint)

    def needs_mode(self, subject: Subject) -> None:
        """Have it looked at whether a subject or its context has a mode of its own."""
        if self.target.has_modes:
            scopes = {subject, join_subject(split_subject(subject)[0], "")} - {""}
            self.doubtful |= scopes - self.target.modes.keys()

    def _selected(self) -> list[SubjectVersion]:
        versions = []
        for version in sorted(self.source.versions):
            context, _ = split_subject(version.subject)
            if self.rules.selects(version.subject):
                versions.append(version)
            elif context == self.rules.source_context and version.subject in self.rules.mirrored:
                self.left_out[version.subject] = self.rules.mirrored[version.subject]
        return versions

    @cached_property
    def _used(self) -> set[Subject]:
        return {place.subject for place in self.target.versions} | set(self.target.modes)

    def is_new(self, subject: Subject) -> bool:
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
            version = f"{used.subject} version {used.version}"
            if split_subject(used.subject)[0] != self.rules.source_context:
                return Refusal(SchemaRefusal.REFERENCE_ELSEWHERE, f"it refers to {version}")
            if used in self.refused:
                why = self.refused[used].reason
                return Refusal(SchemaRefusal.REFERENCE_REFUSED, f"it refers to {version}: {why}")
            if used not in self.source.versions or used.subject in self.rules.mirrored:
                return Refusal(
                    SchemaRefusal.REFERENCE_MISSING,
                    f"it refers to {version}, which the source does not have, or has as a mirror",
                )
        return None
