"""AWS_MSK_IAM: what is signed, with which credentials, and what a broker makes of it."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

import botocore.auth
import kafka.net.sasl.msk
import pytest
from botocore.credentials import ReadOnlyCredentials
from kafka.net.sasl import get_sasl_mechanism
from support.scripted_broker import Script, ScriptedBroker, signer_of

from heliostat.access import ClusterAccess, Sasl, Security
from heliostat.clusters import msk_iam
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.msk_iam import region_of, signed
from heliostat.clusters.wire.connection import Connection, DialSettings
from heliostat.errors import AuthenticationRefused, CredentialsUnreadable
from heliostat_sandbox.certificates import KeyPair, issue, make_authority

KEY_ID, KEY = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = "of=a/role+with&signs"  # noqa: S105  # a test's
HOST = "b-1.mirror.abc123.c2.kafka.eu-central-1.amazonaws.com"
REGION = "eu-central-1"
NOW = dt.datetime(2026, 11, 28, 10, 30, 0, tzinfo=dt.UTC)
SASL = Sasl("AWS_MSK_IAM", aws_region=REGION)


@pytest.fixture(autouse=True)
def _only_these_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": KEY,
    }.items():
        monkeypatch.setenv(name, value)


class _Clock(dt.datetime):
    """Stands still."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return NOW if tz else NOW.replace(tzinfo=None)


@pytest.mark.parametrize("token", [None, TOKEN])
def test_what_is_signed_is_what_another_client_signs(
    monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    """Given a fixed time and key / when signed / then as kafka-python's own signer does."""
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: NOW.replace(tzinfo=None))
    monkeypatch.setattr(kafka.net.sasl.msk.datetime, "datetime", _Clock)
    other = kafka.net.sasl.msk.AwsMskIamClient(HOST, KEY_ID, KEY, REGION, token)
    expected = json.loads(other.first_message()) | {"user-agent": "heliostat"}
    request = signed(HOST, REGION, ReadOnlyCredentials(KEY_ID, KEY, token))
    assert json.loads(request) == expected
    assert signer_of(request, {KEY_ID: KEY}) == KEY_ID
    assert signer_of(request.replace(b"b-1", b"b-2"), {KEY_ID: KEY}) == ""
    assert signer_of(request, {KEY_ID: "another"}) == ""


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, REGION),
        ("boot-x.c1.kafka-serverless.us-east-1.amazonaws.com", "us-east-1"),
        ("b-1-public.m.x.c3.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ],
)
def test_the_region_is_in_the_name_of_amazons_brokers(host: str, region: str) -> None:
    assert region_of(host) == region


def test_without_a_region_the_key_to_set_is_said() -> None:
    with pytest.raises(CredentialsUnreadable, match=r"set security\.aws_region"):
        region_of("kafka.example.org")


def mechanism(sasl: Sasl = SASL) -> Any:
    """Return kafka-python's mechanism, with what its clients give it."""
    settings = client_settings(ClusterAccess(("h:1",), Security("SASL_SSL", sasl=sasl)))
    return get_sasl_mechanism("AWS_MSK_IAM")(host=HOST, **settings)


def test_clients_of_kafka_python_sign_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    one = mechanism(Sasl("AWS_MSK_IAM"))
    assert signer_of(one.auth_bytes(), {KEY_ID: KEY}) == KEY_ID
    assert not one.is_done()
    one.receive(b"{}")
    assert one.is_done()
    assert one.is_authenticated()


def test_a_profile_is_read_again_for_each_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for word in ("first", "second"):
        (tmp_path / "credentials").write_text(
            f"[mirror]\naws_access_key_id = {word}\naws_secret_access_key = {word}-key\n"
        )
        request = mechanism(Sasl("AWS_MSK_IAM", aws_region=REGION, aws_profile="mirror"))
        assert signer_of(request.auth_bytes(), {word: f"{word}-key"}) == word
    with pytest.raises(CredentialsUnreadable, match=r"ProfileNotFound.*profile='other'"):
        mechanism(Sasl("AWS_MSK_IAM", aws_region=REGION, aws_profile="other")).auth_bytes()


def test_missing_credentials_and_a_missing_package_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(CredentialsUnreadable, match="there are no AWS credentials"):
        mechanism().auth_bytes()
    monkeypatch.setitem(sys.modules, "botocore.credentials", None)
    with pytest.raises(CredentialsUnreadable, match=r"pip install 'heliostat\[msk-iam\]'"):
        mechanism().auth_bytes()


def test_credentials_that_renew_themselves_are_kept_until_a_broker_refuses_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from botocore.credentials import RefreshableCredentials
    from botocore.session import Session

    asked: list[str] = []

    def renewable(session: Session) -> RefreshableCredentials:
        asked.append("")
        expires = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        return RefreshableCredentials(KEY_ID, KEY, TOKEN, expires, dict, "test")

    monkeypatch.setattr(Session, "get_credentials", renewable)
    for _ in range(3):
        assert signer_of(mechanism().auth_bytes(), {KEY_ID: KEY}) == KEY_ID
    assert len(asked) == 1
    msk_iam.forget("")
    mechanism().auth_bytes()
    assert len(asked) == 2
    msk_iam.forget("")


def test_a_broker_accepts_the_signature_of_the_right_key_only(tmp_path: Path) -> None:
    """Given a listener that computes the signature anew / when dialed / then it decides."""
    authority = make_authority(tmp_path, "ca")
    issue(tmp_path, "broker", authority, subject="broker", hosts=("IP:127.0.0.1",))
    pair = KeyPair(tmp_path / "broker.pem", tmp_path / "broker.key")
    script = Script(pair, mechanisms=("AWS_MSK_IAM",), users={KEY_ID: KEY})
    security = Security("SASL_SSL", ca_file=str(tmp_path / "ca.pem"), sasl=SASL)
    settings = DialSettings("test", request_timeout_s=10.0, security=security)
    with ScriptedBroker(script) as broker:
        Connection(broker.endpoint, settings).close()
        assert broker.authenticated == [KEY_ID]
        script.users = {KEY_ID: "another"}
        with pytest.raises(AuthenticationRefused, match=r"refuses our credentials \(AWS_MSK_IAM\)"):
            Connection(broker.endpoint, settings)
