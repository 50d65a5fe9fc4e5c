"""MirrorMaker 2's own classes do what a link did, with the files that are written for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.judged_links import client_view, differences
from support.mirror_jvm import MirrorJvm, as_java_raises
from support.mirror_maker_judge import Judge

from heliostat.config import Config
from heliostat.mm2.export_forms import ExportForm
from heliostat.operate.export_mm2 import export_mm2

pytestmark = [pytest.mark.peer, pytest.mark.thorough]
NAMES = {ExportForm.CONNECTORS: "c.json", ExportForm.PROPERTIES: "mm2.properties"}
HIDDEN = r"\..*"
RETURNING = [HIDDEN, r"(.+\.)?B\..+"]
SECURE = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "u"}
LINKS: dict[str, dict[str, Any]] = {
    "names as they are": {"topics": {"include": [".*"], "exclude": [HIDDEN]}},
    "a prefix": {
        "topics": {
            "include": ["orders.*", "my.secret.topic", "pay"],
            "exclude": [*RETURNING, ".*-eu"],
            "naming": {"prefix": "A."},
        }
    },
    "a dash": {
        "topics": {
            "include": [".*"],
            "exclude": [
                *(HIDDEN, r"mm2.*\-internal", r".*\-checkpoints\-internal"),
                r"(.+\-)?B\-.+",
            ],
            "naming": {"prefix": "A-"},
        }
    },
    "groups": {
        "topics": {"include": ["users"], "exclude": [HIDDEN]},
        "groups": {"sync": True, "include": ["app.*", "x"], "exclude": ["app.1"]},
        "checkpoints": {"emit": True},
        "heartbeats": {"emit": True, "interval_s": 7},
        "offset_syncs": {"emit": True},
    },
    "settings": {
        "topics": {
            "include": ["users"],
            "exclude": [HIDDEN],
            "start": "latest",
            "replication_factor": 3,
            "sync_configs": False,
        },
        "records": {"compression": "lz4", "fetch_bytes_max": 2048},
        "heartbeats": {"mirror": True},
    },
}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with as_java_raises(), MirrorJvm() as jvm:
        yield Judge(jvm)


def config_of(link: dict[str, Any]) -> Config:
    password = {"file": "/etc/heliostat/secrets/user/password"}
    secure = SECURE | {"password": password, "verify_hostname": False}
    clusters = {
        "A": {"bootstrap": ["a:9092"], "security": secure},
        "B": {"bootstrap": ["b:9092"]},
    }
    whole = {"name": "A-to-B", "source": "A", "target": "B", **link}
    return Config.model_validate({"clusters": clusters, "links": [whole]})


@pytest.mark.parametrize("form", list(ExportForm))
@pytest.mark.parametrize("name", LINKS)
def test_what_is_written_means_what_the_link_did(name: str, form: ExportForm, judge: Judge) -> None:
    """Given a link / when written / then MirrorMaker 2 selects, names and connects as it did."""
    config = config_of(LINKS[name])
    exported = export_mm2(config, config.links[0], form)
    assert exported.differences == ()
    (verdict,) = judge.verdicts({NAMES.get(form, "r.yaml"): exported.text})
    wrong = [*differences(verdict, config.links[0], "")]
    for role, theirs in verdict.clients.items():
        ours = client_view(config.clusters["A" if role.startswith("source") else "B"])
        if ours != theirs:
            wrong.append(f"{role}: theirs {theirs}, ours {ours}")
    assert verdict.values["consumer.isolation.level"] == "read_committed"
    assert not wrong, "\n".join(wrong)
