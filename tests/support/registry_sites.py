"""Two registries that are doubles of Confluent's, and a link between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.registry_contract import record
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer

from heliostat.access import RegistryAccess
from heliostat.config import LinkConfig, SchemasConfig, TopicsConfig
from heliostat.link.schema_rules import rules_of
from heliostat.names import Alias, LinkName, TopicName
from heliostat.operate.subject_modes import change_modes, planned_modes
from heliostat.schemas import HttpRegistry
from heliostat.schemas.mirroring import MirroredSchemas, mirror_schemas
from heliostat.schemas.opening import OpeningPlan
from heliostat.schemas.registry.values import Schema

FOO = TopicName("foo")


@dataclass
class RegistrySite:
    """Two registries and a link between them; `foo` is the mirrored topic."""

    source: HttpRegistry
    target: HttpRegistry
    here: RegistryDouble
    there: RegistryDouble
    schemas: dict[str, Any] = field(default_factory=dict)
    mirrors: dict[TopicName, TopicName] = field(default_factory=lambda: {FOO: FOO})
    merges: bool = False

    @property
    def link(self) -> LinkConfig:
        settings = SchemasConfig(**{"strategy": "preserve", **self.schemas})
        return LinkConfig(
            name=LinkName("l"),
            source=Alias("summit"),
            target=Alias("usdf"),
            topics=TopicsConfig(naming="merge" if self.merges else "same"),
            schemas=settings,
        )

    def register(self, subject: str, schema: Schema | None = None, *, there: bool = False) -> int:
        """What a producer of either side does."""
        schema = schema or record()
        references = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in schema.references
        ]
        double = self.there if there else self.here
        body = {"schema": schema.text, "references": references}
        number: int = double.register(subject, body)["id"]
        return number

    def mirror(self) -> MirroredSchemas:
        """A turn of the link."""
        rules = rules_of(self.link, self.mirrors, self.mirrors)
        return mirror_schemas(self.source, self.target, rules)

    def plan(self, *, opens: bool) -> OpeningPlan:
        topics = {*self.mirrors.values(), TopicName("local")}
        source = None if opens else self.source
        return planned_modes(self.link, self.mirrors, topics, self.target, source)

    def change(self, *, opens: bool) -> OpeningPlan:
        return change_modes(self.plan(opens=opens), self.target)


@contextmanager
def registry_site() -> Iterator[RegistrySite]:
    with (
        RegistryServer() as one,
        RegistryServer() as other,
        HttpRegistry(RegistryAccess((one.url,))) as source,
        HttpRegistry(RegistryAccess((other.url,))) as target,
    ):
        yield RegistrySite(source, target, one.double, other.double)
