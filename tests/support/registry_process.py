"""A registry double in a process of its own: its processor time is nobody else's.

    python -m support.registry_process SUBJECTS

SUBJECTS is a file with a JSON list of (subject, Avro schema), registered in this order. A line with
its address and their ids is printed; it ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer


def main() -> None:
    """Serve until the parent ends."""
    double = RegistryDouble()
    wanted = json.loads(Path(sys.argv[1]).read_text())
    ids = [double.register(subject, {"schema": text})["id"] for subject, text in wanted]
    with RegistryServer(double) as server:
        print(json.dumps({"url": server.url, "ids": ids}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
