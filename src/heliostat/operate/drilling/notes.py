"""Which drills there are: rows at the link's target, in a topic that goes with the last of them.

drill/ID         what it makes, written before anything of it
drill/ID/beats   a number that the drill's process raises: it is under way
"""

from __future__ import annotations

import threading
from contextlib import suppress

from heliostat.access import Reachable
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.config import STATE_TOPIC_PREFIX, LinkConfig
from heliostat.errors import BrokerError, HeliostatError, Refused
from heliostat.handover.drill import DrillNote
from heliostat.names import LinkName, TopicName

CLIENT_ID = "heliostat-drill"
BEAT_S, QUIET_S, LOOK_S = 2.0, 8.0, 1.0
"""A drill whose process says nothing for so long has crashed."""


def drills_topic(link: LinkName) -> TopicName:
    """Name of the topic of rows."""
    return TopicName(f"{STATE_TOPIC_PREFIX}{link}.drills")


class DrillNotes:
    """The rows of one link. For one thread."""

    def __init__(self, link: LinkConfig, target: Reachable) -> None:
        self._link = link
        self._target = target
        self.topic = drills_topic(LinkName(link.name))
        self._rows = KeyedTopic(target, self.topic, CLIENT_ID)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """Stop to say that a drill is under way, and close the connections."""
        self.rest()
        self._rows.close()

    def rest(self) -> None:
        """Say no more that a drill is under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def left_behind(self) -> list[DrillNote]:
        """Return the notes there are.

        Raises
        ------
        Refused
            One is of a drill that is under way.
        ProtocolError
            Somebody else wrote there.
        """
        rows = self._rows.read_all()
        notes = [DrillNote.from_json(row) for key, row in rows.items() if not _is_beat(key)]
        clock, before = SystemClock(), _beats(rows)
        until_s = clock.monotonic_s() + (QUIET_S if notes else 0.0)
        while clock.monotonic_s() < until_s:
            clock.sleep(LOOK_S)
            rows = self._rows.read_all()
            for note in notes:
                if _key(note) in rows and _beats(rows).get(note.id) != before.get(note.id):
                    raise Refused(
                        f"drill {note.id} of this link is under way, begun by {note.by}",
                        hint="let it end; it removes all that it has made",
                    )
        return [note for note in notes if _key(note) in rows]

    def write(self, note: DrillNote) -> None:
        """Write a note, and say from now on that its drill is under way."""
        self._rows.ensure(self._link.state.replication_factor)
        self._rows.write(_key(note), note.to_json())
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._beat, args=(note,), name=f"drill {note.id}", daemon=True
        )
        self._thread.start()

    def forget(self, note: DrillNote) -> None:
        """Remove a row, and the topic if no other is there."""
        self.rest()
        rows = self._rows.read_all()
        self._rows.write_many({_beats_key(note): None, _key(note): None})
        if rows.keys() - {_key(note), _beats_key(note)}:
            return
        with ClusterAdmin(self._target, CLIENT_ID) as admin:
            error = admin.delete_topics([self.topic])[self.topic]
        if error is not None and error.kafka_code != UNKNOWN_TOPIC_OR_PARTITION:
            raise BrokerError(
                f"topic {self.topic} can't be deleted; it holds no rows any more",
                kafka_code=error.kafka_code,
            )

    def _beat(self, note: DrillNote) -> None:
        beats = 0
        while not self._stop.wait(BEAT_S):
            beats += 1
            with suppress(HeliostatError):
                self._rows.write(_beats_key(note), {"beats": beats})


def _key(note: DrillNote) -> str:
    return f"drill/{note.id}"


def _beats_key(note: DrillNote) -> str:
    return f"drill/{note.id}/beats"


def _is_beat(key: str) -> bool:
    return key.endswith("/beats")


def _beats(rows: dict[str, dict[str, object]]) -> dict[str, object]:
    return {key.split("/")[1]: row.get("beats") for key, row in rows.items() if _is_beat(key)}
