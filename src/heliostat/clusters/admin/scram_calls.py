"""SCRAM credentials (KIP-554): describe, make and delete. No request returns a hash."""

from __future__ import annotations

from collections.abc import Iterable

from kafka.protocol.admin import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)

from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.scram_user import ScramCredential, ScramMechanism, ScramUpsertion
from heliostat.errors import BrokerError
from heliostat.names import BrokerId

_CODES = {ScramMechanism.SCRAM_SHA_256: 1, ScramMechanism.SCRAM_SHA_512: 2}
_MECHANISMS = {code: mechanism for mechanism, code in _CODES.items()}

ScramKey = tuple[str, ScramMechanism]


def describe(caller: Caller, broker: BrokerId | None = None) -> frozenset[ScramCredential]:
    """Credentials of all users, with mechanisms that we know.

    Raises
    ------
    BrokerError
        We may not see them, or the cluster is older than 2.7.
    """
    answer = caller.send(DescribeUserScramCredentialsRequest(users=None), broker)
    error = error_of(answer.error_code, "describe SCRAM users", answer.error_message)
    if error is not None:
        raise error
    credentials = set()
    for row in answer.results:
        error = error_of(row.error_code, f"describe SCRAM user {row.user}", row.error_message)
        if error is not None:
            raise error
        credentials |= {
            ScramCredential(row.user, _MECHANISMS[info.mechanism], info.iterations)
            for info in row.credential_infos
            if info.mechanism in _MECHANISMS
        }
    return frozenset(credentials)


def alter(
    caller: Caller, upsertions: Iterable[ScramUpsertion], deletions: Iterable[ScramKey] = ()
) -> dict[ScramKey, BrokerError | None]:
    """Make credentials, or replace them, and delete others; None for each that succeeded.

    One request for each mechanism: brokers refuse one that has a user twice.
    """
    kind = AlterUserScramCredentialsRequest
    wanted, gone = list(upsertions), list(deletions)
    answers: dict[ScramKey, BrokerError | None] = {}
    for mechanism, code in _CODES.items():
        request = kind(
            deletions=[
                kind.ScramCredentialDeletion(name=user, mechanism=code)
                for user, of in gone
                if of is mechanism
            ],
            upsertions=[
                kind.ScramCredentialUpsertion(
                    name=upsertion.credential.user,
                    mechanism=code,
                    iterations=upsertion.credential.iterations,
                    salt=upsertion.salt,
                    salted_password=upsertion.salted_password,
                )
                for upsertion in wanted
                if upsertion.credential.mechanism is mechanism
            ],
        )
        if request.deletions or request.upsertions:
            for row in caller.send_to_controller(request).results:
                what = f"change SCRAM user {row.user}"
                answers[row.user, mechanism] = error_of(row.error_code, what, row.error_message)
    return answers
