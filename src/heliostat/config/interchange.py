"""Settings of what a link writes for MirrorMaker 2's clients; by default it writes none of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from heliostat.config.frozen import Frozen

REPLICATION_FACTOR_LIMIT = 32_767  # an int16 on the wire


class HeartbeatsConfig(Frozen):
    """Heartbeats, as MirrorMaker 2 writes them."""

    emit: Annotated[bool, Field(title="Emit")] = False
    """Write a heartbeat into topic `heartbeats` of the source, mirror it, and report its age at the
    target. Off by default, as a link otherwise writes nothing to its source and needs no right to
    do so."""
    mirror: Annotated[bool, Field(title="Mirror")] = False
    """Mirror the source's heartbeats topics as `<source>.heartbeats`, whoever writes them and
    whatever the naming, also those from clusters further upstream. `emit` implies it."""
    at_target: Annotated[bool, Field(title="At the target")] = False
    """Write a heartbeat into topic `heartbeats` of the target as well, where MirrorMaker 2 writes
    its own. It tells that the driver reaches the target, and nothing of the way in between."""
    interval_s: Annotated[float, Field(title="Interval", ge=0.1, le=3600)] = 1
    """Seconds between two heartbeats."""
    replication_factor: Annotated[
        int | None, Field(title="Replication factor", ge=1, le=REPLICATION_FACTOR_LIMIT)
    ] = None
    """Of `heartbeats`, if it must be created; null = 3, but not more than there are brokers."""

    @property
    def are_mirrored(self) -> bool:
        """Whether heartbeats topics are selected."""
        return self.emit or self.mirror


class CheckpointsConfig(Frozen):
    """Checkpoints: where groups resume at the target, as MirrorMaker 2 writes them."""

    emit: Annotated[bool, Field(title="Emit")] = False
    """Write `<source>.checkpoints.internal` at the target, for Java's `MirrorClient`: for the
    groups that `groups` selects, even if their offsets are not published (`groups.sync`).
    Consumers that move to the target don't need it."""
    replication_factor: Annotated[
        int | None, Field(title="Replication factor", ge=1, le=REPLICATION_FACTOR_LIMIT)
    ] = None
    """Of the topic; null = 3, but not more than the target has brokers."""


class OffsetSyncsConfig(Frozen):
    """Offset syncs, from which MirrorMaker 2 translates offsets if it takes over."""

    emit: Annotated[bool, Field(title="Emit")] = False
    """Write `mm2-offset-syncs.<other alias>.internal`."""
    location: Annotated[Literal["target", "source"], Field(title="Location")] = "target"
    """Which cluster holds them: `offset-syncs.topic.location` of MirrorMaker 2, whose default is
    `source`. With `source`, a link needs the right to write to its source."""
    interval_s: Annotated[float, Field(title="Interval", ge=1, le=86_400)] = 60
    """Seconds between two checks of what was copied."""
    replication_factor: Annotated[
        int | None, Field(title="Replication factor", ge=1, le=REPLICATION_FACTOR_LIMIT)
    ] = None
    """Of the topic; null = 3, but not more than there are brokers."""
