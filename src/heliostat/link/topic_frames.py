"""What of topics' records begins with a schema id, by the subjects that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heliostat.link.wanted_ids import SureIds
from heliostat.names import TopicName
from heliostat.records.copier.lane import SchemaFrames

Frames = Mapping[TopicName, SchemaFrames]
"""By source topic."""
NO_TOPICS: Frames = {}


class TopicFrames:
    """What is known now, and which ids lanes miss that know it.

    Parameters
    ----------
    frames
        What an earlier driver has found out, where ids are replaced.
    sure
        Ids that lanes wait for which know the newest frames.
    reframed
        Called with what is new, to be remembered and planned.
    """

    def __init__(self, frames: Frames, sure: SureIds, reframed: Callable[[Frames], None]) -> None:
        self.known = frames
        """Never modified in place."""
        self.sure = sure
        self._reframed = reframed

    def take(self, frames: Frames) -> None:
        """Take what was found out now.

        Raises
        ------
        ConnectionLost, BrokerError
            It can't be remembered; the next turn tells it.
        """
        if frames == self.known:
            return
        was, self.known = self.known, frames
        self.sure.changed()
        try:
            self._reframed(frames)  # until then values wait that may begin with an id
        except BaseException:
            self.known = was
            raise

    def sure_ids(self, frames: Frames) -> frozenset[int]:
        """Return ids that lanes miss which know that frames are these."""
        return self.sure.known() if frames == self.known else frozenset()
