"""Schemas of the source's registry at the target's: observe both, plan, apply."""

from heliostat.schemas.apply import AppliedSchemas, apply, unresolved
from heliostat.schemas.content import RegistryContent
from heliostat.schemas.naming import SubjectNaming
from heliostat.schemas.observe import observe
from heliostat.schemas.plan import plan_schemas
from heliostat.schemas.registry import HttpRegistry
from heliostat.schemas.schema_plan import SchemaPlan, SchemaRules, Strategy

__all__ = [
    "AppliedSchemas",
    "HttpRegistry",
    "RegistryContent",
    "SchemaPlan",
    "SchemaRules",
    "Strategy",
    "SubjectNaming",
    "apply",
    "observe",
    "plan_schemas",
    "unresolved",
]
