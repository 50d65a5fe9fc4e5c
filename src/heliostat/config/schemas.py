"""Settings of a link's schemas, see `heliostat.schemas`."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from heliostat.config.frozen import Frozen
from heliostat.config.patterns import Patterns

_CONTEXT = re.compile(r"\.[A-Za-z0-9_-][A-Za-z0-9._-]*")
_ALL_CONTEXTS = ".__GLOBAL"
"""Confluent's registry keeps the settings for all contexts there (`QualifiedSubject`)."""


def _check_context(name: str) -> str:
    if not _CONTEXT.fullmatch(name):
        raise ValueError("must be a dot and a name of a-z A-Z 0-9 . _ -, such as .summit")
    if name == _ALL_CONTEXTS:
        raise ValueError("registries keep their own settings in this context")
    return name


class SchemasConfig(Frozen):
    """Schemas: from the source's registry to the target's, before the records that need them."""

    strategy: Annotated[
        Literal["off", "preserve", "isolate", "rewrite"], Field(title="Strategy")
    ] = "off"
    """`off`: no schemas are mirrored. `preserve`: same subjects, ids and versions; the target's
    registry must take ids (its mode IMPORT), and where a topic is renamed, its subjects are as
    well. `isolate`: the same in a context of its own at the target. `rewrite`: any registry; it
    gives ids of its own, which are put into the records."""
    context: Annotated[
        Annotated[str, AfterValidator(_check_context)] | None, Field(title="Context")
    ] = None
    """For `isolate`: the context at the target, such as `.summit`; null = a dot and the alias of
    the source."""
    include: Annotated[Patterns, Field(title="Include")] = (".*",)
    """Names or regular expressions of subjects that are named after no topic of the source (record
    names). Those named after mirrored topics are always mirrored unless excluded, those named after
    other topics never."""
    exclude: Annotated[Patterns, Field(title="Exclude")] = ()
    """Names or regular expressions of subjects; wins over `include` and over names of topics. What
    a mirrored schema refers to is mirrored in any case."""
    compatibility: Annotated[Literal["none", "carry"], Field(title="Compatibility")] = "none"
    """`none`: mirrored subjects keep what is set at the target, as in mode IMPORT a registry
    compares nothing; with `rewrite` those that the link makes get NONE. `carry`: they get the
    source's setting, unless they have versions of others; it costs some requests a subject each
    time."""
    keep_names: Annotated[bool, Field(title="Keep names")] = False
    """Whether subjects that are renamed with their topics are also there under their own names."""
    framed: Annotated[Patterns, Field(title="Framed topics")] = ()
    """Names or regular expressions of source topics whose values always begin with a schema id.
    Topics that have a subject named after them count as such by themselves. In all others a value
    with an unknown id is held only if the source's registry has that id; with `rewrite` also one
    with a known id, as it may be none."""
    plain: Annotated[Patterns, Field(title="Plain topics")] = ()
    """Names or regular expressions of source topics whose values never begin with a schema id,
    whatever the subjects are; `framed` wins."""
    interval_s: Annotated[float, Field(title="Interval", ge=0.5, le=3600)] = 30
    """Seconds between two comparisons of both registries; a record with an unknown id asks for one
    at once."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.context is not None and self.strategy != "isolate":
            raise ValueError("context only with strategy isolate")
        return self
