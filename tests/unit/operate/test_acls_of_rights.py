"""The rights that a link needs for rights that follow the source."""

from __future__ import annotations

from typing import Any

import pytest

from heliostat.clusters.acl import Operation, ResourceKind
from heliostat.config import Config
from heliostat.operate.acls import link_grants


@pytest.mark.parametrize(
    ("access", "source", "target"),
    [
        ({}, set(), {Operation.DESCRIBE_CONFIGS}),
        (
            {"sync_acls": True},
            {Operation.DESCRIBE},
            {Operation.ALTER, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS},
        ),
        (
            {"sync_quotas": True},
            {Operation.DESCRIBE_CONFIGS},
            {Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS},
        ),
        (
            {"users_file": "users.yaml"},
            {Operation.DESCRIBE},
            {Operation.ALTER, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS},
        ),
    ],
)
def test_each_switch_has_its_rights_on_the_cluster(
    access: dict[str, Any], source: set[Operation], target: set[Operation]
) -> None:
    config = Config.model_validate(
        {
            "clusters": {"a": {"bootstrap": "x:1"}, "b": {"bootstrap": "y:1"}},
            "links": [{"name": "l", "source": "a", "target": "b", "access": access}],
        }
    )
    sides = link_grants(config, config.links[0])
    on_cluster = [
        {rule.operation for rule in side.rules if rule.kind is ResourceKind.CLUSTER}
        for side in sides
    ]
    assert on_cluster == [source, target]
