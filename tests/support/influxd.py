"""A real InfluxDB 1.6, Debian's, in a folder of its own."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from support.fetched import debian_program
from support.links import wait_for

CONFIG = """
reporting-disabled = true
bind-address = "127.0.0.1:{rpc}"
[meta]
dir = "{folder}/meta"
[data]
dir = "{folder}/data"
wal-dir = "{folder}/wal"
[http]
bind-address = "127.0.0.1:{http}"
log-enabled = false
[monitor]
store-enabled = false
"""


class Influxd:
    """One server, stopped and started at the same address with the same data.

    Parameters
    ----------
    folder
        Where its data are.
    ports
        For requests, and for itself.
    """

    def __init__(self, folder: Path, ports: tuple[int, int]) -> None:
        self._program = debian_program("influxdb", "usr/bin/influxd")
        self._config = folder / "influxd.conf"
        http, rpc = ports
        text = CONFIG.format(folder=folder, http=http, rpc=rpc)
        self._config.write_text(text, encoding="utf-8")
        self.url = f"http://127.0.0.1:{http}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [self._program, "-config", self._config],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for("influxd", self._answers, 30)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ping", timeout=2):  # noqa: S310  # ours
                return True
        except OSError:
            return False

    def query(self, text: str, database: str = "") -> list[dict[str, Any]]:
        """Series of an answer; fails if the query does."""
        form = urllib.parse.urlencode({"q": text, "db": database, "epoch": "ms"}).encode()
        address = f"{self.url}/query"
        with urllib.request.urlopen(address, form, timeout=20) as answer:  # noqa: S310  # ours
            (result,) = json.load(answer)["results"]
        assert "error" not in result, f"{text}: {result['error']}"
        series: list[dict[str, Any]] = result.get("series", [])
        return series
