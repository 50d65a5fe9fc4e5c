"""Connectors are kept on a home cluster as in memory, and two services see each other's."""

from __future__ import annotations

from contextlib import closing

import pytest
from support.clusters import ClusterPair
from unit.connect.store_contract import RULES
from unit.connect.technote import SOURCE, stored

from heliostat.access import ClusterAccess
from heliostat.connect.store import HomeConnectors
from heliostat.definitions.definition_book import DefinitionBook

pytestmark = pytest.mark.thorough


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
        other.remove(connector.name)
        assert connector.name not in one.read()
