"""Named clusters as text or JSON, with what a configuration needs to reach a secured one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import click

from heliostat_sandbox.named import BrokerStatus, ClusterStatus

MIB = 1024 * 1024


def show(found: list[ClusterStatus], *, as_json: bool) -> None:
    """Print clusters and their brokers."""
    if as_json:
        click.echo(json.dumps([{**asdict(each), "alive": each.alive} for each in found], indent=2))
        return
    if not found:
        click.echo("nothing runs (heliostat sandbox up NAME)")
    for cluster in found:
        click.echo(f"{cluster.name}  {cluster.bootstrap}  id {cluster.cluster_id}")
        for broker in cluster.brokers:
            click.echo(
                f"  broker {broker.broker_id}  {broker.address}  pid {broker.pid}  "
                f"{_state(broker)}  {broker.log_bytes / MIB:.1f} MiB in {broker.log_folder}"
            )
        if cluster.registry is not None:
            state = "alive" if cluster.registry.alive else "DEAD"
            click.echo(f"  registry  {cluster.registry.url}  pid {cluster.registry.pid}  {state}")
        for line in _configured(cluster):
            click.echo(f"  {line}")


def _state(broker: BrokerStatus) -> str:
    if not broker.alive:
        return "DEAD"
    return "PAUSED" if broker.paused else "alive"


def _configured(cluster: ClusterStatus) -> Iterator[str]:
    """Yield the lines of a configuration that reaches the cluster with a password."""
    if cluster.secured is None:
        return
    yield "with a password over TLS, in a configuration's `clusters`:"
    addresses = ", ".join(f'"{each}"' for each in cluster.secured.bootstrap.split(","))
    yield f"  {cluster.name}:"
    yield f"    bootstrap: [{addresses}]"
    yield "    security:"
    yield "      protocol: SASL_SSL"
    yield f"      ca_file: {cluster.secured.ca_file}"
    yield f"      mechanism: {cluster.secured.mechanism}"
    yield f"      username: {cluster.secured.username}"
    yield f"      password: {{file: {cluster.secured.password_file}}}"
