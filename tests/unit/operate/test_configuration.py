"""The configuration in force: what was set and what was not, and never a secret."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from heliostat.config import Config
from heliostat.config.security import SECRET_KEYS, SecretConfig
from heliostat.operate.configuration import HIDDEN, settings_in_force

SECRET = "hunter2"  # noqa: S105  # looked for in answers
REFERENCE = {"env": SECRET}
TLS = {"certificate_file": f"/{SECRET}", "key_file": f"/{SECRET}", "key_password": REFERENCE}
ENDPOINT = {"url": f"https://h/{SECRET}", "client_id": SECRET, "client_secret": REFERENCE}
STEPS: list[dict[str, Any]] = [
    {"where": f"value = '{SECRET}' and offset > 3"},
    {"where": f"value != 'it\\'s {SECRET}' and topic != r'\\' and key != '{SECRET}'"},
    {"where": f"value = '{SECRET}"},
    {"set": {"value": f'aes_encrypt(value, "{SECRET}")'}},
    {"json_fields": {"column": "key", "mask": {"password": SECRET, "column": SECRET}}},
    {"avro_fields": {"where": f"fields.x = '{SECRET}'", "mask": {"y": SECRET}}},
    {"keep_with_header": {"name": "h", "matches": SECRET}},
    {"insert_headers": {"h": SECRET, "name": SECRET, "column": SECRET}},
    {"replace": {"found": SECRET, "instead": SECRET}},
]


def configured() -> Config:
    """One with a secret wherever one can be, or be put by mistake."""
    sasl = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-256", "username": SECRET}
    registry = {"urls": "https://r:8081", "username": SECRET, "password": REFERENCE, **TLS}
    tokens = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "token_endpoint": ENDPOINT}
    token = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "token": REFERENCE}
    endpoint_registry = {"urls": "https://r:1", "token_endpoint": ENDPOINT}
    token_registry = {"urls": "https://r:1", "topic": SECRET, "token": REFERENCE}
    return Config.model_validate(
        {
            "clusters": {
                "a": {
                    "bootstrap": "a:1",
                    "security": {**sasl, "password": REFERENCE, **TLS},
                    "schema_registry": registry,
                },
                "b": {
                    "bootstrap": "b:1",
                    "security": tokens,
                    "schema_registry": token_registry,
                },
                "steps": {
                    "bootstrap": "s:1",
                    "security": token,
                    "schema_registry": endpoint_registry,
                },
            },
            "service": {"tokens_file": "/etc/tokens"},
            "spark": {
                "master": f"spark://u:{SECRET}@h:1",
                "conf": {"spark.ssl.keyPassword": SECRET, "spark.x": SECRET},
            },
            "metrics": {
                "influx": {"url": "https://i:1", "username": SECRET, "password": REFERENCE}
            },
            "links": [
                {
                    "name": "l",
                    "source": "a",
                    "target": "b",
                    "topics": {"include": ["t.*"]},
                    "pipelines": [{"name": "p", "topics": "t", "steps": STEPS}],
                }
            ],
        }
    )


def test_no_secret_is_ever_shown() -> None:
    """Given a secret in each field that can have one / when it is shown / then none is there,

    and what is no secret is.
    """
    rows = settings_in_force(configured())
    assert SECRET not in json.dumps([row.to_json() for row in rows])
    shown = {row.path: row for row in rows}
    assert shown["clusters.a.bootstrap"].value == ["a:1"]
    assert shown["clusters.a.security.protocol"].value == "SASL_SSL"
    assert shown["clusters.a.security.password"].value == HIDDEN
    assert shown["clusters.a.security.username"].value == HIDDEN
    assert shown["clusters.a.schema_registry.password"].value == HIDDEN
    assert shown["clusters.a.schema_registry.urls"].value == ["https://r:8081"]
    assert shown["clusters.b.schema_registry.token"].value == HIDDEN
    assert shown["clusters.b.security.token_endpoint.client_secret"].value == HIDDEN
    assert shown["clusters.steps.bootstrap"].value == ["s:1"], "a name, not a pipeline's steps"
    assert shown["clusters.steps.security.token"].value == HIDDEN
    assert shown["metrics.influx.password"].value == HIDDEN
    assert shown["service.tokens_file"].value == "/etc/tokens", "where tokens are is no secret"
    assert shown["spark.master"].value == HIDDEN, "an address with a password in it"
    assert shown["links.l.topics.include"].value == ["t.*"]
    assert not shown["links.l.topics.include"].is_default
    assert shown["links.l.lanes.lease_s"].is_default
    assert shown["links.l.pipelines.p.steps.0.where"].value == "value = '…' and offset > 3"


def test_what_concerns_a_link() -> None:
    config = configured()
    rows = settings_in_force(config, config.link("l"))
    assert {row.path.split(".")[0] for row in rows} == {"links", "clusters"}


def fields_of(kind: type[BaseModel]) -> list[tuple[str, object]]:
    """All fields of a model and of those in it, with their types."""
    found: list[tuple[str, object]] = []
    for name, field in kind.model_fields.items():
        found.append((name, field.annotation))
        for inner in parts_of(field.annotation):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                found += fields_of(inner)
    return found


def parts_of(annotation: object) -> list[object]:
    return [annotation, *(part for each in get_args(annotation) for part in parts_of(each))]


def test_each_reference_to_a_secret_is_one_by_name() -> None:
    named = {name for name, kind in fields_of(Config) if SecretConfig in parts_of(kind)}
    assert named == SECRET_KEYS
    for name, _ in fields_of(Config):
        if any(word in name for word in ("password", "secret")):
            assert name in SECRET_KEYS


@pytest.mark.parametrize("shows_all", [False, True])
def test_the_command_line_shows_it(tmp_path: Any, capsys: Any, *, shows_all: bool) -> None:
    from heliostat.cli.main import run

    path = tmp_path / "heliostat.yaml"
    links = [{"name": "l", "source": "a", "target": "b"}]
    clusters = {"a": {"bootstrap": "a:1"}, "b": {"bootstrap": "b:1"}}
    path.write_text(json.dumps({"clusters": clusters, "links": links}))
    assert run(["config", "-c", str(path), *(["--all"] if shows_all else [])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'clusters.a.bootstrap: ["a:1"]' in lines
    assert any(line.endswith("# default") for line in lines) == shows_all
