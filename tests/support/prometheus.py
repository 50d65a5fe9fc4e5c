"""A real Prometheus, Debian's, in a folder of its own."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml
from support.fetched import debian_program
from support.links import wait_for

from heliostat_sandbox.ports import free_ports


class Prometheus:
    """One server that scrapes one address as the job `heliostat`; stops with the block.

    Parameters
    ----------
    folder
        Where its data are.
    scraped
        Host and port.
    every_s
        Between two scrapes, and between two evaluations of rules.
    rules
        A file of alerts.
    """

    def __init__(
        self, folder: Path, scraped: str, every_s: int = 1, rules: Path | None = None
    ) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        every = f"{every_s}s"
        config = {
            "global": {"scrape_interval": every, "evaluation_interval": every},
            "rule_files": [] if rules is None else [str(rules)],
            "scrape_configs": [
                {"job_name": "heliostat", "static_configs": [{"targets": [scraped]}]}
            ],
        }
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        words = (f"--config.file={file}", f"--storage.tsdb.path={folder}/prometheus",
                 f"--web.listen-address=127.0.0.1:{port}", "--log.level=error")  # fmt: skip
        program = debian_program("prometheus", "usr/bin/prometheus")
        self._process = subprocess.Popen([program, *words])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def wait_ready(self) -> None:
        """Wait until it has scraped something."""
        wait_for("scrapes", self._has_scraped, 30)

    def _has_scraped(self) -> bool:
        try:
            return bool(self.query('up{job="heliostat"} == 1'))
        except OSError:
            return False

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return what an expression yields now."""
        series: list[dict[str, Any]] = self._get("query", query=expr)["result"]
        return series

    def firing(self) -> set[str]:
        """Return names of alerts that fire."""
        alerts = self._get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def _get(self, what: str, **parameters: str) -> Any:
        place = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(place, timeout=10) as answer:  # noqa: S310  # ours
            return json.load(answer)["data"]
