"""SCRAM users, compared by name, mechanism and iterations: no request returns a hash.

What is missing at the target is made of a password that the operator refers to. What is there is
never overwritten.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from heliostat.access import SecretRef
from heliostat.clusters.credentials import reveal
from heliostat.clusters.scram_user import ScramCredential, ScramUpsertion
from heliostat.config.access import NameRule
from heliostat.errors import BrokerError, HeliostatError
from heliostat.names import BrokerId
from heliostat.security.names import renamed

SALT_BYTES = 32
USER = "User:"


class ScramRequests(Protocol):
    """Requests, as `SecurityAdmin`."""

    def describe_scram_users_everywhere(
        self,
    ) -> Mapping[BrokerId, frozenset[ScramCredential] | BrokerError]:
        """Credentials of all users, as each broker knows them itself."""
        ...

    def alter_scram_users(self, upsertions: Any, /) -> Mapping[Any, BrokerError | None]:
        """Make credentials."""
        ...


@dataclass(slots=True)
class ScramPlan:
    """Which credentials are made, and which can't be."""

    make: list[ScramCredential] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Users without a reference, and other differences."""
    made: int = 0


def scram_plan(
    source: Iterable[ScramCredential],
    target: Iterable[ScramCredential],
    rules: Sequence[NameRule],
    users: Collection[str],
) -> ScramPlan:
    """Return what to make at the target; pure.

    Parameters
    ----------
    rules
        What principals are at the target.
    users
        Names at the target of users whose passwords are referred to.
    """
    plan = ScramPlan()
    there = {credential.sort_key: credential for credential in target}
    wanted: dict[tuple[str, str], ScramCredential] = {}
    for credential in sorted(source, key=lambda source_credential: source_credential.sort_key):
        name = renamed(USER + credential.user, rules)
        if name is not None:
            user = name.removeprefix(USER)
            alike = ScramCredential(user, credential.mechanism, credential.iterations)
            wanted.setdefault(alike.sort_key, alike)
    for key, credential in sorted(wanted.items()):
        present = there.get(key)
        if present is None and credential.user in users:
            plan.make.append(credential)
        elif present is None:
            plan.notes.append(f"SCRAM user {credential} is missing: no reference to its password")
        elif present.iterations != credential.iterations:
            plan.notes.append(
                f"SCRAM user {present} stays as it is: the source has {credential.iterations}"
            )
    return plan


def look_at_users(
    source: ScramRequests,
    target: ScramRequests,
    rules: Sequence[NameRule],
    users: Collection[str],
) -> ScramPlan:
    """Ask all brokers of both clusters, and decide; changes nothing.

    A broker of the target that does not answer, or lags, must not let a user look missing: then
    nothing is made.

    Raises
    ------
    BrokerError
        A broker refuses or does not answer.
    """
    return scram_plan(_union(source), _union(target), rules, users)


def _union(requests: ScramRequests) -> set[ScramCredential]:
    credentials: set[ScramCredential] = set()
    for answer in requests.describe_scram_users_everywhere().values():
        if isinstance(answer, BrokerError):
            raise answer
        credentials |= answer
    return credentials


def make_users(
    plan: ScramPlan,
    target: ScramRequests,
    passwords: Mapping[str, SecretRef],
    salt: Callable[[int], bytes] = secrets.token_bytes,
) -> ScramPlan:
    """Make what is missing; return the plan with what was done and what failed."""
    upsertions = []
    notes = list(plan.notes)
    for credential in plan.make:
        try:
            password = reveal(passwords[credential.user])
        except HeliostatError as error:
            notes.append(f"SCRAM user {credential} is missing: {error}")
            continue
        upsertions.append(ScramUpsertion.of(credential, password, salt(SALT_BYTES)))
    answers = target.alter_scram_users(upsertions) if upsertions else {}
    failed = [str(error) for error in answers.values() if error is not None]
    return ScramPlan(plan.make, [*notes, *failed], len(answers) - len(failed))
