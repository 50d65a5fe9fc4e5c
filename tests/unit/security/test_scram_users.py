"""SCRAM users: missing ones are made of references, none is ever overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heliostat.access import SecretRef
from heliostat.clusters.scram_user import ScramCredential, ScramMechanism
from heliostat.config.access import NameRule
from heliostat.config.passwords import load_passwords
from heliostat.errors import BrokerError, ConfigError
from heliostat.names import BrokerId
from heliostat.security.scram_users import look_at_users, make_users, scram_plan

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


class Users:
    def __init__(self, *brokers: Any) -> None:
        self.answers = {BrokerId(n): each for n, each in enumerate(brokers)}
        self.made: list[Any] = []

    def describe_scram_users_everywhere(self) -> Any:
        return self.answers

    def alter_scram_users(self, upsertions: Any) -> Any:
        self.made += upsertions
        return {(each.credential.user, each.credential.mechanism): None for each in upsertions}


def test_only_what_is_missing_and_referred_to_is_made(tmp_path: Path) -> None:
    word = tmp_path / "word"
    word.write_text("secret\n")
    there = ScramCredential("b", SHA_256, 4096)
    source = Users(
        frozenset(
            {
                ScramCredential("a", SHA_256, 8192),
                ScramCredential("a", SHA_512, 4096),
                ScramCredential("b", SHA_256, 8192),
                ScramCredential("c", SHA_256, 4096),
                ScramCredential("hidden", SHA_256, 4096),
            }
        )
    )
    target = Users(frozenset(), frozenset({there}))  # one broker lags
    rules = [NameRule(pattern="User:a", to="User:a2"), NameRule(pattern="User:hidden", to=None)]
    passwords = {user: SecretRef(file=str(word)) for user in ("a2", "b")}
    plan = look_at_users(source, target, rules, passwords)
    assert plan.make == [
        ScramCredential("a2", SHA_256, 8192),
        ScramCredential("a2", SHA_512, 4096),
    ]
    assert len(plan.notes) == 2  # b differs, c has no reference
    done = make_users(plan, target, passwords)
    assert done.made == 2
    assert [each.credential for each in target.made] == plan.make
    assert len({each.salt for each in target.made}) == 2
    assert not scram_plan(plan.make, plan.make, (), passwords).make


def test_a_silent_broker_makes_nobody_look_missing() -> None:
    source = Users(frozenset({ScramCredential("a", SHA_256, 4096)}))
    target = Users(frozenset(), BrokerError("silent", kafka_code=13))
    with pytest.raises(BrokerError, match="silent"):
        look_at_users(source, target, (), {"a"})


def test_a_password_that_cannot_be_read_is_named_and_others_are_made(tmp_path: Path) -> None:
    word = tmp_path / "word"
    word.write_text("secret")
    target = Users(frozenset())
    plan = scram_plan(
        [ScramCredential(user, SHA_256, 4096) for user in ("a", "b")], (), (), {"a", "b"}
    )
    passwords = {"a": SecretRef(file=str(tmp_path / "no")), "b": SecretRef(file=str(word))}
    done = make_users(plan, target, passwords)
    assert [each.credential.user for each in target.made] == ["b"]
    assert len(done.notes) == 1


def test_a_file_of_passwords_themselves_is_refused_without_repeating_them(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.write_text("alice: hunter2\nbob: {env: BOB}\n")
    with pytest.raises(ConfigError, match="alice") as raised:
        load_passwords(str(path))
    assert "hunter2" not in str(raised.value)
    path.write_text("bob: {env: BOB}\n")
    assert load_passwords(str(path)) == {"bob": SecretRef(env="BOB")}
