"""From the contents of two registries to what is to be done at the target: pure.

Two ways. *Preserve* and *isolate* put each version where it is at the source, with its id; what is
at that place already must be the same, as a registry in IMPORT mode replaces a version without a
word; so the mode is set by one plan, and used by the next. *Rewrite* looks for the content under
the mirrored name, and registers what is missing.
"""

from __future__ import annotations

from typing_extensions import override

from heliostat.schemas.content import Fingerprint, RegistryContent, VersionContent, fingerprint
from heliostat.schemas.others import closed_note, numbers_text
from heliostat.schemas.planning import READ_ONLY, READ_ONLY_HINT, Planning, used_by
from heliostat.schemas.registering import Registering
from heliostat.schemas.registry.values import (
    Mode,
    SchemaVersion,
    Subject,
    SubjectVersion,
    join_subject,
    split_subject,
)
from heliostat.schemas.schema_plan import (
    Import,
    Refusal,
    SchemaPlan,
    SchemaRefusal,
    SchemaRules,
    SetMode,
    SoftDelete,
    Strategy,
)

_TAKES_IDS = frozenset({Mode.IMPORT, Mode.FORWARD})
_OPEN_HINT = "when its producers at the target have stopped: heliostat schemas close"
_TAKEN_HINT = (
    "mode IMPORT would close it to whoever registers there: rename the topic's mirror, take "
    "schemas.strategy isolate or rewrite, or set its mode to IMPORT there yourself"
)


def plan_schemas(
    source: RegistryContent, target: RegistryContent, rules: SchemaRules
) -> SchemaPlan:
    """What brings the target up to the source; empty where it already is.

    Nothing that others wrote at the target is replaced: such versions are refused. What a refused
    one is referred to by is refused as well; all others go on.
    """
    kind = Registering if rules.strategy is Strategy.REWRITE else _Importing
    return kind(source, target, rules).plan()


class _Importing(Planning):
    """Preserve and isolate: each version at its place, with its id."""

    def __init__(
        self, source: RegistryContent, target: RegistryContent, rules: SchemaRules
    ) -> None:
        super().__init__(source, target, rules)
        context = rules.naming.context
        self._by_id = {key: fingerprint(schema) for key, schema in target.ids(context).items()}
        self._at_target = dict(self._by_id)
        self._importing: set[Subject] = set()
        self._waiting: set[SubjectVersion] = set()
        self._taken: dict[Subject, str] = {}

    @override
    def names(self, subject: Subject) -> tuple[Subject, ...]:
        """Its own name first, since references mean it; then the renamed ones."""
        own = join_subject(self.rules.naming.context, split_subject(subject)[1])
        return tuple(dict.fromkeys((own, *super().names(subject))))

    @override
    def _of_version(self, of: SubjectVersion, content: VersionContent) -> Refusal | None:
        if not self.target.has_modes:
            text = "the target's registry takes no ids: that needs schemas.strategy rewrite"
            return Refusal(SchemaRefusal.NO_IMPORT, text)
        places = [SubjectVersion(name, of.version) for name in self.names(of.subject)]
        wanted = fingerprint(content.schema)
        for place in places:
            refusal = self._conflict(place, content, wanted)
            if refusal is not None:
                return refusal
        self._by_id[content.schema_id] = wanted
        if any(used_by(of, reference) in self._waiting for reference in content.schema.references):
            self._waiting.add(of)
        for place in places:
            occupant = self.target.versions.get(place)
            if not _is_to_import(occupant, content):
                self.placed[of, place.subject] = place.version
            elif self._let_import(place.subject) and of not in self._waiting:
                self.actions.append(Import(of, place, content.schema_id, content.schema))
            else:
                self._waiting.add(of)
                continue
            is_there = occupant is None or not occupant.is_deleted
            if content.is_deleted and is_there and not self._is_left(place.subject):
                self.deletions.append(SoftDelete(of, place.subject, place.version))
        if all((of, place.subject) in self.placed for place in places):
            self.ids[content.schema_id] = content.schema_id
        return None

    def _conflict(
        self, place: SubjectVersion, content: VersionContent, wanted: Fingerprint
    ) -> Refusal | None:
        occupant = self.target.versions.get(place)
        if occupant is not None and (
            occupant.schema_id != content.schema_id or fingerprint(occupant.schema) != wanted
        ):
            return Refusal(
                SchemaRefusal.VERSION_TAKEN,
                f"{place.subject} version {place.version} is another schema at the target, "
                f"with id {occupant.schema_id}; the source's has id {content.schema_id}",
            )
        if self._by_id.get(content.schema_id, wanted) != wanted:
            return Refusal(
                SchemaRefusal.ID_TAKEN, f"id {content.schema_id} means another schema at the target"
            )
        if not _is_to_import(occupant, content):
            return None
        refusal = self._closing_refusal(place.subject)
        if refusal is not None and self._at_target.get(content.schema_id) == wanted:
            self.ids[content.schema_id] = content.schema_id  # it can be read all the same
        return refusal

    def _closing_refusal(self, subject: Subject) -> Refusal | None:
        """Why a subject neither takes ids nor may be made to."""
        mode = self.target.mode(subject)
        if mode in _TAKES_IDS:
            return None
        if mode in READ_ONLY:
            return self.mode_refusal(subject, READ_ONLY_HINT)
        if self.is_open(subject):
            reason = f"{subject} is open to producers of the target: READWRITE was set there"
            return Refusal(SchemaRefusal.OPEN, reason, _OPEN_HINT)
        scope = self._scope(subject)
        if scope not in self._taken:
            self._taken[scope] = next(
                (
                    f"{name} has {numbers_text(versions)} at the target that are not the source's"
                    for name in self.others.subjects_of(scope)
                    if (versions := self.others_in(name))
                ),
                "",
            )
        if self._taken[scope]:
            return Refusal(SchemaRefusal.SUBJECT_TAKEN, self._taken[scope], _TAKEN_HINT)
        return None

    @override
    def others_in(self, subject: Subject) -> tuple[SchemaVersion, ...]:
        return self.others.by_place(subject)

    @override
    def is_open(self, subject: Subject) -> bool:
        scopes = (subject, self._scope(subject))
        return any(self.target.modes.get(scope) is Mode.READWRITE for scope in scopes)

    def _is_left(self, subject: Subject) -> bool:
        """Whether what is there already stays as it is."""
        return self.target.mode(subject) in READ_ONLY or self.is_open(subject)

    def _scope(self, subject: Subject) -> Subject:
        """What gets mode IMPORT for a subject: itself, or its context."""
        isolated = self.rules.strategy is Strategy.ISOLATE
        return join_subject(self.rules.naming.context, "") if isolated else subject

    def _let_import(self, subject: Subject) -> bool:
        """Whether it takes ids; otherwise that is set, and the next plan imports.

        In between the target is read again, when nobody else can register there any more: a version
        that a producer registered after this plan's look would be replaced without a word.
        """
        if self.target.mode(subject) in _TAKES_IDS:
            return True
        scope = self._scope(subject)
        if scope not in self._importing:
            self._importing.add(scope)
            if self.others.subjects_of(scope):
                self.notes[closed_note(scope)] = None
            self.actions.append(SetMode(scope, Mode.IMPORT))
        return False


def _is_to_import(occupant: VersionContent | None, content: VersionContent) -> bool:
    """Whether it is not there, or deleted there alone."""
    return occupant is None or (occupant.is_deleted and not content.is_deleted)
