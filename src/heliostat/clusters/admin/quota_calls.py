"""Client quotas (KIP-546): describe and alter."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.client_quota import QuotaEntity, Quotas
from heliostat.errors import BrokerError
from heliostat.names import BrokerId

Changes = Mapping[QuotaEntity, Mapping[str, float | None]]


def describe(caller: Caller, broker: BrokerId | None = None) -> Quotas:
    """Limits of all entities, by key, as one broker knows them.

    Raises
    ------
    BrokerError
        We may not see them, or the cluster is older than 2.6.
    """
    answer = caller.send(DescribeClientQuotasRequest(components=[], strict=False), broker)
    error = error_of(answer.error_code, "describe client quotas", answer.error_message)
    if error is not None:
        raise error
    return {
        QuotaEntity.of({part.entity_type: part.entity_name for part in row.entity}): {
            value.key: value.value for value in row.values
        }
        for row in answer.entries or ()
    }


def alter(
    caller: Caller, changes: Changes, *, validate_only: bool
) -> dict[QuotaEntity, BrokerError | None]:
    """Set limits, remove those given as None; None for each entity that succeeded."""
    if not changes:
        return {}
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[
                    entry.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.parts
                ],
                ops=[
                    entry.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in sorted(limits.items())
                ],
            )
            for entity, limits in sorted(changes.items(), key=lambda item: item[0].sort_key)
        ],
        validate_only=validate_only,
    )
    answers: dict[QuotaEntity, BrokerError | None] = {}
    for row in caller.send(request).entries:
        entity = QuotaEntity.of({part.entity_type: part.entity_name for part in row.entity})
        what = f"change quotas of {entity}"
        answers[entity] = error_of(row.error_code, what, row.error_message)
    return answers
