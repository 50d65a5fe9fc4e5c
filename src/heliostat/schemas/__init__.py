"""Schemas of the source's registry at the target's: observe both, plan, apply."""

from heliostat.schemas.apply import AppliedSchemas, apply_schemas, unresolved
from heliostat.schemas.content import RegistryContent
from heliostat.schemas.naming import SubjectNaming
from heliostat.schemas.observe import observe_registry
from heliostat.schemas.plan import plan_schemas
from heliostat.schemas.registry import HttpRegistry
from heliostat.schemas.schema_plan import SchemaPlan, SchemaRules, Strategy
from heliostat.schemas.status import SchemaRow, schema_rows, verify_ids

__all__ = [
    "AppliedSchemas",
    "HttpRegistry",
    "RegistryContent",
    "SchemaPlan",
    "SchemaRow",
    "SchemaRules",
    "Strategy",
    "SubjectNaming",
    "apply_schemas",
    "observe_registry",
    "plan_schemas",
    "schema_rows",
    "unresolved",
    "verify_ids",
]
