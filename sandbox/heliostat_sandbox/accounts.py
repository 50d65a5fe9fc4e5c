"""SCRAM credentials and ACLs of a running sandbox cluster, managed as its super user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from heliostat.clusters.acl import AclRule, Operation
from heliostat.errors import SandboxError

ANY_HOST = "*"
CLIENT_ID = "heliostat-sandbox"


class Accounts:
    """Administration of users and ACLs while the cluster runs.

    Brokers apply a change within a tenth of a second after it was answered; wait for its effect.

    Parameters
    ----------
    bootstrap
        Addresses of the PLAINTEXT listener, whose clients are super users.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def set_passwords(self, users: Mapping[str, str]) -> None:
        """Set users' SCRAM passwords, for SHA-256 and SHA-512.

        Raises
        ------
        SandboxError
            The cluster refused one.
        """
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            with self._admin() as admin:
                answers = admin.alter_user_scram_credentials(
                    [UserScramCredentialUpsertion(u, mechanism, p) for u, p in users.items()]
                )
            _refuse("a password is refused", answers)

    def remove_passwords(self, users: Iterable[str]) -> None:
        """Remove users' SCRAM passwords; open connections stay open.

        Raises
        ------
        SandboxError
            A user has none.
        """
        names = list(users)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            with self._admin() as admin:
                answers = admin.alter_user_scram_credentials(
                    [UserScramCredentialDeletion(user, mechanism) for user in names]
                )
            _refuse("a password can't be removed", answers)

    def allow(self, rules: Iterable[AclRule]) -> None:
        """Add ACLs that allow something.

        Raises
        ------
        SandboxError
            The cluster refused one, or has no authorizer.
        """
        self._create(rules, ACLPermissionType.ALLOW)

    def deny(self, rules: Iterable[AclRule]) -> None:
        """Add ACLs that deny something, which win over those that allow it.

        Raises
        ------
        SandboxError
            As `allow`.
        """
        self._create(rules, ACLPermissionType.DENY)

    def take_back(self, rules: Iterable[AclRule]) -> int:
        """Remove these rules, allowing or denying ones, and return how many there were.

        Raises
        ------
        SandboxError
            As `allow`.
        """
        filters = [
            ACLFilter(
                rule.principal,
                ANY_HOST,
                _operation(rule.operation),
                ACLPermissionType.ANY,
                ResourcePatternFilter(_resource(rule), rule.name, _pattern(rule)),
            )
            for rule in rules
        ]
        return self._delete(filters)

    def take_all_back(self) -> int:
        """Remove every rule of the cluster, and return how many there were."""
        everything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        return self._delete(
            [ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, everything)]
        )

    def _create(self, rules: Iterable[AclRule], permission: ACLPermissionType) -> None:
        wanted = [
            ACL(
                rule.principal,
                ANY_HOST,
                _operation(rule.operation),
                permission,
                ResourcePattern(_resource(rule), rule.name, _pattern(rule)),
            )
            for rule in rules
        ]
        with self._admin() as admin:
            answer = admin.create_acls(wanted)
        if answer["failed"]:
            raise SandboxError("ACLs are refused", why=[str(each) for each in answer["failed"]])

    def _delete(self, filters: list[ACLFilter]) -> int:
        with self._admin() as admin:
            answers = admin.delete_acls(filters)
        failed = [error.__name__ for _, _, error in answers if error.errno]
        if failed:
            raise SandboxError("ACLs can't be removed", why=failed)
        return sum(len(found) for _, found, _ in answers)

    @contextlib.contextmanager
    def _admin(self) -> Iterator[KafkaAdminClient]:
        client = KafkaAdminClient(bootstrap_servers=self._bootstrap.split(","), client_id=CLIENT_ID)
        try:
            yield client
        finally:
            client.close()


def _refuse(text: str, answers: Mapping[str, str | None]) -> None:
    failed = {user: why for user, why in answers.items() if why is not None}
    if failed:
        raise SandboxError(text, users=failed)


def _operation(operation: Operation) -> ACLOperation:
    return ACLOperation[operation.name]


def _resource(rule: AclRule) -> ResourceType:
    return ResourceType[rule.kind.name]


def _pattern(rule: AclRule) -> ACLResourcePatternType:
    return ACLResourcePatternType[rule.pattern.name]
