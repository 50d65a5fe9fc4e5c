"""Entry point of the program: what must end gracefully catches signals before all else is loaded.

Imports take a second. Whoever ends a service in its first second means what he means later.
"""

from __future__ import annotations

import sys

from heliostat.cli.stop_signal import STOP

ENDS_GRACEFULLY = ("run", "demo")
"""Verbs that go on until they are told to end."""
FOLLOWS = frozenset({"--follow", "-f"})
"""Options with which a verb does so."""


def main() -> None:
    """Run the verb of the command line, and exit with its code."""
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if verb in ENDS_GRACEFULLY or (verb == "events" and FOLLOWS & set(sys.argv)):
        STOP.install()
    from heliostat.cli.main import run

    sys.exit(run())


if __name__ == "__main__":
    main()
