"""An operator who pauses, limits, prefers, restarts and changes links while other things happen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from support.clusters import until
from support.command import heliostat

from heliostat.clusters.acl import AclRule, Operation, ResourceKind
from heliostat.config import LinkConfig, load_config
from heliostat.names import TopicName
from heliostat.operate.levels import Asked, LevelAnswer, limit, prefer
from heliostat.operate.orders import order_restart
from heliostat.operate.wishes import WishAnswer, make_wish
from heliostat.records.copier.lane_limits import Priority
from heliostat.wishes.wish import WishedState
from heliostat_sandbox import Cluster

BY = "operator"
LIMIT = 20_000
"""Bytes a second: less than the load of a link."""
DONE_WITHIN_S = 90.0


class Operator:
    """Steers all links of a configuration; each verb is asked as the command line does.

    Parameters
    ----------
    config
        The configuration file; it is left as it was.
    said
        Returns what the driver has logged.
    topics
        Two topics of each link, to be paused and preferred.
    """

    def __init__(
        self, config: Path, said: Callable[[], str], topics: dict[str, tuple[str, str]]
    ) -> None:
        self._file = config
        self._said = said
        self._topics = topics

    def burden(self) -> None:
        """Wish all kinds of things of each link; not waited for."""
        config = load_config(self._file)
        asked = Asked(BY, "a trial", within_s=0.0)
        for link in config.links:
            paused, preferred = self._topics[link.name]
            pause = WishedState.PAUSED
            make_wish(config, link, pause, [paused, f"{preferred}-0"], by=BY, within_s=0.0)
            limit(config, link, LIMIT, asked=asked)
            limit(config, link, LIMIT, [preferred], asked=asked)
            prefer(config, link, [preferred], Priority.HIGH, asked=asked)
            order_restart(config, link, by=BY, within_s=0.0)

    def stop_and_start(self) -> None:
        """Stop each link as a whole, and let it go on; whether it is running at all or not."""
        config = load_config(self._file)
        for state in (WishedState.STOPPED, WishedState.RUNNING):
            for link in config.links:
                make_wish(config, link, state, by=BY, within_s=0.0)

    def change(self) -> None:
        """Change the file, in fields that take effect at once and in some for which links begin

        anew, and change it back; wait until each is told.
        """
        before = self._file.read_text()
        count = self._said().count
        for number, refresh_s in ((1, 2), (2, 1)):
            wanted: dict[str, Any] = yaml.safe_load(before)
            for link in wanted["links"]:
                link["topics"]["refresh_interval_s"] = refresh_s
                link["records"] = {"in_flight_max": 4} if number == 1 else {}
            text = before if number == 2 else yaml.safe_dump(wanted, sort_keys=False)
            self._file.write_text(text)
            words = "topics.refresh_interval_s " + ("1 → 2" if number == 1 else "2 → 1")
            until(partial(self._tells_more, words, count(words)), self._said, 60.0)

    def relieve(self) -> None:
        """Take back what was wished, and wait until each link has done so."""
        config = load_config(self._file)
        for link in config.links:
            until(partial(self._is_free, link), self._said, DONE_WITHIN_S)

    def _tells_more(self, words: str, count: int) -> bool:
        return self._said().count(words) > count

    def _is_free(self, link: LinkConfig) -> bool:
        config = load_config(self._file)
        paused, preferred = self._topics[link.name]
        run, asked = WishedState.RUNNING, Asked(BY, within_s=5.0)
        answers: list[WishAnswer | LevelAnswer] = [
            make_wish(config, link, run, by=BY, within_s=5.0),
            make_wish(config, link, run, [paused, f"{preferred}-0"], by=BY, within_s=5.0),
            limit(config, link, None, asked=asked),
            limit(config, link, None, [preferred], asked=asked),
            prefer(config, link, [preferred], Priority.NORMAL, asked=asked),
        ]
        return all(each.is_done for each in answers)


def steer_with_least_rights(target: Cluster, config: Path, user: str, link: str) -> None:
    """Give a user what steering needs, and no more; pause, limit and resume as that user.

    Parameters
    ----------
    config
        By which the user connects to the target.
    """
    wishes, progress = (
        TopicName(f"heliostat.{link}.wishes"),
        TopicName(f"heliostat.{link}.progress"),
    )
    rights = {wishes: (Operation.READ, Operation.WRITE), progress: (Operation.READ,)}
    target.accounts.allow(
        AclRule(f"User:{user}", operation, ResourceKind.TOPIC, topic)
        for topic, operations in rights.items()
        for operation in operations
    )
    for verb, *words in (("pause", "--why", "a test"), ("limit", "1GB/s"), ("resume",)):
        done = heliostat(config, verb, link, *words)
        assert done.returncode == 0, done.said
