"""What is to be done at a target's registry, as a value: it prints, compares, and may be empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, assert_never

from heliostat.schemas.naming import SubjectNaming
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Compatibility,
    Context,
    Mode,
    Schema,
    SchemaId,
    SchemaVersion,
    Subject,
    SubjectVersion,
    split_subject,
)


class Strategy(Enum):
    """How a link's schemas get to the target."""

    PRESERVE = "preserve"
    """Same ids and versions: records stay as they are. Needs IMPORT, and ids that are free."""
    ISOLATE = "isolate"
    """Same ids and versions in a context of the source's own: consumers choose the address."""
    REWRITE = "rewrite"
    """The target's own ids, which are put into the records. Works with any registry."""


class SchemaRefusal(Enum):
    """Why a schema is not mirrored."""

    NO_IMPORT = "no_import"
    """The target's registry takes no ids, which preserve and isolate need."""
    MODE = "mode"
    """The mode at the target does not allow it: read-only, or IMPORT where ids are to be given."""
    OPEN = "open"
    """Its subject is open to producers of the target (`heliostat schemas open`)."""
    SUBJECT_TAKEN = "subject_taken"
    """Its subject has versions at the target that are not the source's; mode IMPORT would close it
    to whoever registers these."""
    VERSION_TAKEN = "version_taken"
    """That version has other content or another id at the target; IMPORT would replace it."""
    ID_TAKEN = "id_taken"
    """That id means other content at the target."""
    REFERENCE_MISSING = "reference_missing"
    """A schema that it refers to is not at the source any more."""
    REFERENCE_REFUSED = "reference_refused"
    """A schema that it refers to is refused."""
    REFERENCE_ELSEWHERE = "reference_elsewhere"
    """A schema that it refers to is in another context of the source."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A schema that is not mirrored, and why."""

    code: SchemaRefusal
    reason: str
    hint: str = ""
    """What to do."""

    def text(self) -> str:
        """Reason and hint in one line."""
        return f"{self.reason} (hint: {self.hint})" if self.hint else self.reason


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """What a link says about schemas.

    Parameters
    ----------
    strategy
        See `Strategy`.
    naming
        Names at the target.
    selected
        Subjects of the source to mirror; None for all. What they refer to is mirrored as well.
    mirrored
        Subjects of the source that are mirrors themselves, with who made them: left out, so that no
        schema goes back to where it came from. Known by the links' states, never by a name.
    source_context
        The context of the source that is mirrored.
    carries_compatibility
        Whether a mirrored subject gets the source's compatibility; otherwise NONE, as what the
        source has accepted must be accepted.
    follows_deletions
        Whether what is soft-deleted at the source is so at the target. Where both sides register
        for one subject it is not, and none brings back what the other has deleted: its id can be
        read as before.
    """

    strategy: Strategy
    naming: SubjectNaming = field(default_factory=SubjectNaming)
    selected: frozenset[Subject] | None = None
    mirrored: Mapping[Subject, str] = field(default_factory=dict)
    source_context: Context = DEFAULT_CONTEXT
    carries_compatibility: bool = False
    follows_deletions: bool = True

    def selects(self, subject: Subject) -> bool:
        """Whether a subject of the source is mirrored, whatever refers to it."""
        context, _ = split_subject(subject)
        is_selected = self.selected is None or subject in self.selected
        return context == self.source_context and subject not in self.mirrored and is_selected


@dataclass(frozen=True, slots=True)
class SetMode:
    """Let a subject or context take ids."""

    scope: Subject
    mode: Mode


@dataclass(frozen=True, slots=True)
class SetCompatibility:
    """Let a subject take what the source has, or what it takes there."""

    subject: Subject
    level: Compatibility


@dataclass(frozen=True, slots=True)
class Import:
    """Put a schema at a version with an id."""

    of: SubjectVersion
    place: SubjectVersion
    schema_id: SchemaId
    schema: Schema


@dataclass(frozen=True, slots=True)
class Register:
    """Let the target give an id to a schema.

    Parameters
    ----------
    of, source_id
        Version and id at the source.
    subject
        Name at the target.
    schema
        Text and type; its references are the source's.
    """

    of: SubjectVersion
    source_id: SchemaId
    subject: Subject
    schema: Schema


@dataclass(frozen=True, slots=True)
class SoftDelete:
    """Follow the source, where it is soft-deleted; its id stays readable.

    Parameters
    ----------
    of
        Version at the source.
    subject, number
        Where at the target; without a number where it was registered by the same plan.
    """

    of: SubjectVersion
    subject: Subject
    number: SchemaVersion | None


Action: TypeAlias = SetMode | SetCompatibility | Import | Register | SoftDelete


def version_of(action: Action) -> SubjectVersion | None:
    """The version of the source that an action is about; None: it is a setting."""
    return None if isinstance(action, SetMode | SetCompatibility) else action.of


def setting_text(action: SetMode | SetCompatibility | SoftDelete) -> str:
    """What is done without a schema, in words."""
    match action:
        case SetMode(scope, mode):
            return f"mode {mode.value} of {scope or 'the registry'}"
        case SetCompatibility(subject, level):
            return f"compatibility {level.value} of {subject}"
        case SoftDelete(of, subject, number):
            version = of.version if number is None else number
            return f"soft deletion of {subject} version {version}"
        case _:
            assert_never(action)


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """Actions in the order in which they work, and what is not done.

    Parameters
    ----------
    actions
        References come before who refers to them.
    refused
        By version of the source.
    left_out
        Subjects of the source that are mirrors, with who made them.
    placed
        Where versions of the source already are at the target, by name there.
    ids
        Ids of the source and what they are at the target, as far as they are there.
    at_once
        How many requests the target's registry takes at once.
    guids
        GUIDs of the source and what they are at the target, as far as both registries give them.
    notes
        What is done to subjects of the target that others may use, and what is not.
    doubtful
        Subjects and contexts of the target whose own modes are not known, and matter: what counts
        for all refuses them.
    """

    actions: tuple[Action, ...] = ()
    refused: Mapping[SubjectVersion, Refusal] = field(default_factory=dict)
    left_out: Mapping[Subject, str] = field(default_factory=dict)
    placed: Mapping[tuple[SubjectVersion, Subject], SchemaVersion] = field(default_factory=dict)
    ids: Mapping[SchemaId, SchemaId] = field(default_factory=dict)
    at_once: int = 1
    guids: Mapping[bytes, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    doubtful: frozenset[Subject] = frozenset()

    @property
    def touched(self) -> frozenset[Subject]:
        """Subjects of the target whose versions or mode are changed."""
        subjects = set[Subject]()
        for action in self.actions:
            match action:
                case SetMode(scope, _):
                    subjects.add(scope)
                case Import(_, place, _, _):
                    subjects.add(place.subject)
                case Register() | SoftDelete():
                    subjects.add(action.subject)
                case SetCompatibility():
                    pass
                case _:
                    assert_never(action)
        return frozenset(subjects)

    @property
    def levelled(self) -> frozenset[Subject]:
        """Subjects of the target whose compatibility is set, unless it is so."""
        return frozenset(
            action.subject for action in self.actions if isinstance(action, SetCompatibility)
        )
