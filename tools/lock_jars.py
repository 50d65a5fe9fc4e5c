"""Make `jars.lock.json`: fetch each set again and write down the files.

Run it after changing `SETS`, look at the difference, commit it. Ivy has compared each file with the
checksum its registry publishes; from then on the lock file decides.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from heliostat_sandbox.jars import (
    APICURIO,
    KAFKA,
    KUBERNETES_MOCK,
    LOCK_FILE,
    MIRROR,
    STREAMS,
    YARN,
    checksums,
    retrieve,
)

LOGGING = (
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    "org.apache.logging.log4j:log4j-core:2.25.4",
)
"""Kafka's modules include no binding of slf4j; without one a broker logs nothing."""

BRIDGE = "org.apache.logging.log4j:log4j-1.2-api:2.25.4"
"""Brokers before 4.0, and YARN, call log4j 1 themselves; this forwards its calls to log4j 2."""

SETS = {
    KAFKA: ("org.apache.kafka:kafka_2.13:4.3.0", *LOGGING),
    "kafka-3.9.1": ("org.apache.kafka:kafka_2.13:3.9.1", *LOGGING, BRIDGE),
    "kafka-2.8.2": ("org.apache.kafka:kafka_2.13:2.8.2", *LOGGING, BRIDGE),
    MIRROR: (
        "org.apache.kafka:connect-mirror:4.3.0",
        "org.apache.kafka:connect-runtime:4.3.0",
        "org.apache.kafka:kafka-tools:4.3.0",
        *LOGGING,
    ),
    STREAMS: ("org.apache.kafka:kafka-streams:4.3.0", *LOGGING),
    YARN: (
        "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
        "org.bouncycastle:bcpkix-jdk18on:1.82",  # its proxy's certificates; left out of that module
        *LOGGING,
        BRIDGE,
    ),
    KUBERNETES_MOCK: ("io.fabric8:kubernetes-server-mock:7.6.1",),
    APICURIO: ("io.apicurio:apicurio-registry-app:2.5.11.Final:all",),
}


def main() -> None:
    """Write the lock file beside the code that reads it."""
    lock = {}
    with tempfile.TemporaryDirectory() as work:
        for name, modules in SETS.items():
            folder = Path(work) / name
            retrieve(modules, folder, work=Path(work) / "ivy")
            lock[name] = {"modules": list(modules), "sha256": checksums(folder)}
            print(f"{name}: {len(lock[name]['sha256'])} jars")
    path = Path(__file__).resolve().parents[1] / "sandbox" / "heliostat_sandbox" / LOCK_FILE
    path.write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
