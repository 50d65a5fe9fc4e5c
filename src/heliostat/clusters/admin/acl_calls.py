"""ACLs: describe them, as one broker knows them; create and delete them (KIP-140).

A broker answers from its own copy of the metadata, by which it also decides: one that lags goes on
to allow what others deny already. So a fence holds once each broker, asked itself, shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from typing import Any, TypeVar

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from heliostat.clusters.acl import (
    AclBinding,
    AclListing,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.kafka_codes import SECURITY_DISABLED
from heliostat.errors import BrokerError, ProtocolError
from heliostat.names import BrokerId

BINDINGS_PER_REQUEST = 1000
"""The controller writes at most 10,000 records for one request (`MAX_RECORDS_PER_USER_OP`)."""
_ANY = 1  # of `ResourceType`, `PatternType`, `AclOperation` and `AclPermissionType`
_KINDS = {
    ResourceKind.TOPIC: 2,
    ResourceKind.GROUP: 3,
    ResourceKind.CLUSTER: 4,
    ResourceKind.TRANSACTIONAL_ID: 5,
    ResourceKind.DELEGATION_TOKEN: 6,
    ResourceKind.USER: 7,
}
_PATTERNS = {PatternKind.LITERAL: 3, PatternKind.PREFIXED: 4}
OPERATION_CODES = {
    Operation.ALL: 2,
    Operation.READ: 3,
    Operation.WRITE: 4,
    Operation.CREATE: 5,
    Operation.DELETE: 6,
    Operation.ALTER: 7,
    Operation.DESCRIBE: 8,
    Operation.CLUSTER_ACTION: 9,
    Operation.DESCRIBE_CONFIGS: 10,
    Operation.ALTER_CONFIGS: 11,
    Operation.IDEMPOTENT_WRITE: 12,
    Operation.CREATE_TOKENS: 13,
    Operation.DESCRIBE_TOKENS: 14,
    Operation.TWO_PHASE_COMMIT: 15,
}
"""`AclOperation`, in rules and among what a broker says that we may do."""
_PERMISSIONS = {Permission.DENY: 2, Permission.ALLOW: 3}
_Part = TypeVar("_Part", bound=Enum)
Describing = AclListing | BrokerError


def describe(caller: Caller, broker: BrokerId | None = None) -> Describing:
    """All bindings as one broker knows them; without an authorizer an empty listing that says so.

    The error, mostly a missing right to describe the cluster, is returned.

    Raises
    ------
    ConnectionLost
        The broker does not answer.
    """
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = caller.send(request, broker)
    if answer.error_code == SECURITY_DISABLED:
        return AclListing(has_authorizer=False)
    error = error_of(answer.error_code, "describe the cluster's ACLs", answer.error_message)
    if error is not None:
        return error
    return AclListing(
        frozenset(_binding(resource, row) for resource in answer.resources for row in resource.acls)
    )


def create(caller: Caller, bindings: Iterable[AclBinding]) -> dict[AclBinding, BrokerError | None]:
    """Create bindings; None for each success, also where the same one was there before."""
    answers: dict[AclBinding, BrokerError | None] = {}
    kind = CreateAclsRequest.AclCreation
    for some in _chunks(bindings):
        request = CreateAclsRequest(
            creations=[
                kind(
                    resource_type=_KINDS[acl.rule.kind],
                    resource_name=acl.rule.name,
                    resource_pattern_type=_PATTERNS[acl.rule.pattern],
                    principal=acl.rule.principal,
                    host=acl.host,
                    operation=OPERATION_CODES[acl.rule.operation],
                    permission_type=_PERMISSIONS[acl.permission],
                )
                for acl in some
            ]
        )
        rows = caller.send(request).results
        for binding, row in zip(some, _as_many(rows, some), strict=True):
            answers[binding] = error_of(row.error_code, f"create ACL {binding}", row.error_message)
    return answers


def delete(caller: Caller, bindings: Iterable[AclBinding]) -> dict[AclBinding, bool | BrokerError]:
    """Delete exactly these bindings; whether each was there."""
    answers: dict[AclBinding, bool | BrokerError] = {}
    kind = DeleteAclsRequest.DeleteAclsFilter
    for some in _chunks(bindings):
        request = DeleteAclsRequest(
            filters=[
                kind(
                    resource_type_filter=_KINDS[acl.rule.kind],
                    resource_name_filter=acl.rule.name,
                    pattern_type_filter=_PATTERNS[acl.rule.pattern],
                    principal_filter=acl.rule.principal,
                    host_filter=acl.host,
                    operation=OPERATION_CODES[acl.rule.operation],
                    permission_type=_PERMISSIONS[acl.permission],
                )
                for acl in some
            ]
        )
        rows = caller.send(request).filter_results
        for binding, row in zip(some, _as_many(rows, some), strict=True):
            failed = [match for match in row.matching_acls if match.error_code]
            worst = row if row.error_code or not failed else failed[0]
            error = error_of(worst.error_code, f"delete ACL {binding}", worst.error_message)
            answers[binding] = error or bool(row.matching_acls)
    return answers


def _chunks(bindings: Iterable[AclBinding]) -> Iterable[list[AclBinding]]:
    """Some at a time, in order.

    Raises
    ------
    ValueError
        One has a part that we don't know.
    """
    ordered = sorted(set(bindings), key=lambda binding: binding.sort_key)
    for binding in ordered:
        if not binding.is_whole:
            raise ValueError(f"a part of this ACL is unknown: {binding}")
    pending = iter(ordered)
    return iter(lambda: list(islice(pending, BINDINGS_PER_REQUEST)), [])


def _as_many(rows: list[Any], asked: list[AclBinding]) -> list[Any]:
    if len(rows) != len(asked):
        raise ProtocolError("an answer about ACLs has other rows", asked=len(asked), rows=len(rows))
    return rows


def _binding(resource: Any, row: Any) -> AclBinding:
    rule = AclRule(
        row.principal,
        _part(OPERATION_CODES, row.operation, Operation.UNKNOWN),
        _part(_KINDS, resource.resource_type, ResourceKind.UNKNOWN),
        resource.resource_name,
        _part(_PATTERNS, resource.pattern_type, PatternKind.UNKNOWN),
    )
    permission = _part(_PERMISSIONS, row.permission_type, Permission.UNKNOWN)
    return AclBinding(rule, permission, row.host)


def _part(codes: Mapping[_Part, int], code: int, unknown: _Part) -> _Part:
    return next((part for part, part_code in codes.items() if part_code == code), unknown)
