"""Make `tests/unit/state/rows_of_VERSION.json`: rows as the code of a version writes them.

    git worktree add --detach ../old COMMIT
    PYTHONPATH=../old/src:tests python tools/written_rows.py
    git worktree remove ../old

The values are those of `tests/support/earlier_values.py`; no broker is needed.
"""

from __future__ import annotations

import json
from pathlib import Path

from support.earlier_values import MAP_ROW, Topics, books_over, write_all

from heliostat import __version__

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "unit" / "state"


def main() -> None:
    """Write the rows of the version whose code is imported."""
    topics = Topics()
    with books_over(topics):
        write_all()
    kept = {
        "topics": topics.rows,
        "map_row": {"key": MAP_ROW.key.encode().decode(), "value": MAP_ROW.encode().hex()},
    }
    path = FOLDER / f"rows_of_{__version__}.json"
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
