"""What a `heliostat verify` tells a service, invented: it reads no cluster, and takes some seconds.

By what it is asked to compare: a topic with `different` in its name is different, one with `broken`
can't be read, and one with `endless` is compared until the job is cancelled.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

STEPS = 5
STEP_S = 1.2
"""Longer than the page waits before it asks again."""
TOPICS, PARTITIONS, OFFSETS, CANCELLED = 4, 10, 40_000, 130


def tell(**line: Any) -> None:
    """Tell one thing."""
    print(json.dumps(line), flush=True)


def end_with_stdin() -> None:
    """End as the job's process does."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(CANCELLED)


def progress(step: int, verdict: str) -> dict[str, Any]:
    """Return how far it is after a step."""
    return {
        "phase": "comparing",
        "topics": TOPICS,
        "topics_done": TOPICS * step // STEPS,
        "partitions": PARTITIONS,
        "partitions_done": PARTITIONS * step // STEPS,
        "offsets": OFFSETS,
        "offsets_done": OFFSETS * step // STEPS,
        "records": OFFSETS * step // STEPS,
        "partitions_different": int(verdict == "different"),
        "partitions_unread": 0,
        "verdict": verdict,
    }


def main() -> None:
    """Compare."""
    threading.Thread(target=end_with_stdin, daemon=True).start()
    topics = " ".join(word for word in sys.argv if word.startswith("--topic"))
    is_different = "different" in topics
    step = 0
    while step < STEPS or "endless" in topics:
        time.sleep(STEP_S)
        step = min(step + 1, STEPS - 1) if "endless" in topics else step + 1
        tell(progress=progress(step, "different" if is_different and step > 1 else "equal"))
        if "broken" in topics:
            hint = "start the brokers of usdf, then compare again"
            text = "no broker of usdf answers"
            tell(problem={"code": "CONNECTION_LOST", "detail": text, "hint": hint})
            raise SystemExit(3)
    summary = f"verified: {TOPICS} topics, {OFFSETS:,} records"
    tell(result={"clean": not is_different, "records": OFFSETS, "summary": summary})


if __name__ == "__main__":
    main()
