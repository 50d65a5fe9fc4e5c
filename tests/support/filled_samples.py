"""Samples of every family there is, which change with time, for boards to be tried on."""

from __future__ import annotations

from heliostat.metrics import families as f
from heliostat.metrics.families import Family, Kind
from heliostat.metrics.text import Samples, labels

STATES = {
    f.LINK_STATE.name: ("running",),
    f.TOPICS.name: ("mirrored", "refused"),
    f.TOPIC_PARTITIONS.name: ("copying", "blocked"),
    f.PARTITION_STATE.name: ("blocked",),
    f.INFLUX_POINTS.name: ("written", "refused", "dropped"),
}
"""Values of a family's last label; others have one."""
LATENCIES = [0] * 8 + [10] + [0] * 8 + [1]


def fill(samples: Samples, turn: int) -> None:
    """Add all samples; counters and times of the past grow by each turn."""
    for family in f.FAMILIES:
        for state in STATES.get(family.name, ("x",)):
            named = {name: _value(name) for name in family.labels}
            if family.labels and family.labels[-1] in ("state", "result"):
                named[family.labels[-1]] = state
            if family.kind is Kind.HISTOGRAM:
                samples.add_latency(family, labels(named), [count * turn for count in LATENCIES])
            else:
                samples.add(family, labels(named), _sample(family, turn))


def _value(label: str) -> str:
    known = {"link": "l", "source": "summit", "target": "usdf", "topic": "lsst.sal.ESS"}
    return known.get(label, {"partition": "3", "side": "source", "q": "p50"}.get(label, "1"))


def _sample(family: Family, turn: int) -> float:
    return turn if family.kind is Kind.COUNTER or "timestamp" in family.name else 1
