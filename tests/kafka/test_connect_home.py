"""Connectors are kept on a home cluster as in memory, and two services see each other's."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from support.clusters import ClusterPair, fresh_name
from unit.connect.store_contract import RULES
from unit.connect.technote import SOURCE, stored

from heliostat.access import ClusterAccess
from heliostat.config import Config
from heliostat.connect.store import HomeConnectors
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.operate.orders import order_restart
from heliostat.operate.wishes import make_wish
from heliostat.wishes.wish import WishedState

pytestmark = pytest.mark.thorough
WRITTEN_WITHIN_S = 20.0
"""Without the topic known to be missing, a write waits for it a minute."""


def test_the_home_keeps_what_memory_keeps(cluster_pair: ClusterPair) -> None:
    """Given a home without connectors / when they are written, changed and removed / then each

    is read at once by its writer and by another service.
    """
    home = ClusterAccess((cluster_pair.target.bootstrap,))
    with (
        closing(HomeConnectors(DefinitionBook(home))) as one,
        closing(HomeConnectors(DefinitionBook(home))) as other,
    ):
        assert other.read() == {}
        for rule in RULES:
            rule(one)
        (connector,) = stored(SOURCE)
        one.write(connector)
        assert other.read() == one.read()
        other.remove(connector.name, "ann", 7)
        assert connector.name not in one.read()


def test_of_a_link_that_never_ran_something_can_be_wished(cluster_pair: ClusterPair) -> None:
    """Given a link that was just made / when it is to begin stopped, and is restarted / then both

    are written at once, and wait for its first owner.
    """
    ends = {"src": cluster_pair.source, "destn": cluster_pair.target}
    link = {"name": fresh_name("new"), "source": "src", "target": "destn"}
    config = Config.model_validate(
        {
            "clusters": {a: {"bootstrap": each.bootstrap.split(",")} for a, each in ends.items()},
            "links": [link],
        }
    )
    began_s = time.monotonic()
    told = make_wish(config, config.links[0], WishedState.STOPPED, by="ann", within_s=0.0)
    assert (told.is_done, "has no owner" in told.waits) == (False, True)
    again = make_wish(config, config.links[0], WishedState.STOPPED, by="ann", within_s=0.0)
    assert again.changed == ()
    assert order_restart(config, config.links[0], by="ann", within_s=0.0).waits
    assert time.monotonic() - began_s < WRITTEN_WITHIN_S
