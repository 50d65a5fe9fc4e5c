"""A verb in a process of its own that stops before and behind each of its steps, and says so.

Run as a program: the words of `heliostat` follow. It writes a line for each step, and waits for one
word: `go`, or `die`, which is a SIGKILL right there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

MARK = "\x01step "
PLACES = {
    "failover": {
        "promotable": "operate.failover",
        "await_owner": "operate.promotion",
        "WishBook.write": "wishes.wish_book",
        "ends_now": "operate.promotion",
        "open_to_writers": "operate.promotion",
        "_groups": "operate.failover",
    },
    "tail": {
        "promotions_of": "operate.tail",
        "require_rest": "operate.tail",
        "_judges": "operate.tail_moves",
        "TailNotes.write": "rescue.notes",
        "ClusterLog.append": "rescue.target_log",
    },
    "reverse": {
        "_promotions": "operate.reverse",
        "ask_to_give_way": "operate.reverse",
        "_refuse_changed": "operate.reverse",
        "set_back": "operate.reverse",
        "_made_anew": "operate.reverse",
        "write": "operate.reverse",
        "let_go": "operate.reverse",
        "open_source": "operate.reverse",
        "note": "operate.reverse",
    },
}
"""Steps of each verb, as functions below `heliostat`; a switch names its own."""


def steps_of(verb: str) -> list[str]:
    """Return the names of a verb's steps, in order."""
    if verb == "switch":
        from heliostat.handover.steps import new_steps

        return [step.name for step in new_steps()]
    return list(PLACES[verb])


def _wait(step: str, when: str) -> None:
    print(f"{MARK}{json.dumps([step, when])}", flush=True)
    if sys.stdin.readline().strip() == "die":
        os.kill(os.getpid(), signal.SIGKILL)


def _stopping(step: str, call: Callable[..., Any], calls: Counter[str]) -> Callable[..., Any]:
    """Return a step that stops at its first call in this process."""

    @wraps(call)
    def stops(*given: Any, **named: Any) -> Any:
        calls[step] += 1
        if calls[step] > 1:
            return call(*given, **named)
        _wait(step, "before")
        answer = call(*given, **named)
        _wait(step, "behind")
        return answer

    return stops


def _prepare(verb: str) -> None:
    calls = Counter[str]()
    if verb == "switch":
        from heliostat.handover import steps

        steps.STEPS = {name: _stopping(name, call, calls) for name, call in steps.STEPS.items()}
        return
    for name, module in PLACES.get(verb, {}).items():
        owner: Any = import_module(f"heliostat.{module}")
        *classes, attribute = name.split(".")
        for each in classes:
            owner = getattr(owner, each)
        setattr(owner, attribute, _stopping(name, getattr(owner, attribute), calls))


def _main() -> None:
    from heliostat.cli.entry import main
    from heliostat.rescue import source_rest

    source_rest.STANDS_STILL_S = 1.0
    _prepare(sys.argv[1])
    main()


if __name__ == "__main__":
    _main()
