"""What the link of a connector copies, and how it calls that; pure.

A link's state names its mirrors. Where a connector is given another alias, separator or policy,
what it copies is called otherwise, and becomes another link, as MirrorMaker 2 begins topics beside
the old ones. A link's name stands for one way of naming for good, also when its connector has gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from heliostat.config import LinkConfig
from heliostat.names import Alias, LinkName


@dataclass(frozen=True, slots=True)
class LinkCopies:
    """From where to where, and under which names."""

    source: Alias
    target: Alias
    names: str
    """Format of mirrors' names, with `${topic}` in it."""

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        """Return it of what `links:` has of a valid link."""
        return cls.of_link(LinkConfig.model_validate({**content, "name": "any"}))

    @classmethod
    def of_link(cls, link: LinkConfig) -> Self:
        """Return it of a link."""
        names = link.topics.name_format().replace("${source}", link.source)
        return cls(link.source, link.target, names)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from what `to_json` returned; an absent field is empty, and equals no other."""
        fields = (str(value.get(key, "")) for key in ("source", "target", "names"))
        source, target, names = fields
        return cls(Alias(source), Alias(target), names)

    def to_json(self) -> dict[str, Any]:
        """Return it for a row."""
        return {"source": self.source, "target": self.target, "names": self.names}

    def words(self) -> str:
        """Return it for people."""
        return f"{self.source} to {self.target} as {self.names}"


Copies = Mapping[LinkName, LinkCopies]
"""What links of connectors copy, or did."""
