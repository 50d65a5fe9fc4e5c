"""Finds the record at which a pipeline fails, from rounds that failed.

A pipeline that fails ends its whole task, and Spark's error does not name the record. So the lane's
next round is careful: few records are in the pipeline at a time, and each time it reports which
before they go in (`transport.row_exchange`). If it fails again, it fails at one of those; the round
after it takes them one by one. What a round failed at alone is where its partition stops.

In memory only: another driver finds the record again in a few rounds. Meanwhile the stop in the
link's state shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from heliostat.link.shared_lanes import SharedLanes, Together
from heliostat.names import LaneId, TopicId, TopicPartition, is_another
from heliostat.records.copier.blame import Blame
from heliostat.records.copier.lane import LaneSpec, PartitionSpec, RoundReport, Suspect
from heliostat.records.copier.pipeline_steps import Pipeline

CAREFUL = (0, 64, 1)
"""Records in the pipeline at a time: at first without limit, after each failure fewer."""
REASON_CHARACTERS_MAX = 300
CRASHES = 3
"""How often a round must end without a reason at one record before that is to blame."""


@dataclass(slots=True)
class _Lane:
    level: int = 0
    round_id: str = ""
    suspect: Suspect | None = None
    crashed_at: Suspect | None = None
    crashes: int = 0
    """How many rounds in a row have crashed at that record, alone."""
    blind: int = 0
    """How often in a row rounds have failed although they were careful, without any record."""
    found: bool = False
    """Whether a record was found in it: others that fail are looked for one by one at once."""


class PipelineFaults:
    """What is known of the pipelines of one link. Thread-safe.

    Parameters
    ----------
    pipelines
        The link's pipelines by name.
    refused
        Why Spark refuses some of them, by name.
    is_short
        Whether there are too few places for a lane of each pipeline.
    """

    def __init__(
        self,
        pipelines: dict[str, Pipeline],
        refused: dict[str, str],
        is_short: Callable[[], bool] = lambda: False,
    ) -> None:
        self._shared = SharedLanes(is_short)
        self._pipelines = pipelines
        self._refused = refused
        self._lock = threading.Lock()
        self._lanes: dict[LaneId, _Lane] = {}
        self._fails: dict[TopicPartition, tuple[TopicId | None, int, str]] = {}
        """Id of the source's topic, offset, and why."""
        self._specs: dict[TopicPartition, PartitionSpec] = {}
        """What lanes copy through a pipeline."""

    def learn(self, pipelines: Mapping[str, Pipeline], refused: Mapping[str, str]) -> None:
        """Take pipelines that know more schemas, and why Spark refuses some of them now."""
        with self._lock:
            self._pipelines = {**self._pipelines, **pipelines}
            left = {name: why for name, why in self._refused.items() if name not in pipelines}
            self._refused = {**left, **refused}

    def pipeline(self, name: str) -> Pipeline | None:
        """Return the pipeline of this name; None if it can't be run."""
        with self._lock:
            return None if name in self._refused else self._pipelines.get(name)

    def together(self) -> Together:
        """Return the pipelines that share lanes from now on."""
        with self._lock:
            usable = [each for name, each in self._pipelines.items() if name not in self._refused]
            return self._shared.look(usable)

    def lane_pipeline(self, names: Collection[str]) -> Pipeline | None:
        """Return what the records of a lane go through that has these pipelines' topics."""
        with self._lock:
            wanted = self._shared.with_others(names)
            found = [
                each
                for name, each in self._pipelines.items()
                if name in wanted and name not in self._refused
            ]
        if len(wanted) > 1 and found:
            limit_s = max(each.timeout_s for each in found)
            return Pipeline(f"{len(found)} pipelines", (), limit_s, tuple(found))
        return found[0] if found else None

    def has_changed(self, pipeline: Pipeline) -> bool:
        """Whether a pipeline that a round began with is another one now, or refused."""
        return any(self.pipeline(each.name) != each for each in pipeline.members or (pipeline,))

    def careful(self, lane: LaneId) -> int:
        """Return how many records the lane's next round may have in its pipeline at a time."""
        with self._lock:
            found = self._lanes.get(lane)
            return CAREFUL[found.level] if found else 0

    def marked(
        self, specs: Mapping[TopicPartition, PartitionSpec]
    ) -> Mapping[TopicPartition, PartitionSpec]:
        """Return the specifications, with those marked whose pipeline fails."""
        if not self._pipelines:
            return specs
        with self._lock:
            fails, refused = dict(self._fails), self._refused
            self._specs = {at: spec for at, spec in specs.items() if spec.pipeline}
        found = dict(specs)
        for source, spec in specs.items():
            if spec.pipeline in refused:
                found[source] = replace(spec, why_fails=refused[spec.pipeline])
            elif spec.pipeline and source in fails:
                topic_id, offset, why = fails[source]
                if not is_another(topic_id, spec.source_topic_id):
                    found[source] = replace(spec, fails_at=offset, why_fails=why)
        return found

    def heard(self, report: RoundReport) -> None:
        """Take what a careful round says is alone in its pipeline."""
        with self._lock:
            found = self._lanes.get(report.lane)
            if found is not None:
                if found.suspect is not None and report.suspect is None:
                    found.level, found.found = 0, False  # it is past what the last round failed at
                found.round_id = f"{report.lane}/{report.generation}/{report.round_number}"
                found.suspect = report.suspect
                found.blind = 0

    def failed(self, lane: LaneSpec, blame: Blame, error: str) -> bool:
        """Take the failure of a lane's round; it may have been alone with one record.

        Returns whether more is known now: then there is nothing to wait for before the next round.

        Parameters
        ----------
        lane
            What the round began with.
        blame
            What the classes of its error say.
        error
            The error in words: shown, and never searched, as a record may be in it.
        """
        pipeline = lane.row_pipeline
        if pipeline is None or blame is Blame.NONE:
            return False
        with self._lock:
            found = self._lanes.setdefault(lane.lane, _Lane())
            suspect = found.suspect if found.round_id == lane.round_id else None
            found.suspect = None
            before = found.level
            if pipeline.members:
                self._part_from(found, suspect, blame)
            if suspect is None:
                found.level = 2 if found.found else 1
            elif suspect.before - suspect.first > 1 or self._may_be_killed(found, suspect, blame):
                found.level = 2
            else:
                found.level, found.found = 0, True
                spec = self._specs.get(suspect.source)
                name = spec.pipeline if spec and pipeline.members else pipeline.name
                why = f"pipeline {name} fails at source offset {suspect.first}: "
                topic_id = spec.source_topic_id if spec else None
                self._fails[suspect.source] = topic_id, suspect.first, why + _first_line(error)
                return True
            return found.level > before

    def forget(self, source: TopicPartition) -> None:
        """Forget where a partition's pipeline fails: it is tried again, or has passed that."""
        with self._lock:
            self._fails.pop(source, None)

    def _part_from(self, lane: _Lane, suspect: Suspect | None, blame: Blame) -> None:
        """Give the pipeline that fails a lane of its own, or all of them if none is found."""
        if suspect is not None:
            spec = self._specs.get(suspect.source)
            if blame is Blame.RECORD and spec is not None:
                self._shared.part_from(spec.pipeline)
            return
        lane.blind += 1
        if lane.blind >= CRASHES:
            self._shared.part()

    @staticmethod
    def _may_be_killed(lane: _Lane, suspect: Suspect, blame: Blame) -> bool:
        """Whether the record is not to blame yet: its worker may have been killed, or slow."""
        is_same = suspect == lane.crashed_at
        lane.crashes = lane.crashes + 1 if is_same else 1
        lane.crashed_at = suspect
        return blame is Blame.UNSURE and lane.crashes < CRASHES


def _first_line(error: str) -> str:
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return (lines[0] if lines else "")[:REASON_CHARACTERS_MAX]
