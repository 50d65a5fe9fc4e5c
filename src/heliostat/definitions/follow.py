"""Follows the home: tells whenever the links that a process knows have changed.

What runs goes on while the home does not answer (I7); that is told once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.config import Config, ConfigFile
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.definitions.home_links import Contents, HomeLinks, HomeLook, Rows, contents_of
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, ProtocolError

WAIT_S = 0.5
AGAIN_S = 3.0
"""Between two tries, when the home does not answer."""
ENDS_WITHIN_S = 3.0
Tell = Callable[[str], None]
ReadContents = Callable[[ConfigFile, Rows], Contents]
OpenBook = Callable[[Config, ForeignRecords], DefinitionBook]


def open_home(config: Config, foreign: ForeignRecords) -> DefinitionBook:
    """Open the definitions of a configuration's home."""
    assert config.service.home is not None
    return DefinitionBook(config.clusters[config.service.home].access(), foreign)


def _contents(_: ConfigFile, definitions: Rows) -> Contents:
    return contents_of(definitions)


class HomeFollower:
    """Follows the definitions of links on the home of a file, on a thread of its own.

    Parameters
    ----------
    file
        Returns the configuration file as it is in force; `service.home` of it must be set.
    on_change
        Receives what a look has come to once the home is read, then when that or the file differs.
    tell
        Receives lines for the log.
    open_book
        Opens the definitions.
    contents
        Reads links from a file and definitions.
    """

    def __init__(
        self,
        file: Callable[[], ConfigFile],
        on_change: Callable[[HomeLook], None],
        tell: Tell,
        open_book: OpenBook = open_home,
        contents: ReadContents = _contents,
    ) -> None:
        self._file = file
        self._on_change = on_change
        self._tell = tell
        self._open_book = open_book
        self._contents = contents
        self._foreign = ForeignRecords(tell)
        self._links = HomeLinks()
        self._before: HomeLook | None = None
        self._was_there = False
        self._lost = ""
        self._file_changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="home", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def file_changed(self) -> None:
        """Note that the file holds something else now."""
        self._file_changed.set()

    def stop(self) -> None:
        """End, or let it end by itself if what it has begun takes long."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(ENDS_WITHIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (ConnectionLost, BrokerError, ProtocolError) as error:
                self._note_lost(error)
                self._stopping.wait(AGAIN_S)

    def _follow(self) -> None:
        home = self._file().config.service.home
        with closing(self._open_book(self._file().config, self._foreign)) as book:
            if self._was_there:
                book.exists_now()
            book.read()
            self._was_there |= book.is_there
            self._note_found()
            self._take(book)
            while not self._stopping.is_set() and self._file().config.service.home == home:
                is_new = book.consume(WAIT_S)
                self._was_there |= book.is_there
                if is_new or self._file_changed.is_set():
                    self._take(book)
                elif not book.is_there:
                    self._stopping.wait(WAIT_S)

    def _take(self, book: DefinitionBook) -> None:
        self._file_changed.clear()
        file = self._file()
        whole = self._links.whole(file, self._contents(file, book.definitions))
        look = HomeLook(whole, file, {**book.taken_out(), **book.definitions})
        before, self._before = self._before, look
        waits = {} if before is None else before.whole.waits
        for name, problems in whole.waits.items():
            if waits.get(name) != problems:
                self._tell(f"link {name} of the home waits: {'; '.join(problems)}")
        if before is None or (whole, file) != (before.whole, before.file):
            self._on_change(look)

    def _note_lost(self, error: HeliostatError) -> None:
        if not self._lost and not self._stopping.is_set():
            self._lost = str(error)
            self._tell(
                f"the home of links does not answer, those that are known go on: {error.text}"
            )

    def _note_found(self) -> None:
        if self._lost:
            self._lost = ""
            self._tell("the home of links answers again")
