"""Security of a cluster in the configuration: what is accepted, refused, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliostat.access import ClusterAccess, Sasl, SecretRef, Security, TokenEndpoint
from heliostat.config import Config, load_config
from heliostat.errors import ConfigError
from heliostat.link.running import sent_in_clear

CANARY = "canary-19be44"
FILE = """
clusters:
  east: {bootstrap: "127.0.0.1:9092", security: {%s}}
  west: {bootstrap: "127.0.0.1:9093"}
links: [{name: l, source: east, target: west}]
"""
SCRAM = "protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: me"
OAUTH = "protocol: SASL_SSL, mechanism: OAUTHBEARER"
AWS = "protocol: SASL_SSL, mechanism: AWS_MSK_IAM"


def load(folder: Path, security: str) -> Config:
    path = folder / "heliostat.yaml"
    path.write_text(FILE % security)
    return load_config(path, {"SECRET": CANARY})


TAKEN = {
    "": Security(),
    "protocol: SSL": Security("SSL"),
    "protocol: SSL, ca_file: /a, certificate_file: /b, key_file: /c, key_password: {env: K},"
    " verify_hostname: false": Security(
        "SSL", "/a", "/b", "/c", SecretRef(env="K"), verify_hostname=False
    ),
    f"{SCRAM}, password: {{file: /p}}": Security(
        "SASL_SSL", sasl=Sasl("SCRAM-SHA-512", "me", SecretRef("/p"))
    ),
    "protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: me, password: {env: P}": Security(
        "SASL_PLAINTEXT", sasl=Sasl("PLAIN", "me", SecretRef(env="P"))
    ),
    AWS: Security("SASL_SSL", sasl=Sasl("AWS_MSK_IAM")),
    f"{AWS}, aws_region: eu-central-1, aws_profile: mirror": Security(
        "SASL_SSL", sasl=Sasl("AWS_MSK_IAM", aws_region="eu-central-1", aws_profile="mirror")
    ),
    f"{OAUTH}, token: {{file: /t}}": Security(
        "SASL_SSL", sasl=Sasl("OAUTHBEARER", token=SecretRef("/t"))
    ),
    f"{OAUTH}, token_endpoint: {{url: 'https://id/t', client_id: me, client_secret: {{file: /s}},"
    " scope: kafka}": Security(
        "SASL_SSL",
        sasl=Sasl(
            "OAUTHBEARER",
            token_endpoint=TokenEndpoint("https://id/t", "me", SecretRef("/s"), "kafka"),
        ),
    ),
}


@pytest.mark.parametrize(
    ("security", "read"),
    [
        ("protocol: SASL_PLAINTEXT, mechanism: PLAIN, %s", "records and the password;"),
        ("protocol: SASL_PLAINTEXT, mechanism: SCRAM-SHA-256, %s", "records;"),
        ("protocol: SASL_SSL, mechanism: PLAIN, %s", ""),
        ("", ""),
    ],
)
def test_a_cluster_without_encryption_is_reported(security: str, read: str, tmp_path: Path) -> None:
    """Given a listener without TLS / when a link starts / then a line names cluster and risk."""
    user = "username: me, password: {env: SECRET}"
    config = load(tmp_path, security % user if security else "")
    told = sent_in_clear(config, config.links)
    assert len(told) == bool(read)
    assert all(line.startswith("cluster east: ") and read in line for line in told)


@pytest.mark.parametrize("text", TAKEN)
def test_a_valid_security_section_becomes_an_access(text: str, tmp_path: Path) -> None:
    """Given a security section / when loaded / then the access names the same, and no secret."""
    found = load(tmp_path, text).clusters["east"].access()  # type: ignore[index]  # a test's alias
    assert found == ClusterAccess(("127.0.0.1:9092",), TAKEN[text])


REFUSED = {
    "protocol: SASL_SSL": "needs mechanism, one of PLAIN",
    SCRAM: "SCRAM-SHA-512 needs password",
    f"{SCRAM}, password: {{file: /p}}, token: {{file: /t}}": "token only with OAUTHBEARER",
    f"{OAUTH}, username: me, token: {{file: /t}}": "username only with PLAIN and SCRAM",
    f"{AWS}, username: me": "username only with PLAIN and SCRAM",
    f"{SCRAM}, password: {{file: /p}}, aws_region: x": "aws_region only with AWS_MSK_IAM",
    "protocol: SASL_PLAINTEXT, mechanism: AWS_MSK_IAM": "AWS_MSK_IAM needs protocol SASL_SSL",
    OAUTH: "needs exactly one of token and token_endpoint",
    "ca_file: /a": "ca_file only with TLS",
    "verify_hostname: true": "verify_hostname only with TLS",
    "username: me": "username only with SASL",
    "protocol: SSL, mechanism: PLAIN": "mechanism only with SASL",
    "protocol: SSL, key_file: /k": "certificate_file and key_file belong together",
    "protocol: SSL, ca_file: ca.pem": "security.ca_file: must be an absolute path",
    f"{SCRAM}, password: {{file: p}}": "security.password.file: must be an absolute path",
    f"{SCRAM}, password: {{}}": "security.password: must have exactly one of file and env",
    f"{SCRAM}, password: {{file: /p, env: P}}": "must have exactly one of file and env",
    f"{SCRAM}, pasword: {{file: /p}}": "unknown key, did you mean password?",
    f"{OAUTH}, token_endpoint: {{url: 'http://id/t', client_id: m, client_secret: {{env: S}}}}": (
        "token_endpoint.url: must be an https address"
    ),
    f"{OAUTH}, token_endpoint: {{url: 'https://a:{CANARY}@id/t', client_id: m,"
    " client_secret: {env: S}}": "must have no user and password",
    f"{SCRAM}, password: {CANARY}": "security.password: a secret is never written here",
    f"{SCRAM}, password: 19": "security.password: a secret is never written here",
    f"{SCRAM}, password: '${{env:SECRET}}'": "security.password: a secret is never written here",
    f"{SCRAM}, password: [{CANARY}]": "security.password: must be a map",
    f"{SCRAM}, password: {{text: {CANARY}}}": "security.password.text: unknown key",
    f"{SCRAM}, passwort: {CANARY}": "security.passwort: unknown key",
    f"protocol: SSL, key_password: {CANARY}": "security.key_password: a secret is never",
    f"{OAUTH}, token: {CANARY}": "security.token: a secret is never written here",
    f"{OAUTH}, token_endpoint: {{url: 'https://id', client_id: m, client_secret: {CANARY}}}": (
        "token_endpoint.client_secret: a secret is never written here"
    ),
    f"protocol: {{password: {CANARY}}}": "security.protocol",
}


@pytest.mark.parametrize("text", REFUSED)
def test_an_invalid_security_section_is_refused_without_its_values(
    text: str, tmp_path: Path
) -> None:
    """Given a misfit or a literal secret / when loaded / then the field is named, not the value."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    said = str(caught.value)
    assert REFUSED[text] in said, said
    assert CANARY not in said


@pytest.mark.parametrize("whole", [f"[{CANARY}]", f"{{bootstap: x, security: {CANARY}}}"])
def test_a_cluster_that_is_no_map_is_not_quoted(whole: str, tmp_path: Path) -> None:
    """Given a secret where a section belongs / when refused / then it is not quoted."""
    path = tmp_path / "heliostat.yaml"
    path.write_text(f"clusters: {{east: {whole}}}\nlinks: [{{name: l, source: east, target: x}}]\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert CANARY not in str(caught.value)


def test_a_variable_for_a_secret_is_never_put_into_the_configuration(tmp_path: Path) -> None:
    """Given `${env:..}` in other fields of the section / when loaded / then only those have it."""
    text = f"{SCRAM}, password: {{env: SECRET}}, ca_file: '${{env:CA}}'"
    path = tmp_path / "heliostat.yaml"
    path.write_text(FILE % text)
    config = load_config(path, {"SECRET": CANARY, "CA": "/ca.pem"})
    assert config.clusters["east"].security.ca_file == "/ca.pem"  # type: ignore[index]  # as above
    assert CANARY not in repr(config)
    assert CANARY not in config.model_dump_json()
