"""What a target's registry holds that is not the source's: subjects that others use, too.

Nothing about these is changed but what the link's own versions need, and that is told before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from heliostat.schemas.content import RegistryContent, fingerprint, fingerprint_alone
from heliostat.schemas.registry.values import (
    Compatibility,
    Context,
    SchemaVersion,
    Subject,
    SubjectVersion,
    split_subject,
)

NAMED_MAX = 5
"""Versions that are named in a note."""


class OtherVersions:
    """Versions at the target that are not the source's.

    Parameters
    ----------
    source, target
        Both registries.
    context
        The context of the source that is mirrored.
    names
        The names at the target of a subject of the source.
    """

    def __init__(
        self,
        source: RegistryContent,
        target: RegistryContent,
        context: Context,
        names: Callable[[Subject], Iterable[Subject]],
    ) -> None:
        self._source, self._target, self._context, self._names = source, target, context, names
        self._origins: dict[Subject, list[SubjectVersion]] | None = None
        self._alive: dict[Subject, list[SubjectVersion]] | None = None

    def by_content(self, subject: Subject) -> tuple[SchemaVersion, ...]:
        """Living versions whose content no version of the source under that name has."""
        there = self._alive_of(subject)
        ours = {
            fingerprint_alone(self._source.versions[of].schema)
            for of in (self._origins_of(subject) if there else ())
        }
        return tuple(
            of.version
            for of in there
            if fingerprint_alone(self._target.versions[of].schema) not in ours
        )

    def has_own(self, subject: Subject) -> bool:
        """Whether a subject has living versions that are the source's, with the same id."""
        return len(self.by_place(subject)) < len(self._alive_of(subject))

    def by_place(self, subject: Subject) -> tuple[SchemaVersion, ...]:
        """Living versions that have another id or content at the source, or are not there."""
        there = self._alive_of(subject)
        ours = {
            (of.version, content.schema_id, fingerprint(content.schema))
            for of in (self._origins_of(subject) if there else ())
            for content in [self._source.versions[of]]
        }
        return tuple(
            of.version
            for of in there
            for content in [self._target.versions[of]]
            if (of.version, content.schema_id, fingerprint(content.schema)) not in ours
        )

    def subjects_of(self, scope: Subject) -> list[Subject]:
        """A subject, or the subjects of a context, that have living versions at the target."""
        context, name = split_subject(scope)
        alive = self._living()
        if name:
            return [scope] if scope in alive else []
        return [subject for subject in alive if split_subject(subject)[0] == context]

    def _alive_of(self, subject: Subject) -> list[SubjectVersion]:
        return self._living().get(subject, [])

    def _living(self) -> Mapping[Subject, list[SubjectVersion]]:
        if self._alive is None:
            self._alive = {}
            for of, content in sorted(self._target.versions.items(), key=lambda item: item[0]):
                if not content.is_deleted:
                    self._alive.setdefault(of.subject, []).append(of)
        return self._alive

    def _origins_of(self, name: Subject) -> list[SubjectVersion]:
        if self._origins is None:
            self._origins = {}
            names: dict[Subject, tuple[Subject, ...]] = {}
            for of in self._source.versions:
                if split_subject(of.subject)[0] != self._context:
                    continue
                if of.subject not in names:
                    names[of.subject] = tuple(self._names(of.subject))
                for target_name in names[of.subject]:
                    self._origins.setdefault(target_name, []).append(of)
        return self._origins.get(name, [])


def numbers_text(versions: Iterable[SchemaVersion]) -> str:
    """Some versions, for a note."""
    numbers = list(versions)
    more = f" and {len(numbers) - NAMED_MAX} more" if numbers[NAMED_MAX:] else ""
    word = "version" if len(numbers) == 1 else "versions"
    return f"{word} {', '.join(map(str, numbers[:NAMED_MAX]))}{more}"


def beside_note(subject: Subject, versions: Iterable[SchemaVersion]) -> str:
    """Told when the link registers in a subject that has versions of others."""
    return (
        f"{subject} has {numbers_text(versions)} at the target, which the source does not have: "
        "the link registers beside them, and deletes nothing there"
    )


def level_note(subject: Subject, level: Compatibility | None) -> str:
    """Told when a subject keeps a compatibility that the link would otherwise set to NONE."""
    kept = "unknown" if level is None else level.value
    return (
        f"{subject} exists at the target with compatibility {kept}, which others may rely on: it "
        "stays, and a version that it refuses waits, with its records (hint: set NONE there "
        "yourself, or let the link rename the topic, so that the mirror has a subject of its own)"
    )


def carried_note(subject: Subject, had: Compatibility, level: Compatibility) -> str:
    """Told when an existing subject gets another compatibility."""
    return f"{subject} gets compatibility {level.value}, as at the source; it has {had.value}"


def closed_note(scope: Subject) -> str:
    """Told before an existing subject or context gets mode IMPORT."""
    return (
        f"{scope} exists at the target: it gets mode IMPORT, and who registers there is refused "
        "(42205) until `heliostat schemas open`"
    )
