"""The step of a pipeline that knows fields of Avro records, and the schemas that it needs."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.records.copier.field_changes import FieldChanges


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema that records of a pipeline may have, as its steps need it.

    Parameters
    ----------
    schema_id
        Its id at the source.
    text
        Avro's JSON, with all types that it uses.
    reader
        The schema that its records are read as (Avro's schema resolution), as JSON.
    problem
        Not empty: why its records can't be decoded or changed; the pipeline fails at them.
    target_id
        The id of what the step makes of it, in the target's registry; -1: it makes nothing new.
    """

    schema_id: int
    text: str = ""
    reader: str = ""
    problem: str = ""
    target_id: int = -1


@dataclass(frozen=True, slots=True)
class AvroFields(FieldChanges):
    """A step of a pipeline: changes fields of framed Avro records that are keys or values.

    A new field's type is in `casts`. Without a change of fields, records stay byte for byte what
    they were.
    """

    reader: str = ""
    """The schema that records are read as; empty: the newest version of their subject."""
    schemas: tuple[AvroSchema, ...] = ()
    """Those that are known: the driver asks the registry (docs/adr/0026)."""

    @property
    def rewrites(self) -> bool:
        """Whether records come out with another schema."""
        changes = (self.columns, self.casts, self.masks, self.renames, self.drops, self.flattens)
        return any((*changes, self.extracts, self.hoists))

    @property
    def decodes(self) -> bool:
        """Whether it needs the fields' contents."""
        return bool(
            self.where or self.columns or self.casts or self.header_fields or self.key_fields
        )
