"""A drill on real clusters: the real link is only read, all else has the drill's own names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.config import Config, ConfigFile, LinkConfig
from heliostat.errors import BrokerError, Refused
from heliostat.handover.drill import Came, DrillLook, DrillNote, DrillWish, Way
from heliostat.handover.drill_report import Size
from heliostat.operate.drilling import cleaning
from heliostat.operate.drilling.drill_links import drill_config, not_rehearsed
from heliostat.operate.drilling.moves import Moves, await_
from heliostat.operate.drilling.notes import DrillNotes
from heliostat.operate.drilling.rights import missing_rights
from heliostat.operate.groups import group_views
from heliostat.operate.status import link_picture
from heliostat.state.link_state import LinkState

CLIENT_ID = "heliostat-drill"
KNOWN_WITHIN_S = 60.0


class ClusterDesk:
    """The `DrillDesk` of a link's clusters. For one thread.

    Parameters
    ----------
    file, link
        The configuration, and the real link, which is only read.
    drawn
        Letters drawn for this drill.
    notes
        The link's drills.
    folder
        For the configuration and the log of the drill's links.
    """

    def __init__(  # noqa: PLR0917 - what is drilled, and where its notes and files are
        self,
        file: ConfigFile,
        link: LinkConfig,
        wish: DrillWish,
        drawn: str,
        notes: DrillNotes,
        folder: Path,
    ) -> None:
        self._file = file
        self._link = link
        # A link of the home is not in the file.
        self._real = file.config.model_copy(update={"links": (link,)})
        self._wish = wish
        self._drawn = drawn
        self._notes = notes
        self._folder = folder
        self._clock = SystemClock()
        self._note: DrillNote | None = None
        self._moves: Moves | None = None
        self._factor = -1

    def wall_ms(self) -> int:
        """Return the wall clock."""
        return self._clock.wall_ms()

    def monotonic_s(self) -> float:
        """Return a clock that never jumps."""
        return self._clock.monotonic_s()

    def look(self) -> DrillLook:
        """Look at the real link, and at what its principals may do."""
        link, clusters = self._link, self._file.config.clusters
        with ExitStack() as stack:
            source, target = (
                stack.enter_context(ClusterAdmin(clusters[alias].access(), CLIENT_ID))
                for alias in (link.source, link.target)
            )
            with closing(LinkState(link, clusters[link.target])) as state:
                names = state.read().mirrors
            infos = [info for info in source.describe_topics(names).values() if not info.error]
            factors = Counter(len(info.partitions[0].replicas) for info in infos)
            self._factor = factors.most_common(1)[0][0] if factors else -1
            missing = tuple(
                missing_rights(
                    (link.source, source),
                    (link.target, target),
                    self._drawn,
                    syncs_groups=link.groups.sync,
                )
            )
        status = link_picture(self._real, link).status
        size = Size(
            sum(len(info.partitions) for info in infos),
            len(infos),
            self._real_groups(),
            max(0, status.lag_records or 0),
        )
        return DrillLook(size, missing, not_rehearsed(link))

    def _real_groups(self) -> int:
        if not self._link.groups.sync:
            return 0
        [views] = group_views(self._real, self._link.name)
        return sum(bool(view.rows) for view in views.groups)

    def left_behind(self) -> Sequence[DrillNote]:
        """Return the notes of drills that have not ended."""
        return self._notes.left_behind()

    def existing(self, note: DrillNote) -> Sequence[str]:
        """Return which of the names are there already."""
        return cleaning.existing(self._config_of(note), note)

    def write(self, note: DrillNote) -> None:
        """Write a note."""
        self._notes.write(note)
        self._note = note

    def make_topics(self, note: DrillNote) -> Came:
        """Make the topics at the source."""
        rows = [NewTopic(name, count, self._factor, {}) for name, count in note.topics.items()]
        source = self._file.config.clusters[self._link.source]
        with ClusterAdmin(source.access(), CLIENT_ID) as admin:
            for error in admin.create_topics(rows).values():
                if isinstance(error, BrokerError):
                    raise error
            await_(
                lambda: all(
                    not info.error and all(part.leader is not None for part in info.partitions)
                    for info in admin.confirm_topics(note.topics).values()
                ),
                KNOWN_WITHIN_S,
                "the topics are not known to all brokers",
            )
            for broker, may in admin.may_write(note.topics).items():
                if isinstance(may, Mapping) and False in may.values():
                    text = f"Write on topics drill-* is missing at broker {broker} of the source"
                    raise Refused(text, hint="`heliostat acls --switch` prints what is needed")
        return Came(f"{len(note.topics):,} topics, {note.partitions:,} partitions")

    def start_link(self, note: DrillNote, way: Way, *, groups: bool) -> Came:
        """Start the link, producers and readers where it begins, and wait until it copies."""
        has_groups = groups and self._link.groups.sync
        config, text = drill_config(self._file, self._link, note)
        path = self._folder / "drill.yaml"
        path.write_text(text, encoding="utf-8")
        self._moves = Moves(config, path, note, self._wish, has_groups=has_groups)
        return self._moves.start(way)

    def go_back(self, note: DrillNote) -> Came:
        """Begin a switch of the first topic, leave it behind, and take it back."""
        return self._of(note).go_back()

    def switch(self, note: DrillNote, way: Way) -> Came:
        """Switch, move producers and readers, and count."""
        return self._of(note).switch(way)

    def reverse(self, note: DrillNote, way: Way) -> Came:
        """Have the link of that way go on where the other gave its mirrors away."""
        return self._of(note).reverse(way)

    def fail_over(self, note: DrillNote) -> Came:
        """Cut the link off from its source, and fail over."""
        return self._of(note).fail_over()

    def _of(self, note: DrillNote) -> Moves:
        assert self._moves is not None
        assert self._note == note
        return self._moves

    def stop(self) -> None:
        """End producers, readers and the driver."""
        if self._moves is not None:
            self._moves.stop()

    def await_no_owner(self, note: DrillNote) -> None:
        """Wait until nobody runs the drill's links; of our own it is known."""
        if self._note != note:
            cleaning.await_no_owner(self._config_of(note), note)

    def lift_rules(self, note: DrillNote) -> None:
        """Lift rules that its links have laid."""
        cleaning.lift_rules(self._config_of(note), note)

    def delete_groups(self, note: DrillNote) -> None:
        """Delete its groups, on both sides."""
        cleaning.delete_groups(self._config_of(note), note)

    def delete_topics(self, note: DrillNote) -> None:
        """Delete its topics, on both sides."""
        cleaning.delete_topics(self._config_of(note), note)

    def forget(self, note: DrillNote) -> None:
        """Remove its row."""
        self._notes.forget(note)

    def _config_of(self, note: DrillNote) -> Config:
        return drill_config(self._file, self._link, note)[0]
