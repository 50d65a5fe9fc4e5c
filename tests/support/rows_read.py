"""Reads a link's rows with whatever version of the product is imported, and prints what they say.

    PYTHONPATH=OLD/src:tests python -m support.rows_read ROWS.json

So only names that all versions have stand here. Each value is one of `earlier_values`, or the run
fails with an assertion.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from support import earlier_values as given

from heliostat import __version__
from heliostat.errors import Refused
from heliostat.gaps.ledger import GapLedger
from heliostat.groups.published import PublishedOffsets
from heliostat.state.link_state import LinkState
from heliostat.wishes.wish_book import WishBook


def read_state() -> None:
    """Read the state as a link that begins does."""
    stored = LinkState(given.LINK, given.TARGET).read()
    assert (stored.producer_id, stored.owner) == (given.PRODUCER, given.OWNER)
    rows = {name: mirror.to_json() for name, mirror in stored.mirrors.items()}
    rows[given.MAPPED].pop("is_returned", None)
    assert rows == {name: given.mirror(name).to_json() for name in (given.PLAIN, given.MAPPED)}
    assert stored.promoted[given.GIVEN].promotion == given.PROMOTION
    assert stored.starts == {given.PLAIN: given.STARTS}
    assert stored.stops == {given.STOP.source: given.STOP}


def read_ledger() -> dict[str, Any]:
    """Read the ledger; return its gaps, and where mirrors go on."""
    ledger = GapLedger(given.LINK.name, given.TARGET.access())
    ledger.read()
    rows = list(ledger.rows.values())
    assert rows[0] == given.GAP
    gaps = [[row.cause.value, row.jump] for row in rows]
    return {"gaps": gaps, "jumps": [row.jump for row in ledger.jumps().values()]}


def read_books() -> list[str]:
    """Read what operators and the link have written beside it; return ids of orders."""
    ledger = GapLedger(given.LINK.name, given.TARGET.access())
    ledger.read()
    assert list(ledger.decisions.values()) == [given.DECISION]
    published = PublishedOffsets(given.TARGET.access(), given.LINK.name)
    published.read()
    assert published.rows == {given.GROUP: given.PUBLISHED}
    book = WishBook(given.LINK.name, given.TARGET.access())
    book.read()
    assert book.wishes.last_of(given.WISH.place) == given.WISH
    assert list(book.wishes.levels.limits()) == [given.LIMIT]
    assert book.wishes.promotions == {given.GIVEN: given.PROMOTION}
    assert book.restarts == given.RESTARTS
    return [standing.order.order_id for standing in book.orders.standings()]


def main() -> None:
    """Read, and print what was made of it."""
    topics: dict[str, dict[str, Any]] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    answer: dict[str, Any] = {"version": __version__}
    with given.books_over(given.Topics(topics)):
        try:
            read_state()
        except Refused as refused:
            answer["refused"] = refused.text
        else:
            answer |= {"orders": read_books(), **read_ledger()}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
