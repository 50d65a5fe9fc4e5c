"""A schema registry in memory with Confluent's rules, also where they hurt.

Written after Confluent's classes `KafkaSchemaRegistry`, `AbstractSchemaRegistry` and
`InMemoryCache` (8.4). What a mirror can go wrong with is imitated to the letter: IMPORT replaces
a version that has other content without a word, and the replaced id then reads as the new one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from support.registry_content import AVRO, Content, InvalidText, canonical, differences

ALL_CONTEXTS = ":*:"
GLOBAL = ":.__GLOBAL:"
IMPORTING = ("IMPORT", "FORWARD")
READ_ONLY = ("READONLY", "READONLY_OVERRIDE")
LEVELS = frozenset(
    {"NONE"}
    | {f"{way}{all_}" for way in ("BACKWARD", "FORWARD", "FULL") for all_ in ("", "_TRANSITIVE")}
)
KEPT = ("metadata", "ruleSet")
TYPES = ("AVRO", "JSON", "PROTOBUF")


class RegistryRefusal(Exception):
    """An answer with an error code; its first three digits are HTTP's status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """HTTP's status."""
        return self.code if self.code < 1000 else self.code // 100


@dataclass
class Entry:
    """One version of a subject."""

    schema_id: int
    content: Content
    is_deleted: bool = False


@dataclass
class Context:
    """Ids of one context."""

    by_id: dict[int, dict[str, int]] = field(default_factory=dict)
    """Subjects and versions that have an id; a subject has only its last one."""
    by_content: dict[Content, int] = field(default_factory=dict)
    """The id that content got last."""
    id_max: int = 0


def split(subject: str | None) -> tuple[str, str]:
    """Context and plain name."""
    if subject is not None and subject.startswith(":."):
        context, _, name = subject[1:].partition(":")
        return context, name
    return ".", subject or ""


def qualify(parent: str, subject: str) -> str:
    """A reference's subject: in the context of who refers to it, unless it names one."""
    context, _ = split(parent)
    return subject if context == "." or subject.startswith(":.") else f":{context}:{subject}"


