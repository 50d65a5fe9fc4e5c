"""The home cluster, on which links lie that are not in the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import Config, ConfigFile
from heliostat.config.defined import WholeConfig, with_definitions
from heliostat.connect.home_contents import home_contents
from heliostat.definitions.definition_book import CLIENT_ID, DefinitionBook
from heliostat.errors import Refused
from heliostat.operate.reach import require_answer


@contextmanager
def home_book(config: Config) -> Iterator[DefinitionBook]:
    """Yield the home's definitions, read.

    Raises
    ------
    Refused
        The file names no home.
    ConnectionLost, BrokerError
        The home does not answer, or refuses.
    """
    if config.service.home is None:
        raise Refused(
            "links are in the file only: it names no home for others",
            hint="set service.home to the alias of the cluster that keeps them",
        )
    home = config.clusters[config.service.home]
    require_answer(home)
    with (
        closing(LentClusters(home.access(), DialSettings(CLIENT_ID))) as lent,
        closing(DefinitionBook(lent)) as book,
    ):
        book.read()
        yield book


def whole_config(file: ConfigFile) -> WholeConfig:
    """Return the file's configuration with the links that its home holds, if it names one.

    Raises
    ------
    ConnectionLost, BrokerError
        The home does not answer, or refuses.
    """
    if file.config.service.home is None:
        return WholeConfig(file.config, {})
    with home_book(file.config) as book:
        return with_definitions(file, home_contents(file, book.definitions))
