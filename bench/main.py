"""Compare Heliostat with MirrorMaker 2 on this machine.

`latency`, `efd`, `many` and `catchup` are live scenarios, see `live.py`. `maps` needs no brokers,
see `maps.py`; `steady` runs Heliostat alone and looks for growth, see `steady.py`, and `watched`
while many clients ask for its status, see `watched.py`, or while a topic is steered, see
`steered.py`. `bulk`, `tiny`,
`transactional` and `compacted` copy existing records: two brokers, one source topic per codec, and
one part after another copies it to a fresh target topic: MirrorMaker 2 with defaults, MirrorMaker 2
tuned, Heliostat, and the most that the target can append. See bench/README.md for what each figure
means.
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import failover
import groups
import live_main
import machine
import maps
import ours
import peer
import report
import schemas
import steady
import steered
import watched
from clusters import KAFKA_VERSION, SIDES, pair_of_clusters
from live_report import BASE_LINE
from live_scenarios import LIVE
from reach import NEAR, Far
from scenarios import PART_NAMES, PARTS_WITH_HOLES, SCENARIOS, WORKERS, Bench, Scenario

from heliostat_sandbox import find_java

OURS_ALONE = (steady.NAME, steered.NAME, watched.NAME)
ALONE = (failover.NAME, groups.NAME, maps.NAME, schemas.NAME, *OURS_ALONE)
"""Scenarios that are like no other one."""
EXIT_UNFINISHED = 1
ROUND_TRIP_MS = 150.0
"""Between two continents, as the first users' clusters are."""
Results = dict[str, dict[str, dict[str, Any]]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/compare", description=__doc__)
    parser.add_argument("scenario", choices=sorted({*SCENARIOS, *LIVE, *ALONE}))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument("--small", action="store_true", help="a few thousand records: a test")
    parser.add_argument(
        "--part",
        nargs="+",
        choices=(*PART_NAMES, *WORKERS, ours.MERGED, BASE_LINE, *schemas.PARTS),
        help="only these; with --json, the other parts of an existing FILE are kept",
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="only try the settings of MirrorMaker 2 in bench/peer.py",
    )
    parser.add_argument(
        "--secure", action="store_true", help="bulk and tiny: replicators come by TLS with SCRAM"
    )
    parser.add_argument(
        "--spark",
        choices=("standalone",),
        help="bulk and tiny: ours also on a Spark cluster of its own, with one and two workers",
    )
    parser.add_argument("--codec", choices=("none", "lz4"), help="only this codec of the scenario")
    parser.add_argument(
        "--rate", type=int, nargs="+", help="only these records a second of a live scenario"
    )
    parser.add_argument(
        "--latency-target-ms",
        type=float,
        help="ours in a live scenario: records.latency_target_ms, instead of its default",
    )
    parser.add_argument(
        "--far", choices=SIDES, help="this cluster is a long line away from the replicators"
    )
    parser.add_argument(
        "--round-trip-ms", type=float, default=None, help="how long the line is, instead of 150"
    )
    parser.add_argument(
        "--priority",
        action="store_true",
        help="catchup: ours with high priority for live topics; also with half of the speed",
    )
    parser.add_argument("--minutes", type=float, help="how long steady runs, instead of 60")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep configs and logs there")
    given = parser.parse_args()
    complete(parser, given)
    return given


def complete(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuse what does not fit together, and choose the parts if none are given."""
    if BASE_LINE in (given.part or ()) and not has_base_line(given.scenario):
        parser.error("base_line is a part of latency, efd and many")
    if given.scenario == schemas.NAME:
        given.part = given.part or list(schemas.PARTS)
    if (given.scenario == schemas.NAME) != any(each in schemas.PARTS for each in given.part or ()):
        parser.error(f"{', '.join(schemas.PARTS)} are the parts of schemas, which has no others")
    if given.scenario in OURS_ALONE and given.part not in (None, ["ours"]):
        parser.error(f"{given.scenario} runs ours alone")
    if given.part is None:
        scenario = SCENARIOS.get(given.scenario)
        has_holes = scenario is not None and (scenario.holes or scenario.steps)
        names = PARTS_WITH_HOLES if has_holes else PART_NAMES
        base = [BASE_LINE] if has_base_line(given.scenario) else []
        given.part = [*base, *names, *(WORKERS if given.spark else ())]
    has_codecs = given.scenario in (*SCENARIOS, schemas.NAME)
    if (given.codec and not has_codecs) or (
        given.scenario not in SCENARIOS and (given.tune or given.secure or given.spark)
    ):
        parser.error("--tune, --codec, --secure and --spark are for bulk and tiny")
    refuse_of_live(parser, given)
    if given.far and given.scenario not in (*SCENARIOS, *LIVE):
        parser.error("--far is for scenarios with MirrorMaker 2 beside ours")
    if given.round_trip_ms is not None and not given.far:
        parser.error("--round-trip-ms is for --far")
    given.far = Far(given.far, given.round_trip_ms or ROUND_TRIP_MS) if given.far else NEAR
    if given.scenario != steady.NAME and given.minutes:
        parser.error("--minutes is for steady")


def refuse_of_live(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuse options of live scenarios with others."""
    if given.scenario not in (*LIVE, schemas.NAME) and given.rate:
        parser.error("--rate is for latency, efd and catchup")
    if given.scenario not in LIVE and given.latency_target_ms is not None:
        parser.error("--latency-target-ms is for live scenarios")
    if given.priority and given.scenario != "catchup":
        parser.error("--priority is for catchup")


def has_base_line(scenario: str) -> bool:
    """Whether a scenario's load is also measured without a replicator."""
    return scenario in LIVE and BASE_LINE in live_main.parts_of(scenario)


def main() -> int:
    # So that SIGTERM stops brokers and replicators too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    given = arguments()
    if given.scenario == maps.NAME:
        return maps.run(given)
    with tempfile.TemporaryDirectory(prefix="heliostat-bench-") as temporary:
        folder = (given.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for each in (failover, groups, schemas, steady, steered, watched):
            if given.scenario == each.NAME:
                return int(each.run(given, folder))
        return live_main.run(given, folder) if given.scenario in LIVE else run(given, folder)


def run(given: argparse.Namespace, folder: Path) -> int:
    """Fill, measure every part for every codec, and report; the report grows part by part."""
    scenario = SCENARIOS[given.scenario]
    if given.small:
        scenario = scenario.shrunk()
    if given.codec:
        scenario = dataclasses.replace(scenario, codecs=(given.codec,))
    scenario = dataclasses.replace(scenario, secure=given.secure, far=given.far)
    shape = dataclasses.asdict(scenario)
    results: Results = report.earlier(given.json, shape) if given.json else {}
    java = find_java()
    with pair_of_clusters(secure=given.secure, small=given.small, far=given.far) as pair:
        about = machine.describe(java, KAFKA_VERSION, pair.logs)
        bench = Bench(scenario=scenario, pair=pair, folder=folder, java=java)
        for codec in scenario.codecs:
            note(f"filling {scenario.topic(codec)}: {scenario.records:,} records")
            bench.fill(codec)
            for name, measured in parts(given, bench, codec):
                results.setdefault(name, {})[codec] = measured
                if given.json:
                    write(given, scenario, about, results)
    if given.tune:
        return 0
    final = report.document(shape, about, results, scenario.codecs)
    report.show(final, scenario.codecs)
    return 0 if all(final[name]["finished"] for name in given.part) else EXIT_UNFINISHED


def parts(given: argparse.Namespace, bench: Bench, codec: str) -> Any:
    """Measure part after part (or setting after setting of MirrorMaker 2): name and block."""
    names = list(peer.CANDIDATES) if given.tune else given.part
    for name in names:
        if given.tune:
            block = bench.mirror_maker("tune", codec, peer.CANDIDATES[name])
        else:
            block = bench.measure(name, codec)
        if block["finished"]:
            words = f"{block['records_per_s']:,} records/s, "
            words += f"{block['cpu_s_per_million_records']} CPU s per million records"
        else:
            words = f"did not finish: {block['reason']}\n{block.get('output_tail', '')}"
        note(f"{codec:5} {name}: {words}")
        yield name, block


def write(
    given: argparse.Namespace, scenario: Scenario, about: dict[str, Any], results: Results
) -> None:
    """Write the results so far."""
    shape = dataclasses.asdict(scenario)
    if given.tune:
        tuning = {"scenario": scenario.name, "machine": about, "tuning": results}
        report.write(given.json, tuning)
    else:
        report.write(given.json, report.document(shape, about, results, scenario.codecs))


def note(words: str) -> None:
    """Print the progress, apart from the table."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
