"""Credentials of a registry: read for each request, sent to its addresses only, never shown."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.registry_server import Asked, RegistryServer, Reply

from heliostat.access import RegistryAccess, SecretRef, Security, TokenEndpoint
from heliostat.clusters import tokens
from heliostat.errors import (
    CredentialsUnreadable,
    RegistryAnswerInvalid,
    RegistryError,
    RegistryUnreachable,
    TokenRefused,
)
from heliostat.schemas.registry import HttpRegistry, Retries, calls
from heliostat_sandbox.certificates import KeyPair, issue, make_authority

ONCE = Retries(turns=1)
SECRET = "canary:pass wörd"  # noqa: S105  # a test's


def demanding(server: RegistryServer, authorization: str) -> None:
    """Let a server accept only this header."""

    def check(asked: Asked) -> Reply | None:
        if asked.headers.get("Authorization") == authorization:
            return None
        return Reply(401, json.dumps({"error_code": 40101, "message": "Unauthorized"}).encode())

    server.troubles[:] = [check]


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n", encoding="utf-8")
    return path


def test_user_and_password(server: RegistryServer, secret: Path) -> None:
    demanding(server, basic("me", SECRET))
    access = RegistryAccess((server.url,), username="me", password=SecretRef(file=str(secret)))
    with HttpRegistry(access, retries=ONCE) as registry:
        assert registry.ask(calls.subjects()) == ()


def test_an_expired_password_is_told_without_it_and_a_new_one_is_used(
    server: RegistryServer, secret: Path
) -> None:
    """Given a wrong password / when its file is renewed / then the next request has the new one."""
    demanding(server, basic("me", "renewed"))
    access = RegistryAccess((server.url,), username="me", password=SecretRef(file=str(secret)))
    with HttpRegistry(access, retries=ONCE) as registry:
        with pytest.raises(RegistryError, match="UNAUTHORIZED") as refused:
            registry.ask(calls.subjects())
        assert SECRET not in str(refused.value)
        assert "Basic" not in str(refused.value)
        secret.write_text("renewed", encoding="utf-8")
        assert registry.ask(calls.subjects()) == ()


def test_a_token_from_a_file(server: RegistryServer, secret: Path) -> None:
    secret.write_text("t0ken", encoding="utf-8")
    demanding(server, "Bearer t0ken")
    access = RegistryAccess((server.url,), token=SecretRef(file=str(secret)))
    with HttpRegistry(access, retries=ONCE) as registry:
        assert registry.ask(calls.subjects()) == ()


def test_a_missing_secret_is_told(server: RegistryServer, secret: Path) -> None:
    secret.unlink()
    access = RegistryAccess((server.url,), token=SecretRef(file=str(secret)))
    with HttpRegistry(access) as registry, pytest.raises(CredentialsUnreadable):
        registry.ask(calls.subjects())
    assert server.asked == []


def test_a_token_that_was_revoked_is_fetched_again_once(
    server: RegistryServer, secret: Path
) -> None:
    """Given a kept token / when the registry refuses it / then a new one is fetched and used."""
    with RegistryServer() as issuer:
        issued = iter(("first", "second", "third"))
        issuer.troubles.append(lambda _: Reply(200, _token(next(issued))))
        endpoint = TokenEndpoint(f"{issuer.url}/token", "me", SecretRef(file=str(secret)))
        access = RegistryAccess((server.url,), token_endpoint=endpoint)
        try:
            with HttpRegistry(access, retries=ONCE) as registry:
                demanding(server, "Bearer first")
                assert registry.ask(calls.subjects()) == ()
                demanding(server, "Bearer second")
                assert registry.ask(calls.subjects()) == ()
                assert registry.ask(calls.subjects()) == ()
                assert len(issuer.asked) == 2
                demanding(server, "Bearer other")
                with pytest.raises(RegistryError, match="UNAUTHORIZED"):
                    registry.ask(calls.subjects())
        finally:
            tokens.forget(endpoint)
    assert len(issuer.asked) == 3


def test_no_token_no_request(server: RegistryServer, secret: Path) -> None:
    with RegistryServer() as issuer:
        issuer.troubles.append(lambda _: Reply(403))
        endpoint = TokenEndpoint(f"{issuer.url}/token", "me", SecretRef(file=str(secret)))
        access = RegistryAccess((server.url,), token_endpoint=endpoint)
        with HttpRegistry(access) as registry, pytest.raises(TokenRefused):
            registry.ask(calls.subjects())
    assert server.asked == []


def test_credentials_follow_no_redirect(server: RegistryServer, secret: Path) -> None:
    with RegistryServer() as elsewhere:
        server.troubles.append(lambda _: Reply(307, headers={"Location": elsewhere.url}))
        access = RegistryAccess((server.url,), username="me", password=SecretRef(file=str(secret)))
        with (
            HttpRegistry(access, retries=ONCE) as registry,
            pytest.raises(RegistryAnswerInvalid, match="307"),
        ):
            registry.ask(calls.subjects())
        assert elsewhere.asked == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_no_proxy_sees_what_is_not_encrypted(
    server: RegistryServer, secret: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with RegistryServer() as proxy:
        monkeypatch.setenv(variable, proxy.url)
        access = RegistryAccess((server.url,), username="me", password=SecretRef(file=str(secret)))
        with HttpRegistry(access) as registry:
            registry.ask(calls.subjects())
        assert proxy.asked == []


@pytest.mark.parametrize(
    "ways",
    [
        {"username": "me"},
        {"password": SecretRef(env="P")},
        {"username": "me", "password": SecretRef(env="P"), "token": SecretRef(env="T")},
    ],
)
def test_half_an_identity_or_two_are_refused(ways: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"together|one of"):
        RegistryAccess(("http://r",), **ways)  # type: ignore[arg-type]  # what it takes


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return make_authority(tmp_path_factory.mktemp("authority"), "ca")


@pytest.fixture
def secured(authority: KeyPair, tmp_path: Path) -> Iterator[RegistryServer]:
    """A registry that wants our certificate."""
    own = issue(tmp_path, "registry", authority, subject="registry", hosts=("IP:127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with RegistryServer(tls=context) as server:
        yield server


def over_tls(authority: KeyPair, own: KeyPair | None) -> Security:
    at = str(authority.certificate)
    if own is None:
        return Security("SSL", ca_file=at)
    certificate, key = str(own.certificate), str(own.key)
    return Security("SSL", ca_file=at, certificate_file=certificate, key_file=key)


def test_mutual_tls(secured: RegistryServer, authority: KeyPair, tmp_path: Path) -> None:
    own = issue(tmp_path, "client", authority, subject="heliostat")
    access = RegistryAccess((secured.url,), security=over_tls(authority, own))
    with HttpRegistry(access, retries=ONCE) as registry:
        assert registry.ask(calls.subjects()) == ()


def test_without_our_certificate_there_is_no_answer(
    secured: RegistryServer, authority: KeyPair
) -> None:
    access = RegistryAccess((secured.url,), security=over_tls(authority, None))
    with HttpRegistry(access, retries=ONCE) as registry, pytest.raises(RegistryUnreachable):
        registry.ask(calls.subjects())
    assert secured.asked == []


def test_a_registry_that_our_authority_has_not_signed_is_not_asked(
    secured: RegistryServer, authority: KeyPair, tmp_path: Path
) -> None:
    other = make_authority(tmp_path, "other")
    own = issue(tmp_path, "client", authority, subject="heliostat")
    access = RegistryAccess((secured.url,), security=over_tls(other, own))
    refusal = pytest.raises(RegistryUnreachable, match="certificate verify failed")
    with HttpRegistry(access, retries=ONCE) as registry, refusal:
        registry.ask(calls.subjects())
    assert secured.asked == []


def test_a_renewed_certificate_needs_no_restart(
    secured: RegistryServer, authority: KeyPair, tmp_path: Path
) -> None:
    """Given a certificate that is refused / when the file is renewed / then the next is used."""
    other = make_authority(tmp_path, "other")
    own = issue(tmp_path, "client", other, subject="heliostat")
    access = RegistryAccess((secured.url,), security=over_tls(authority, own))
    with HttpRegistry(access, retries=ONCE) as registry:
        with pytest.raises(RegistryUnreachable):
            registry.ask(calls.subjects())
        issue(tmp_path, "client", authority, subject="heliostat")
        assert registry.ask(calls.subjects()) == ()


def test_unreadable_certificates_are_told(secured: RegistryServer, authority: KeyPair) -> None:
    missing = KeyPair(Path("/nowhere/c.pem"), Path("/nowhere/c.key"))
    access = RegistryAccess((secured.url,), security=over_tls(authority, missing))
    with HttpRegistry(access) as registry, pytest.raises(CredentialsUnreadable):
        registry.ask(calls.subjects())


def _token(text: str) -> bytes:
    return json.dumps({"access_token": text, "expires_in": 3600}).encode()
