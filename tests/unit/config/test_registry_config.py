"""A cluster's schema registry in the configuration: what is accepted, refused, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliostat.access import RegistryAccess, SecretRef, Security, TokenEndpoint
from heliostat.config import Config, RegistryConfig, load_config
from heliostat.errors import ConfigError

CANARY = "canary-19be44"
FILE = """
clusters:
  east: {bootstrap: "127.0.0.1:9092", schema_registry: %s}
  west: {bootstrap: "127.0.0.1:9093"}
links: [{name: l, source: east, target: west}]
"""
HTTPS = "urls: 'https://registry:8081'"
USER = "username: me, password: {env: P}"


def load(folder: Path, registry: str, env: dict[str, str] | None = None) -> Config:
    path = folder / "heliostat.yaml"
    path.write_text(FILE % registry, encoding="utf-8")
    return load_config(path, {"SECRET": CANARY} if env is None else env)


def registry_of(config: Config) -> RegistryConfig:
    found = config.clusters["east"].schema_registry  # type: ignore[index]  # a test's alias
    assert found is not None
    return found


ENDPOINT = "token_endpoint: {url: 'https://id/t', client_id: me, client_secret: {file: /s}}"
ONE = ("https://registry:8081",)
TAKEN = {
    HTTPS: RegistryAccess(ONE),
    "urls: 'http://registry:8081'": RegistryAccess(("http://registry:8081",)),
    "urls: ['https://a/apis/ccompat/v7', 'https://b:8443/']": RegistryAccess(
        ("https://a/apis/ccompat/v7", "https://b:8443/")
    ),
    f"{HTTPS}, ca_file: /a, certificate_file: /b, key_file: /c, key_password: {{env: K}},"
    " verify_hostname: false": RegistryAccess(
        ONE,
        security=Security("SSL", "/a", "/b", "/c", SecretRef(env="K"), verify_hostname=False),
    ),
    f"{HTTPS}, {USER}": RegistryAccess(ONE, username="me", password=SecretRef(env="P")),
    f"{HTTPS}, token: {{file: /t}}": RegistryAccess(ONE, token=SecretRef("/t")),
    f"{HTTPS}, {ENDPOINT}": RegistryAccess(
        ONE, token_endpoint=TokenEndpoint("https://id/t", "me", SecretRef("/s"))
    ),
    f"urls: ['http://localhost:1', 'http://127.0.0.1', 'http://[::1]:2'], {USER}": RegistryAccess(
        ("http://localhost:1", "http://127.0.0.1", "http://[::1]:2"),
        username="me",
        password=SecretRef(env="P"),
    ),
    "urls: ['http://localhost:1', 'https://registry'], ca_file: /a": RegistryAccess(
        ("http://localhost:1", "https://registry"), security=Security("SSL", "/a")
    ),
}


@pytest.mark.parametrize("text", TAKEN)
def test_a_valid_section_becomes_an_access(text: str, tmp_path: Path) -> None:
    """Given a registry / when loaded / then the access names the same, and no secret."""
    found = registry_of(load(tmp_path, f"{{{text}}}")).access("east")
    assert found == TAKEN[text]
    assert found.alias == "east"


def test_a_cluster_has_no_registry_by_default(tmp_path: Path) -> None:
    config = load(tmp_path, "null")
    assert {cluster.schema_registry for cluster in config.clusters.values()} == {None}


NO_ADDRESS = "schema_registry.urls[0]: is no address such as https://registry:8081"
REFUSED = {
    "": "schema_registry.urls: must be given",
    "urls: []": "schema_registry.urls: must not be empty",
    "urls: 'registry:8081'": (
        "schema_registry.urls[0]: a registry's address begins with http:// or https:// and a host"
        ' (got "registry:8081")'
    ),
    "urls: ['https://a', 'ftp://b']": "urls[1]: a registry's address begins with http:// or https",
    "urls: 'https://'": "urls[0]: a registry's address begins with http:// or https:// and a host",
    f"urls: 'https://me:{CANARY}@registry'": "has no user and password: they are secrets",
    f"urls: 'https://{CANARY}@registry'": "has no user and password: they are secrets",
    f"urls: 'https://me:{CANARY}@registry:x'": NO_ADDRESS,
    f"urls: 'https://me:{CANARY}'": NO_ADDRESS,
    f"urls: 'https://me:{CANARY}\N{ACCOUNT OF}@registry'": NO_ADDRESS,  # Python would quote it
    f"urls: 'https://[{CANARY}]'": NO_ADDRESS,
    "urls: 'https://registry:0'": NO_ADDRESS,
    "urls: 'https://regis try'": NO_ADDRESS,
    f"urls: 'https://registry/?token={CANARY}'": "urls[0]: a registry's address ends with its path",
    f"urls: 'https://registry/#{CANARY}'": "urls[0]: a registry's address ends with its path",
    f"urls: {{password: {CANARY}}}": "schema_registry.urls: must be a list",
    f"urls: [{{password: {CANARY}}}]": "schema_registry.urls[0]: input should be a valid string",
    f"{HTTPS}, username: me": "schema_registry: username and password belong together",
    f"{HTTPS}, password: {{env: P}}": "username and password belong together",
    f"{HTTPS}, {USER}, token: {{file: /t}}": ("at most one of password, token and token_endpoint"),
    f"{HTTPS}, token: {{file: /t}}, {ENDPOINT}": (
        "at most one of password, token and token_endpoint"
    ),
    f"urls: 'http://registry', {USER}": (
        "credentials only with https addresses (http only on this machine itself)"
    ),
    "urls: ['https://registry', 'http://registry'], token: {file: /t}": "credentials only with",
    f"urls: 'http://localhost.example.org', {ENDPOINT}": "credentials only with https addresses",
    "urls: 'http://localhost', ca_file: /a": "ca_file only with an https address",
    "urls: 'http://localhost', verify_hostname: false": "verify_hostname only with an https",
    f"{HTTPS}, key_file: /k": "certificate_file and key_file belong together",
    f"{HTTPS}, certificate_file: /k": "certificate_file and key_file belong together",
    f"{HTTPS}, key_password: {{env: K}}": "key_password needs key_file",
    f"{HTTPS}, ca_file: ca.pem": "schema_registry.ca_file: must be an absolute path",
    f"{HTTPS}, verify_hostname: 2": "verify_hostname: input should be a valid boolean (got 2)",
    f"{HTTPS}, username: me, password: {CANARY}": (
        "schema_registry.password: a secret is never written here"
    ),
    f"{HTTPS}, username: me, password: '${{env:SECRET}}'": "password: a secret is never written",
    f"{HTTPS}, username: me, password: {{text: {CANARY}}}": "password.text: unknown key",
    f"{HTTPS}, passwort: {CANARY}": "schema_registry.passwort: unknown key, did you mean password?",
    f"{HTTPS}, url: {CANARY}": "schema_registry.url: unknown key, did you mean urls?",
    f"{HTTPS}, token: {CANARY}": "schema_registry.token: a secret is never written here",
    f"{HTTPS}, key_password: {CANARY}": "schema_registry.key_password: a secret is never written",
    f"{HTTPS}, token_endpoint: {{url: 'https://id', client_id: m, client_secret: {CANARY}}}": (
        "token_endpoint.client_secret: a secret is never written here"
    ),
    f"{HTTPS}, token_endpoint: {{url: 'https://me:{CANARY}\N{ACCOUNT OF}@id', client_id: m,"
    " client_secret: {env: S}}": "token_endpoint.url: must be an https address",
    f"{HTTPS}, token_endpoint: {{url: 'https://id', client: {CANARY}}}": (
        "token_endpoint.client: unknown key, did you mean client_id?"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_an_invalid_section_is_refused_without_its_secrets(text: str, tmp_path: Path) -> None:
    """Given a misfit or a literal secret / when loaded / then the field is named, not the value."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"{{{text}}}")
    said = str(caught.value)
    assert REFUSED[text] in said, said
    assert "clusters.east.schema_registry" in said
    assert CANARY not in said


