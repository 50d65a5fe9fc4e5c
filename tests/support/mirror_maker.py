"""A real MirrorMaker 2 for tests: dedicated mode, one flow A->B."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from heliostat_sandbox import find_java

BENCH = Path(__file__).resolve().parents[2] / "bench"
ALIAS = "A"
STOP_S = 60.0


class MirrorMaker:
    """One process; stopped at the end of the block, whatever happens in it."""

    def __init__(
        self, folder: Path, source: str, target: str, topics: str, settings: Mapping[str, str]
    ) -> None:
        self.log = folder / "mm2.log"
        peer, reach = _bench("peer"), _bench("reach")
        wanted = peer.properties(reach.Way(source), reach.Way(target), topics, "none", settings)
        command = peer.command(find_java(), folder, wanted, quick=True)
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill -9: offsets copied since the last commit are not committed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_S)


def _bench(name: str) -> Any:
    """Load a module of the benchmark, which is a folder of scripts."""
    if str(BENCH) not in sys.path:
        sys.path.append(str(BENCH))
    return importlib.import_module(name)
