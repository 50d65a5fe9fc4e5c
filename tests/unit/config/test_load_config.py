from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from heliostat.config import (
    Config,
    FormatNaming,
    StartAt,
    StartAtGroup,
    StartAtOffsets,
    check_distinct_clusters,
    load_config,
)
from heliostat.errors import ConfigError
from heliostat.names import ClusterId, Endpoint

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "heliostat.yaml"
CLUSTERS = """
clusters:
  summit: {bootstrap: ["127.0.0.1:9092"]}
  usdf: {bootstrap: ["127.0.0.1:9192"]}
"""
LINK = "links: [{name: one, source: summit, target: usdf, topics: {include: [a]}}]\n"


def load(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> Config:
    path = tmp_path / "heliostat.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, env or {})


def problems(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return caught.value.problems


def test_the_example_is_accepted_and_has_the_documented_values():
    config = load_config(EXAMPLE, {})
    link = config.link("summit-to-usdf")
    assert link.topics.config_set == {"min.compaction.lag.ms": "604800000"}
    assert link.topics.refresh_interval_s == 10
    assert link.records.compression == "keep"
    assert link.lanes.count == "auto"
    assert config.clusters[link.source].access().endpoints == (Endpoint("127.0.0.1", 9092),)
    assert config.spark.task_cpus == "auto"


def test_defaults_are_merged_key_by_key_and_a_links_own_value_wins(tmp_path):
    config = load(
        tmp_path,
        CLUSTERS
        + """
defaults:
  topics: {include: [a, b], naming: {prefix: "x."}, config_set: {retention.ms: 5, a: true}}
  records: {in_flight_max: 2}
links:
  - {name: one, source: summit, target: usdf}
  - name: two
    source: summit
    target: usdf
    topics: {include: c, naming: {format: "${source}.${topic}"}, config_set: {a: false}}
    records: {compression: zstd}
""",
    )
    one, two = config.links
    assert one.topics.include == ("a", "b")
    assert one.topics.name_format() == "x.${topic}"
    assert two.topics.include == ("c",)
    assert two.topics.naming == FormatNaming(format="${source}.${topic}")
    assert two.topics.config_set == {"retention.ms": "5", "a": "false"}
    assert (two.records.in_flight_max, two.records.compression) == (2, "zstd")


def test_two_sources_may_fan_in_under_one_format(tmp_path):
    config = load(
        tmp_path,
        CLUSTERS
        + """  hilo: {bootstrap: ["127.0.0.1:9292"]}
defaults: {topics: {include: [a, 'b.*'], naming: {format: "${source}__${topic}"}}}
links:
  - {name: one, source: summit, target: usdf}
  - {name: two, source: hilo, target: usdf}
""",
    )
    assert [link.topics.name_format() for link in config.links] == ["${source}__${topic}"] * 2


def fanned_in(first: str, second: str) -> str:
    """Two links into one topic, each with these words on its share."""
    return (
        CLUSTERS
        + f"""  hilo: {{bootstrap: ["127.0.0.1:9292"]}}
defaults: {{topics: {{include: [a]}}}}
links:
  - {{name: one, source: summit, target: usdf, topics: {{fan_in: {first}}}}}
  - {{name: two, source: hilo, target: usdf, topics: {{fan_in: {second}}}}}
"""
    )


def test_two_sources_may_fill_one_topic_with_a_slot_each(tmp_path):
    config = load(tmp_path, fanned_in("{slot: 0, of: 2}", "{slot: 1, of: 2}"))
    shares = [link.topics.fan_in for link in config.links]
    assert [(share.slot, share.of) for share in shares] == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ("{slot: 0, of: 2}", "already writes into topic a"),
        ("{slot: 1, of: 3}", "already writes into topic a"),
        ("null", "already writes into topic a"),
        ("{slot: 2, of: 2}", "slot must be below `of`, which is 2"),
        ("{slot: 1}", "links[1].topics.fan_in.of: must be given"),
        ("{slt: 1, of: 2}", "did you mean slot?"),
    ],
)
def test_slots_that_overlap_or_do_not_fit_are_refused(tmp_path, second, problem):
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, fanned_in("{slot: 0, of: 2}", second))
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("yaml_value", "expected"),
    [
        ("latest", "latest"),
        ("{timestamp: 2026-11-01T00:00:00Z}", StartAt(timestamp=1_793_491_200_000)),
        ('{timestamp: "2026-11-01T02:00:00+02:00"}', StartAt(timestamp=1_793_491_200_000)),
        ("{timestamp: 17}", StartAt(timestamp=17)),
        ("{group: billing}", StartAtGroup(group="billing")),
        ("{offsets: /etc/o.csv}", StartAtOffsets(offsets="/etc/o.csv")),
    ],
)
def test_start_positions(tmp_path, yaml_value, expected):
    text = CLUSTERS + LINK.replace("{include: [a]}", f"{{include: [a], start: {yaml_value}}}")
    assert load(tmp_path, text).links[0].topics.start == expected