@pytest.mark.parametrize(
    "cluster",
    [
        f"{{bootstrap: 'h:1', schema_registry: {CANARY}}}",
        f"{{bootstrap: 'h:1', schema_registri: {{urls: 'https://r', password: {CANARY}}}}}",
        f"{{bootstrap: 'h:1', password: {CANARY}}}",
    ],
)
def test_a_secret_at_a_wrong_key_of_the_cluster_is_not_quoted(cluster: str, tmp_path: Path) -> None:
    """Given a secret where a section or nothing belongs / when refused / then it is not quoted."""
    path = tmp_path / "heliostat.yaml"
    path.write_text(f"clusters: {{east: {cluster}}}\nlinks: [{{name: l, source: east, target: x}}]")
    with pytest.raises(ConfigError, match=r"clusters\.east\.") as caught:
        load_config(path, {})
    assert CANARY not in str(caught.value)


def test_a_misspelt_section_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text((FILE % "{urls: 'https://r'}").replace("schema_registry", "schema_registri"))
    with pytest.raises(ConfigError, match=r"schema_registri: unknown key, did you mean schema_reg"):
        load_config(path, {})


def test_variables_are_filled_in_but_never_for_secrets(tmp_path: Path) -> None:
    """Given `${env:..}` in addresses and for a secret / then only the former have the value."""
    text = "{urls: 'https://${env:HOST}', username: me, password: {env: SECRET}}"
    config = load(tmp_path, text, {"HOST": "registry", "SECRET": CANARY})
    assert registry_of(config).urls == ("https://registry",)
    assert CANARY not in repr(config)
    assert CANARY not in config.model_dump_json()
    with pytest.raises(ConfigError, match="has no user and password") as caught:
        load(tmp_path, "{urls: 'https://me:${env:SECRET}@registry'}")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ("https://registry", "https://REGISTRY:443/", True),
        ("http://registry:80/apis/ccompat/v7", "http://registry/apis/ccompat/v7/", True),
        ("https://registry", "https://registry:8081", False),
        ("https://registry", "https://registry/contexts/.summit", False),
        ("https://one", "https://other", False),
    ],
)
def test_one_registry_is_recognised_however_its_address_is_written(
    one: str, other: str, is_shared: bool
) -> None:
    registry = RegistryConfig(urls=("https://first", one))
    shared = registry.shared_url(RegistryConfig(urls=(other, "https://last")))
    assert shared == (one if is_shared else None)