class RegistryDouble:
    """See the module.

    Parameters
    ----------
    modes_change
        `mode.mutability`.
    compatibility
        `schema.compatibility.level`.
    """

    def __init__(self, *, modes_change: bool = True, compatibility: str = "BACKWARD") -> None:
        self.subjects: dict[str, dict[int, Entry]] = {}
        self.contexts: dict[str, Context] = {}
        self.modes: dict[str | None, str] = {}
        self.levels: dict[str | None, str] = {}
        self.page_versions = 1_000
        self.gives_guids = True
        self._modes_change = modes_change
        self._level = compatibility

    # Reading

    def names(self, prefix: str, *, deleted: bool) -> list[str]:
        """Subjects that begin with `prefix`; a plain one means the default context."""
        found = []
        for subject, versions in sorted(self.subjects.items()):
            context, name = split(subject)
            if prefix.startswith(ALL_CONTEXTS):
                fits = name.startswith(prefix.removeprefix(ALL_CONTEXTS))
            else:
                wanted, start = split(prefix)
                fits = context == wanted and name.startswith(start)
            if fits and any(deleted or not each.is_deleted for each in versions.values()):
                found.append(subject)
        return found

    def versions(self, subject: str, *, deleted: bool) -> list[int]:
        """Versions, oldest first; 40401 if there is none."""
        found = self._alive(subject, deleted=deleted)
        if not found:
            raise RegistryRefusal(40401, f"Subject '{subject}' not found.")
        return found

    def version(self, subject: str, wanted: str, *, deleted: bool) -> dict[str, Any]:
        """One version, in any context if the name is plain (`getUsingContexts`)."""
        names = [subject]
        if split(subject)[0] == ".":
            names += [f":{context}:{subject}" for context in self.contexts if context != "."]
        for name in names:
            number = self._number(name, wanted)
            entry = self.subjects.get(name, {}).get(number)
            if entry is not None and (deleted or not entry.is_deleted):
                return self._described(name, number, entry)
        if not self._alive(subject, deleted=deleted):
            raise RegistryRefusal(40401, f"Subject '{subject}' not found.")
        raise RegistryRefusal(40402, f"Version {wanted} not found.")

    def page(self, prefix: str, offset: int, *, deleted: bool) -> list[dict[str, Any]]:
        """A page of all versions."""
        found = [
            self._described(subject, at, self.subjects[subject][at])
            for subject in self.names(prefix, deleted=deleted)
            for at in self._alive(subject, deleted=deleted)
        ]
        return found[offset : offset + self.page_versions]

    def by_id(self, schema_id: int, subject: str | None) -> dict[str, Any]:
        """The content of an id, soft-deleted or not."""
        key = self._key(schema_id, subject)
        if key is None:
            raise RegistryRefusal(40403, f"Schema {schema_id} not found")
        named = {} if subject is None else {"subject": key[0], "version": key[1]}
        content = self.subjects[key[0]][key[1]].content
        return {**content.fields(), **self._guid_of(content), **named}

    def by_guid(self, guid: str) -> dict[str, Any]:
        """The content of a GUID, whatever context it is in (`getSchemaByGuid`)."""
        for versions in self.subjects.values():
            for each in versions.values():
                if self.gives_guids and str(each.content.guid()) == guid:
                    return {**each.content.fields(), "guid": guid}
        raise RegistryRefusal(40403, f"Schema {guid} not found")

    def versions_of_id(
        self, schema_id: int, subject: str | None, *, deleted: bool
    ) -> list[dict[str, Any]]:
        """Versions that have the content of an id."""
        key = self._key(schema_id, subject)
        if key is None:
            raise RegistryRefusal(40403, "Schema not found")
        context = self.contexts[split(key[0])[0]]
        content = self.subjects[key[0]][key[1]].content
        found = context.by_id.get(context.by_content[content], {})
        return [
            {"subject": name, "version": number}
            for name, number in sorted(found.items())
            if deleted or not self.subjects[name][number].is_deleted
        ]

    def look_up(self, subject: str, body: dict[str, Any], *, deleted: bool) -> dict[str, Any]:
        """The version that has this content."""
        content = self._content(subject, body)
        for number in reversed(self._alive(subject, deleted=deleted)):
            entry = self.subjects[subject][number]
            if entry.content == content:
                return self._described(subject, number, entry)
        if not self._alive(subject, deleted=deleted):
            raise RegistryRefusal(40401, f"Subject '{subject}' not found.")
        raise RegistryRefusal(40403, "Schema not found")

    def is_compatible(self, subject: str, body: dict[str, Any]) -> bool:
        """Whether `register` would accept it."""
        content = self._content(subject, body)
        if not self._alive(subject, deleted=False):
            raise RegistryRefusal(40402, "Version latest not found.")
        try:
            self._check_compatibility(subject, content)
        except RegistryRefusal:
            return False
        return True

    # Writing

    def register(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """Register content under a subject (`KafkaSchemaRegistry.register`)."""
        if not subject.isprintable() or split(subject)[1] in ("__GLOBAL", "__EMPTY"):
            raise RegistryRefusal(42208, f"The specified subject '{subject}' is not a valid.")
        wanted_id, number = body.get("id", -1), body.get("version", 0)
        mode = self._check_mode(subject, wanted_id)
        content = self._content(subject, body)
        entries = self.subjects.get(subject, {})
        following = max(entries, default=0) + 1
        context = self.contexts.setdefault(split(subject)[0], Context())
        known = context.by_content.get(content)
        if known is not None and not context.by_id.get(known):
            known = None
        if known is not None and wanted_id in (-1, known):
            at = context.by_id[known].get(subject)
            if number == 0 and at in entries and not entries[at].is_deleted:
                return self._registered(subject, at, known, content)
            wanted_id = known
        if number == 0:
            for at in reversed(self._alive(subject, deleted=False)):
                same_id = wanted_id in (-1, entries[at].schema_id)
                if same_id and entries[at].content == content:
                    return self._registered(subject, at, entries[at].schema_id, content)
        if mode not in IMPORTING:
            self._check_compatibility(subject, content)
            if number > 0 and number != following:
                raise RegistryRefusal(42201, "Version is not one more than previous version")
        number = number if number > 0 else following
        if wanted_id >= 0:
            self._check_id(subject, wanted_id, content)
        else:
            wanted_id = context.id_max + 1
        for at, entry in list(entries.items()):
            if entry.is_deleted and entry.schema_id == wanted_id and at < number:
                self._drop(subject, at)
        self.subjects.setdefault(subject, {})[number] = Entry(wanted_id, content)
        context.by_id.setdefault(wanted_id, {})[subject] = number
        context.by_content[content] = wanted_id
        context.id_max = max(context.id_max, wanted_id)
        return self._registered(subject, number, wanted_id, content)

    def delete_version(self, subject: str, wanted: str, *, permanent: bool) -> int:
        """Soft-delete a version, or delete for good what is soft-deleted."""
        number = self._number(subject, wanted)
        entry = self.subjects.get(subject, {}).get(number)
        if entry is None:
            if not self._alive(subject, deleted=True):
                raise RegistryRefusal(40401, f"Subject '{subject}' not found.")
            raise RegistryRefusal(40402, f"Version {wanted} not found.")
        if entry.is_deleted and not permanent:
            raise RegistryRefusal(40406, f"Subject '{subject}' Version {number} was soft deleted.")
        self._check_writable(subject)
        self._check_unreferenced(subject, number, deleted=permanent, others_only=False)
        if not permanent:
            entry.is_deleted = True
        elif entry.is_deleted:
            self._drop(subject, number)
        else:
            raise RegistryRefusal(
                40407, f"Subject '{subject}' Version {number} was not deleted first"
            )
        return number

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Soft-delete all versions, or delete for good what is soft-deleted."""
        if not self._alive(subject, deleted=True):
            raise RegistryRefusal(40401, f"Subject '{subject}' not found.")
        if not permanent and not self._alive(subject, deleted=False):
            raise RegistryRefusal(40404, f"Subject '{subject}' was soft deleted.")
        self._check_writable(subject)
        numbers = self._alive(subject, deleted=permanent)
        for number in numbers:
            self._check_unreferenced(subject, number, deleted=permanent, others_only=True)
            if permanent and not self.subjects[subject][number].is_deleted:
                raise RegistryRefusal(40405, f"Subject '{subject}' was not deleted first")
        for number in reversed(numbers):
            if permanent:
                self._drop(subject, number)
            else:
                self.subjects[subject][number].is_deleted = True
        return numbers

    # Settings

    def level(self, subject: str | None, *, inherited: bool) -> str:
        """Compatibility of the registry, a context or a subject; 40408 without one of its own."""
        found = self._setting(self.levels, subject, self._level, inherited=inherited)
        if found is None:
            raise RegistryRefusal(
                40408, f"Subject '{subject}' does not have subject-level compatibility configured"
            )
        return found

    def set_level(self, subject: str | None, level: str) -> str:
        """Set a compatibility."""
        if level not in LEVELS:
            raise RegistryRefusal(42203, "Invalid compatibility level.")
        self._check_writable(subject)
        self.levels[subject] = level
        return level

    def clear_level(self, subject: str | None) -> str:
        """Take a compatibility away: what is above counts again."""
        self._check_writable(subject)
        return self._cleared(self.levels, subject, self._level)

    def clear_mode(self, subject: str | None) -> str:
        """Take a mode away."""
        if not self._modes_change:
            raise RegistryRefusal(42205, "Mode changes are not allowed")
        return self._cleared(self.modes, subject, "READWRITE")

    def mode(self, subject: str | None, *, inherited: bool) -> str:
        """Mode of the registry, a context or a subject; 40409 without one of its own."""
        found = self._setting(self.modes, subject, "READWRITE", inherited=inherited)
        if found is None:
            raise RegistryRefusal(
                40409, f"Subject '{subject}' does not have subject-level mode configured"
            )
        return found

    def set_mode(self, subject: str | None, mode: str, *, force: bool) -> str:
        """Set a mode; IMPORT without `force` only without subjects, and drops what is deleted."""
        if mode not in ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"):
            raise RegistryRefusal(42204, "Invalid mode.")
        if not self._modes_change:
            raise RegistryRefusal(42205, "Mode changes are not allowed")
        is_new = self._setting(self.modes, subject, "READWRITE", inherited=True) != "IMPORT"
        if mode == "IMPORT" and is_new and not force:
            concerned = [name for name in self.subjects if self._is_in(name, subject)]
            if any(self._alive(name, deleted=False) for name in concerned):
                raise RegistryRefusal(42205, "Cannot import since found existing subjects")
            for name in concerned:
                for number in self._alive(name, deleted=True):
                    self._check_unreferenced(name, number, deleted=True, others_only=False)
            for name in concerned:
                for number in self._alive(name, deleted=True):
                    self._drop(name, number)
        self.modes[subject] = mode
        return mode

    # Rules

    def _check_mode(self, subject: str, wanted_id: int) -> str:
        mode = self._setting(self.modes, subject, "READWRITE", inherited=True)
        self._check_writable(subject)
        if wanted_id >= 0 and mode not in IMPORTING:
            raise RegistryRefusal(42205, f"Subject {subject} is not in import mode")
        if wanted_id < 0 and mode != "READWRITE":
            raise RegistryRefusal(42205, f"Subject {subject} is not in read-write mode")
        assert mode is not None
        return mode

    def _check_writable(self, subject: str | None) -> None:
        if self._setting(self.modes, subject, "READWRITE", inherited=True) in READ_ONLY:
            raise RegistryRefusal(42205, f"Subject {subject} is in read-only mode")

    def _check_id(self, subject: str, schema_id: int, content: Content) -> None:
        key = self._key(schema_id, f":{split(subject)[0]}:")
        if key is not None and self.subjects[key[0]][key[1]].content != content:
            raise RegistryRefusal(
                42205, f"Overwrite new schema with id {schema_id} is not permitted."
            )

    def _check_compatibility(self, subject: str, content: Content) -> None:
        level = self._setting(self.levels, subject, self._level, inherited=True) or "NONE"
        before = [self.subjects[subject][at] for at in self._alive(subject, deleted=False)]
        if not level.endswith("_TRANSITIVE"):
            before = before[-1:]
        for entry in before:
            found = (
                ["TYPE_MISMATCH"]
                if entry.content.kind != content.kind
                else differences(level, entry.content.text, content.text)
                if content.kind == AVRO
                else []
            )
            if found and level != "NONE":
                raise RegistryRefusal(
                    40901, f"Schema being registered is incompatible with an earlier schema {found}"
                )

    def _check_unreferenced(
        self, subject: str, number: int, *, deleted: bool, others_only: bool
    ) -> None:
        for name, entries in self.subjects.items():
            for entry in entries.values():
                uses = {
                    (qualify(name, wanted), version)
                    for _, wanted, version in entry.content.references
                }
                counts = (deleted or not entry.is_deleted) and not (others_only and name == subject)
                if counts and (subject, number) in uses:
                    raise RegistryRefusal(42206, f"One or more references exist to {subject}")

    def _content(self, subject: str, body: dict[str, Any]) -> Content:
        kind = body.get("schemaType") or AVRO
        references = tuple(
            (each["name"], each["subject"], each["version"]) for each in body.get("references", ())
        )
        if kind not in TYPES:
            raise RegistryRefusal(42201, f"Invalid schema type {kind}")
        referenced = []
        for _, wanted, number in references:
            entry = self.subjects.get(qualify(subject, wanted), {}).get(number)
            if entry is None:
                raise RegistryRefusal(42201, f"No schema reference found for {wanted} {number}")
            referenced.append(entry.content.text)
        try:
            text = canonical(kind, body.get("schema") or "", referenced)
        except InvalidText as error:
            raise RegistryRefusal(42201, f"Invalid schema: {error}") from None
        kept = [json.dumps(body[name], sort_keys=True) if body.get(name) else "" for name in KEPT]
        return Content(kind, text, references, *kept)

    # State

    def _alive(self, subject: str, *, deleted: bool) -> list[int]:
        entries = self.subjects.get(subject, {})
        return sorted(at for at, entry in entries.items() if deleted or not entry.is_deleted)

    def _number(self, subject: str, wanted: str) -> int:
        if wanted in ("latest", "-1"):
            return max(self._alive(subject, deleted=False), default=0)
        if not wanted.isdigit() or not 1 <= int(wanted) < 2**31:
            raise RegistryRefusal(42202, f"The specified version '{wanted}' is not valid.")
        return int(wanted)

    def _key(self, schema_id: int, subject: str | None) -> tuple[str, int] | None:
        """A version that has the id (`getSchemaKeyUsingContexts`)."""
        context, name = split(subject)
        found = self._key_in(context, schema_id, subject if name else None)
        if found is not None or not name or context != ".":
            return found
        for other in self.contexts:
            if other != ".":
                found = self._key_in(other, schema_id, f":{other}:{name}")
                if found is not None:
                    return found
        return self._key_in(".", schema_id, None)

    def _key_in(self, context: str, schema_id: int, subject: str | None) -> tuple[str, int] | None:
        known = self.contexts[context].by_id.get(schema_id) if context in self.contexts else None
        if not known:
            return None
        if subject is None:
            return next(iter(known.items()))
        return (subject, known[subject]) if subject in known else None

    def _drop(self, subject: str, number: int) -> None:
        """Delete for good; content is forgotten by its id, not by its hash (`schemaTombstoned`)."""
        entry = self.subjects[subject].pop(number)
        known = self.contexts[split(subject)[0]].by_id
        if known.get(entry.schema_id, {}).get(subject) == number:
            del known[entry.schema_id][subject]
            if not known[entry.schema_id]:
                del known[entry.schema_id]
        if not self.subjects[subject]:
            del self.subjects[subject]
            self.modes.pop(subject, None)
            self.levels.pop(subject, None)

    def _setting(
        self, of: dict[str | None, str], subject: str | None, rest: str, *, inherited: bool
    ) -> str | None:
        if subject in of:
            return of[subject]
        if not inherited:
            return rest if subject is None else None
        context = split(subject)[0]
        above = None if context == "." else f":{context}:"
        return of.get(above) or of.get(GLOBAL) or rest

    def _cleared(self, of: dict[str | None, str], subject: str | None, rest: str) -> str:
        if subject is not None and subject not in of:
            raise RegistryRefusal(40401, f"Subject '{subject}' not found.")
        return of.pop(subject, rest)

    def _is_in(self, name: str, scope: str | None) -> bool:
        if scope is None or name == scope:
            return True
        context, rest = split(scope)
        return not rest and split(name)[0] == context

    def _described(self, subject: str, number: int, entry: Entry) -> dict[str, Any]:
        named = {"subject": subject, "version": number, "id": entry.schema_id}
        return {**named, **self._guid_of(entry.content), **entry.content.fields()}

    def _guid_of(self, content: Content) -> dict[str, str]:
        return {"guid": str(content.guid())} if self.gives_guids else {}

    def _registered(
        self, subject: str, number: int, schema_id: int, content: Content
    ) -> dict[str, Any]:
        assert self.subjects[subject][number].content == content
        named = {"id": schema_id, "version": number}
        return {**named, **self._guid_of(content), **content.fields()}