def test_a_string_is_one_entry_and_commas_are_not_split(tmp_path):
    text = CLUSTERS + LINK.replace("[a]", r"'lsst\.x{1,3}|b,c'")
    assert load(tmp_path, text).links[0].topics.include == (r"lsst\.x{1,3}|b,c",)


def test_environment_variables_are_filled_in(tmp_path):
    text = CLUSTERS.replace("127.0.0.1:9092", "${env:SUMMIT}:9092") + LINK
    config = load(tmp_path, text, {"SUMMIT": "kafka.example"})
    assert config.clusters["summit"].bootstrap == ("kafka.example:9092",)
    assert problems(tmp_path, text) == (
        "clusters.summit.bootstrap[0]: no such environment variable (got '${env:SUMMIT}')",
        'clusters.summit.bootstrap[0]: not host:port (got ":9092")',
    )


CASES = {
    "unknown key": (
        LINK.replace("{include:", "{inclde: [b], include:"),
        "links[0].topics.inclde: unknown key, did you mean include?",
    ),
    "unknown section": ("bogus: 1\n" + LINK, "bogus: unknown key"),
    "wrong type": (
        LINK.replace("[a]", "[a], refresh_interval_s: '10'"),
        'links[0].topics.refresh_interval_s: input should be a valid number (got "10")',
    ),
    "bad regex": (
        LINK.replace("[a]", "[a, '(']"),
        (
            "links[0].topics.include[1]: bad regex: missing ), unterminated subpattern at "
            "position 0 "
            '(got "(")'
        ),
    ),
    "unknown alias": (
        LINK.replace("usdf", "usd"),
        "links[0].target: no such cluster, there are summit, usdf (got 'usd')",
    ),
    "to itself": (
        LINK.replace("usdf", "summit"),
        "links[0].target: the link would copy a cluster to itself (got 'summit')",
    ),
    "two links of one name": (
        LINK.replace("]\n", "").replace("}}]", "}}")
        + ", {name: ONE, source: usdf, target: summit}]\n",
        "links[1].name: links[0] has that name (got 'ONE')",
    ),
    "two links into names that Kafka can't tell apart": (
        (
            "links: [{name: one, source: summit, target: usdf, topics: {include: [x.a], "
            "exclude: 'x.b'}}, {name: two, source: summit, target: usdf, topics: {include: a, "
            "naming: {prefix: x_}}}]\n"
        ),
        (
            "links[1].topics.include: topic x_a differs from x.a, into which links[0] (one) "
            "writes, only in . and _, and Kafka refuses such names (got 'a')"
        ),
    ),
    "two links into one topic": (
        (
            "links: [{name: one, source: summit, target: usdf, topics: {include: [x.a], "
            "exclude: 'x.b'}}, {name: two, source: summit, target: usdf, topics: {include: a, "
            "naming: {prefix: x.}}}]\n"
        ),
        "links[1].topics.include: links[0] (one) already writes into topic x.a of usdf (got 'a')",
    ),
    "two links with one selection": (
        (
            "links: [{name: one, source: summit, target: usdf, topics: {include: ['b.*']}}, "
            "{name: two, source: summit, target: usdf, topics: {include: ['b.*', c]}}]\n"
        ),
        (
            "links[1].topics.include: link one mirrors the same topics under the same names "
            "(got 'b.*')"
        ),
    ),
    "unknown variable": (
        LINK.replace("[a]", "[a], naming: {format: '${tpic}'}"),
        (
            "links[0].topics.naming.format: unknown variable ${tpic}, known are ${topic}, "
            "${source} "
            '(got "${tpic}")'
        ),
    ),
    "one name for all": (
        LINK.replace("[a]", "[a], naming: {format: 'all'}"),
        (
            "links[0].topics.naming.format: without ${topic} every source topic would get the same "
            'name (got "all")'
        ),
    ),
    "illegal prefix": (
        LINK.replace("[a]", "[a], naming: {prefix: 'a/'}"),
        (
            "links[0].topics.naming.prefix: a topic name has only the characters a-z A-Z 0-9 . _ - "
            '(got "a/")'
        ),
    ),
    "prefix of the brokers": (
        LINK.replace("[a]", "[a], naming: {prefix: __x}"),
        ('links[0].topics.naming.prefix: names with this prefix are never mirrored (got "__x")'),
    ),
    "format of state topics": (
        LINK.replace("[a]", "[a], naming: {format: 'heliostat.${source}${topic}'}"),
        (
            "links[0].topics.naming.format: names with this prefix are never mirrored "
            '(got "heliostat.${source}${topic}")'
        ),
    ),
    "alias that makes it one of state topics": (
        LINK.replace("summit", "heliostat")
        .replace("[a]", "[a], naming: {format: '${source}.${topic}'}")
        .replace("links", "  heliostat: {bootstrap: ['127.0.0.1:1']}\nlinks"),
        (
            "links[0].topics.naming: mirrors would be called heliostat.${topic}, and names with "
            "this prefix are never mirrored (got '${source}.${topic}')"
        ),
    ),
    "two namings": (
        LINK.replace("[a]", "[a], naming: {prefix: a, format: b}"),
        (
            "links[0].topics.naming: must be same, merge, "
            '{prefix: "..."} or {format: "...${topic}"} '
            "(got {'prefix': 'a', 'format': 'b'})"
        ),
    ),
    "pinned against raw batches": (
        LINK.replace("[a]", "[a], config_set: {compression.type: zstd}"),
        (
            "links[0].topics.config_set: compression.type must be producer: batches cross with "
            "their "
            "bytes unchanged (got {'compression.type': 'zstd'})"
        ),
    ),
    "two starts": (
        LINK.replace("[a]", "[a], start: {group: g, offsets: /x}"),
        "links[0].topics.start.offsets: unknown key here: it stands alone, not beside the others",
    ),
    "time without zone": (
        LINK.replace("[a]", "[a], start: {timestamp: 2026-11-01T00:00:00}"),
        (
            "links[0].topics.start.timestamp: a time needs its zone, such as a final Z "
            "(got datetime.datetime(2026, 11, 1, 0, 0))"
        ),
    ),
    "too many in flight": (
        "defaults: {records: {in_flight_max: 6}}\n" + LINK,
        "defaults.records.in_flight_max: input should be less than or equal to 5 (got 6)",
    ),
    "no links": ("links: []\n", "links: must not be empty, unless service.home is set (got [])"),
    "links left out": ("spark: {}\n", "links: must be given"),
    "alias in upper case": (
        LINK.replace("links", "  Usdf: {bootstrap: ['127.0.0.1:1']}\nlinks"),
        "clusters.Usdf: equal to alias usdf except for case (got 'Usdf')",
    ),
    "key given twice": (
        LINK.replace("links", "  usdf: {bootstrap: ['127.0.0.1:1']}\nlinks"),
        "line 5: key given twice, first in line 4 (got 'usdf')",
    ),
    "security": (
        LINK.replace(
            "links", "  x: {bootstrap: ['127.0.0.1:1'], security: {protocol: TLS}}\nlinks"
        ),
        (
            "clusters.x.security.protocol: input should be 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' "
            "or 'SASL_SSL' (got \"TLS\")"
        ),
    ),
    "shared bootstrap": (
        LINK.replace("usdf", "x").replace("links", "  x: {bootstrap: '127.0.0.1:9092'}\nlinks"),
        (
            "links[0].target: source and target share a bootstrap address, they are the same "
            "cluster "
            "(got '127.0.0.1:9092')"
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_problem_is_refused_with_field_reason_and_value(tmp_path, case):
    text, expected = CASES[case]
    assert problems(tmp_path, CLUSTERS + text) == (expected.replace('["b"]', "['b']"),)


def test_all_problems_are_reported_at_once(tmp_path):
    text = (
        "clusters: {a: {bootstrap: x}, b: {bootstrap: ['h:1', 'h:99999']}}\n"
        "links: [{name: 'a.b', source: a, target: c, lanes: {count: many}, records: 5}]\n"
    )
    fields = {problem.split(":")[0] for problem in problems(tmp_path, text)}
    assert fields == {
        "clusters.a.bootstrap[0]",
        "clusters.b.bootstrap[1]",
        "links[0].name",
        "links[0].target",
        "links[0].lanes.count",
        "links[0].records",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "file: must be a map with clusters and links (got"),
        ("- 1", "file: must be a map with clusters and links (got"),
        ("links: []\na: [1\nb: }", "file: bad YAML in line 3: expected ',' or ']', but got ':'"),
        (
            "clusters: {}\na: !!python/object:os.system x",
            "file: bad YAML in line 2: could not determine",
        ),
        (
            "links: []\na: 2026-13-01T00:00:00Z",
            "file: bad YAML in line 2: 2026-13-01T00:00:00Z is no time: month must be in 1..12",
        ),
    ],
)
def test_files_that_are_no_configuration(tmp_path, text, expected):
    (found,) = problems(tmp_path, text)
    assert found.startswith(expected)


CANARY = "geheim-4711"
MIRROR_MAKER = "; this looks like MirrorMaker 2's: heliostat import-mm2 "
JAAS = f'required username="u" password="{CANARY}";'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"clusters = a, b\na.bootstrap.servers = h:1\na.sasl.jaas.config = {JAAS}", MIRROR_MAKER),
        (f"clusters: a, b\na.bootstrap.servers: h:1\na.sasl.jaas.config: {JAAS}", ""),
        (f"a->b.enabled = true\na.sasl.jaas.config = {JAAS}", MIRROR_MAKER),
        (f'{{"connector.class": "MirrorSourceConnector", "p": "{CANARY}"}}', MIRROR_MAKER),
        (f"kind: KafkaMirrorMaker2\nspec: {{password: {CANARY}}}", MIRROR_MAKER),
        (f"root:$6${CANARY}:1::\nother:$6${CANARY}:1::", ""),
        (f"root:${CANARY}:1::\nroot:${CANARY}:1::", ""),
        (f"{CANARY}", ""),
        (f"[client]\npassword = {CANARY}", ""),
        (f"password: *{CANARY}", ""),
        (f"password: !{CANARY} x", ""),
        (f"password: %{CANARY}", ""),
        (f"- {CANARY}", ""),
        (f"sasl.jaas.config: {CANARY}\nclusters: {{}}\nlinks: []", ""),
        (f"links: []\nclusters: {{a: {{bootstrap: [b], sasl.jaas.config: {CANARY}}}}}", ""),
        (f"clusters: {{}}\nlinks: [{{name: a, sasl.jaas.config: {CANARY}}}]", ""),
    ],
)
def test_nothing_of_a_file_that_is_not_ours_is_shown(tmp_path, text, told):
    """Given another program's file, with a secret / then the error does not hold it."""
    said = "\n".join(problems(tmp_path, text))
    assert CANARY not in said
    assert told in said


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="file: no such file"):
        load_config(tmp_path / "none.yaml", {})


def test_the_error_survives_pickling(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, CLUSTERS + "links: []\n")
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (
        copy.problems
        == caught.value.problems
        == ("links: must not be empty, unless service.home is set (got [])",)
    )


def test_one_cluster_under_two_aliases_is_refused():
    link = load_config(EXAMPLE, {}).links[0]
    check_distinct_clusters(link, ClusterId("A"), ClusterId("B"))
    with pytest.raises(ConfigError, match="summit and usdf are the same cluster"):
        check_distinct_clusters(link, ClusterId("A"), ClusterId("A"))


def test_the_schema_documents_every_field():
    schema = Config.model_json_schema()
    json.dumps(schema)
    models = {"Config": schema, **schema["$defs"]}
    undocumented = [
        f"{name}.{field}"
        for name, model in models.items()
        for field, value in model.get("properties", {}).items()
        if "title" not in value or "description" not in value
    ]
    assert undocumented == []


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("drop_with_headr: {name: x}", "steps[0].drop_with_headr: unknown key, did you mean drop_"),
        ("json_fields: {maks: {a: b}}", "json_fields.maks: unknown key, did you mean mask?"),
        ("drop_with_header: {nam: x}", "drop_with_header.nam: unknown key, did you mean name?"),
    ],
)
def test_the_nearest_name_is_told_in_pipelines_too(tmp_path: Path, step: str, said: str) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text(
        "clusters: {a: {bootstrap: [h:1]}, b: {bootstrap: [h:2]}}\n"
        "links: [{name: l, source: a, target: b, pipelines: [{name: p, topics: [t], "
        f"steps: [{{{step}}}]}}]}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert said in str(caught.value)
