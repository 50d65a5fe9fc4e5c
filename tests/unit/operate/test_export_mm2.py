"""A link written for MirrorMaker 2, and read again: the same link, as far as the notes say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mirror_maker_files import CASES

from heliostat.config import (
    ClusterConfig,
    Config,
    LinkConfig,
    compile_pattern,
    is_plain_name,
    load_config,
)
from heliostat.config.security import SecurityConfig
from heliostat.errors import ConfigError
from heliostat.mm2.config import SECRETS_FOLDER, import_mm2
from heliostat.mm2.config_names import CONNECTOR
from heliostat.mm2.export_forms import ExportForm
from heliostat.operate.export_mm2 import Exported, export_mm2

FORMS = list(ExportForm)
FILES = {ExportForm.CONNECTORS: "c.json", ExportForm.PROPERTIES: "mm2.properties"}
REGISTRIES = {"_schemas", "registry-schemas"}
"""Topics that the import leaves out, as registries write them."""
LEFT_OUT = re.compile("leaves out topics that match (.*) in any case")
names = st.from_regex(r"[a-z][a-z0-9.-]{0,12}", fullmatch=True).filter(lambda n: "schemas" not in n)
entries = names | st.sampled_from(
    [".*", r"lsst\..*", "(a|b)-x", "[^.]+", "a{2}", "(?P<n>x)y", "(?i:z)", "(?!foo).*", "a b"]
)
lists = st.lists(entries, max_size=3).map(tuple)
factors = st.none() | st.integers(1, 9)
files = st.builds(
    lambda name, item: {"file": f"{SECRETS_FOLDER}/{name}/{item}"},
    st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True),
    st.sampled_from(["password", "ca.crt", "tls.key", "user_1"]),
)
users = st.text("abc \"\\'=;äZ", min_size=1, max_size=6)


@st.composite
def securities(draw: st.DrawFn) -> dict[str, Any]:
    has_tls = draw(st.booleans())
    kind = draw(st.sampled_from(["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]))
    plain = "SSL" if has_tls else "PLAINTEXT"
    found: dict[str, Any] = {"protocol": f"SASL_{plain}" if kind else plain}
    if has_tls and draw(st.booleans()):
        found["ca_file"] = draw(files)["file"]
    if has_tls and draw(st.booleans()):
        found["verify_hostname"] = False
    if has_tls and not kind and draw(st.booleans()):
        pair = f"{SECRETS_FOLDER}/pair"
        found |= {"certificate_file": f"{pair}/tls.crt", "key_file": f"{pair}/tls.key"}
    if kind == "OAUTHBEARER":
        endpoint = {"url": "https://t/x", "client_id": draw(users), "client_secret": draw(files)}
        scope = draw(st.sampled_from(["", "kafka", "a b"]))
        either = [{"token": draw(files)}, {"token_endpoint": endpoint | {"scope": scope}}]
        found |= draw(st.sampled_from(either))
    elif kind:
        found |= {"username": draw(users), "password": draw(files)}
    if kind:
        found["mechanism"] = kind
    return found


@st.composite
def links(draw: st.DrawFn) -> dict[str, Any]:
    prefixes = [{"prefix": "east."}, {"prefix": "east_"}, {"prefix": "eastern."}]
    topics: dict[str, Any] = {
        "include": draw(lists),
        "exclude": draw(lists),
        "naming": draw(st.sampled_from(["same", {"format": "${source}.${topic}"}, *prefixes])),
        "start": draw(st.sampled_from(["earliest", "latest"])),
        "replication_factor": draw(factors),
        "sync_configs": draw(st.booleans()),
        "sync_broker_values": draw(st.booleans()),
        "refresh_interval_s": draw(st.integers(1, 86_400)),
    }
    records = {
        "compression": draw(st.sampled_from(["keep", "none", "gzip", "zstd"])),
        "fetch_bytes_max": draw(st.integers(1024, 55 << 20)),
        "partition_fetch_bytes_max": draw(st.integers(1024, 100 << 20)),
    }
    checkpoints = {"emit": draw(st.booleans()), "replication_factor": draw(factors)}
    groups = {
        "sync": checkpoints["emit"] and draw(st.booleans()),
        "include": draw(lists),
        "exclude": draw(lists),
        "interval_s": draw(st.integers(1, 3600)),
    }
    heartbeats = {
        "emit": draw(st.booleans()),
        "mirror": True,
        "interval_s": draw(st.integers(1, 9)),
    }
    syncs = {"emit": draw(st.booleans()), "replication_factor": draw(factors)}
    syncs["location"] = draw(st.sampled_from(["source", "target"]))
    return {
        "topics": topics,
        "records": records,
        "groups": groups,
        "checkpoints": checkpoints,
        "heartbeats": heartbeats | {"replication_factor": draw(factors)},
        "offset_syncs": syncs,
        "state": {"replication_factor": draw(factors)},
    }


def config_of(
    link: dict[str, Any], east: dict[str, Any] | None = None, west: dict[str, Any] | None = None
) -> Config:
    clusters = {
        "east": {"bootstrap": ["e1:9092", "e2:9092"], "security": east or {}},
        "west": {"bootstrap": ["w:9092"], "security": west or {}},
    }
    whole = {"name": "east-to-west", "source": "east", "target": "west", **link}
    return Config.model_validate({"clusters": clusters, "links": [whole]})


def exported(config: Config, form: ExportForm = ExportForm.STRIMZI, **more: Any) -> Exported:
    return export_mm2(config, config.links[0], form, **more)


def read_again(found: Exported, tmp: Path, **more: Any) -> tuple[Config, tuple[str, ...]]:
    """Return what the import makes of a file, as our own reader sees it, and what it tells."""
    again = import_mm2({FILES.get(found.form, "r.yaml"): found.to_text()}, **more)
    file = tmp / "heliostat.yaml"
    file.write_text(again.to_yaml(), encoding="utf-8")
    return load_config(file, env={}), again.differences


def differing(one: LinkConfig, other: LinkConfig, found: Exported) -> list[str]:
    """Return the keys in which two links differ and that neither notes nor the format explain."""
    form = found.form
    told = LEFT_OUT.search(" ".join(found.differences))
    plain = [entry for entry in one.topics.include if is_plain_name(entry)]
    if len(plain) == len(one.topics.include):  # what no topic of it matches is not told
        more = set(other.topics.exclude) - set(one.topics.exclude)
        untold = {e for e in more if not any(compile_pattern(e).fullmatch(n) for n in plain)}
    else:
        untold = set[str]()
    may_be_added = REGISTRIES | untold | set(told[1].split(", ") if told else ())
    has_groups = one.groups.sync or one.checkpoints.emit
    parts = [
        *("topics", "records", "heartbeats", "offset_syncs", "state"),
        *(("groups", "checkpoints") if has_groups else ()),
    ]
    wrong: list[str] = []
    for part in parts:
        if part == "state" and form in (ExportForm.CONNECTORS, ExportForm.RESOURCES):
            continue  # it is of the Connect cluster there
        if part in ("heartbeats", "offset_syncs") and not getattr(one, part).emit:
            wrong += [part] if getattr(other, part).emit else []
            continue
        ours, theirs = getattr(one, part), getattr(other, part)
        for key in type(ours).model_fields:
            before, after = getattr(ours, key), getattr(theirs, key)
            if key == "exclude" and part == "topics":
                before, after = set(before), set(after) - (may_be_added - set(before))
            elif key == "naming" and part == "topics":
                before = ours.name_format().replace("${source}", one.source)
                after = theirs.name_format()
            if before != after:
                wrong.append(f"{part}.{key}: {before} != {after}")
    return wrong


def check_link(tmp: Path, form: ExportForm, link: dict[str, Any]) -> None:
    config = config_of(link)
    found = exported(config, form)
    again, told = read_again(found, tmp)
    assert not differing(config.links[0], again.links[0], found)
    assert [line for line in found.differences if "leaves out topics" not in line] == []
    assert told == ()


def check_clusters(
    tmp: Path, form: ExportForm, east: dict[str, Any], west: dict[str, Any], *, emits: bool
) -> None:
    config = config_of({"heartbeats": {"emit": emits}}, east, west)
    found = exported(config, form)
    again, _ = read_again(found, tmp)
    for alias in ("east", "west"):
        before, after = config.clusters[alias], again.clusters[alias]
        assert after.bootstrap == before.bootstrap
        assert after.security == before.security
    assert again.links[0].heartbeats.emit == emits


@given(form=st.sampled_from(FORMS), link=links())
@settings(max_examples=8)
def test_what_is_written_is_read_as_the_same_link(
    tmp_path_factory: pytest.TempPathFactory, form: ExportForm, link: dict[str, Any]
) -> None:
    """Given a link without what MirrorMaker 2 lacks / when written and imported / then it is that,

    and the import tells no difference.
    """
    check_link(tmp_path_factory.mktemp("again"), form, link)


@given(form=st.sampled_from(FORMS), east=securities(), west=securities(), emits=st.booleans())
@settings(max_examples=8)
def test_clusters_are_reached_as_before_and_no_secret_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
    form: ExportForm,
    east: dict[str, Any],
    west: dict[str, Any],
    *,
    emits: bool,
) -> None:
    check_clusters(tmp_path_factory.mktemp("again"), form, east, west, emits=emits)


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMS)
@given(link=links(), east=securities(), west=securities(), emits=st.booleans())
@settings(max_examples=40)
def test_very_many_links_and_clusters_are_read_as_they_were(
    tmp_path_factory: pytest.TempPathFactory,
    form: ExportForm,
    link: dict[str, Any],
    east: dict[str, Any],
    west: dict[str, Any],
    *,
    emits: bool,
) -> None:
    tmp = tmp_path_factory.mktemp("again")
    check_link(tmp, form, link)
    check_clusters(tmp, form, east, west, emits=emits)


@pytest.mark.parametrize("form", FORMS)
def test_secrets_that_are_nowhere_in_kubernetes_are_to_be_made(form: ExportForm) -> None:
    """Given a variable and a file of another folder / then the notes say what goes where."""
    password = {"env": "EAST_PASSWORD"}
    east = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password": password}
    east |= {"ca_file": "/opt/ca.pem", "certificate_file": "/opt/c", "key_file": "/opt/k"}
    found = exported(config_of({}, east), form)
    told = " ".join(found.todo)
    assert "/opt/ca.pem" in told
    assert "EAST_PASSWORD" in told
    if form is ExportForm.STRIMZI:
        assert "east-credentials" in found.text
        assert any("in one way" in line for line in found.differences)
    else:
        assert "ssl.keystore.key" in found.text


@pytest.mark.parametrize("case", CASES)
def test_what_was_imported_is_written_as_it_was(case: str, tmp_path: Path) -> None:
    """Given files of MirrorMaker 2 / when imported, written and imported / then nothing is lost."""
    file = tmp_path / "heliostat.yaml"
    file.write_text(import_mm2(CASES[case][0]).to_yaml(), encoding="utf-8")
    config = load_config(file, env={})
    for link in config.links:
        for form in (ExportForm.STRIMZI, ExportForm.PROPERTIES):
            found = export_mm2(config, link, form)
            again, _ = read_again(found, tmp_path)
            (other,) = again.links
            assert not differing(link, other, found)
            for alias, name in ((link.source, other.source), (link.target, other.target)):
                assert again.clusters[name].bootstrap == config.clusters[alias].bootstrap
                before, after = config.clusters[alias].security, again.clusters[name].security
                assert after.protocol == before.protocol
                assert after.username == before.username


def test_what_it_leaves_out_is_told_where_a_topic_may_be_concerned() -> None:
    def told(*include: str) -> tuple[str, ...]:
        return exported(config_of({"topics": {"include": list(include)}})).differences

    assert told("orders", "a.b") == ()
    assert len(told("orders", ".hidden")) == len(told("o.*")) == 1


def test_clusters_with_like_names_get_secrets_of_their_own() -> None:
    user = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "u"}
    clusters = {
        alias: {"bootstrap": [f"{alias}:1"], "security": user | {"password": {"env": variable}}}
        for alias, variable in (("a.b", "ONE"), ("a_b", "TWO"))
    }
    link = {"name": "l", "source": "a.b", "target": "a_b"}
    config = Config.model_validate({"clusters": clusters, "links": [link]})
    for form in (ExportForm.STRIMZI, ExportForm.RESOURCES):
        lines = [each for each in exported(config, form).todo if each.startswith("make a secret")]
        assert {line.split()[3] for line in lines} == {"a-b-credentials", "a-b-credentials-2"}
        assert {line.split()[-1] for line in lines} == {"ONE", "TWO"}


# -- what MirrorMaker 2 lacks ----------------------------------------------------------------------

STEP = {"drop_tombstones": True}
LACKING: list[tuple[dict[str, Any], str]] = [
    ({"topics": {"fan_in": {"slot": 1, "of": 2}}}, "topics.fan_in"),
    ({"topics": {"offsets": "exact"}}, "topics.offsets: exact"),
    ({"topics": {"start": {"group": "g"}}}, "topics.start"),
    ({"topics": {"config_set": {"retention.ms": 1}}}, "retention.ms"),
    ({"topics": {"follow_deletes": ["x"]}}, "topics.follow_deletes"),
    ({"topics": {"protect": True}}, "topics.protect"),
    ({"access": {"sync_quotas": True}}, "access: rights"),
    ({"topics": {"refresh_interval_s": 0.5}}, "0.5 s are 1 s"),
    ({"topics": {"config_exclude": ["a"]}}, "topics.config_exclude lacks message.timestamp.before"),
    ({"records": {"in_flight_max": 1}}, "records.in_flight_max"),
    ({"records": {"join_below_bytes": 0}}, "records.join_below_bytes"),
    ({"lanes": {"lease_s": 5}}, "lanes.lease_s"),
    ({"gaps": {"policy": "continue"}}, "gaps: it has no policy"),
    ({"errors": {"too_large": {"policy": "skip"}}}, "errors: it has no policy"),
    ({"groups": {"sync": True}}, "groups.sync without checkpoints.emit"),
    ({"groups": {"naming": {"prefix": "e."}}, "checkpoints": {"emit": True}}, "groups.naming"),
    ({"groups": {"states": ["active"]}, "checkpoints": {"emit": True}}, "groups: it has nothing"),
    ({"pipelines": [{"name": "trim", "topics": ["a"], "steps": [STEP]}]}, "pipeline trim"),
]


@pytest.mark.parametrize(("link", "told"), LACKING, ids=[told for _, told in LACKING])
def test_what_it_lacks_is_told_as_a_comment_and_in_json(link: dict[str, Any], told: str) -> None:
    found = exported(config_of(link))
    lines = [line for line in found.differences if told in line]
    assert len(lines) == 1
    assert f"# differs: {lines[0]}" in found.to_text().splitlines()
    assert lines[0] in found.to_json()["differences"]
    assert not any(told in line for line in exported(config_of({})).differences)


def test_what_a_person_must_choose_is_told_unless_the_link_says_it() -> None:
    both = {"topics": {"replication_factor": 3}, "lanes": {"count": 4}}
    assert {"choose replication.factor", "choose the number of tasks"} <= {
        line.partition(":")[0] for line in exported(config_of({})).todo
    }
    found = exported(config_of(both))
    assert not any("choose" in line for line in found.todo)
    (resource,) = yaml.safe_load_all(found.text)
    connector = resource["spec"]["mirrors"][0]["sourceConnector"]
    assert connector["tasksMax"] == 4
    assert connector["config"]["replication.factor"] == 3


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("a{1,2}", "every comma"),
        (r"(a)\1", "only Python"),
        ("(?i)a", "only Python"),
        ("x{", "only Python"),
        ("[a[b]", "Java reads"),
        (" a.*", "blanks"),
        ("(?P<n>a)(?P=n)", "only Python"),
    ],
)
def test_an_expression_that_java_reads_otherwise_is_refused(entry: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        exported(config_of({"topics": {"include": [entry]}}))
    assert why in str(refused.value.problems)


def test_names_of_no_policy_need_a_class_of_ones_own(tmp_path: Path) -> None:
    config = config_of({"topics": {"naming": {"format": "${topic}-of-${source}"}}})
    with pytest.raises(ConfigError, match="no replication policy"):
        exported(config)
    found = exported(config, policy="org.example.Mine")
    again, _ = read_again(found, tmp_path, naming="${topic}-of-${source}")
    assert again.links[0].topics == config.links[0].topics.model_copy(
        update={"exclude": again.links[0].topics.exclude}
    )
    with pytest.raises(ConfigError, match="names the target"):
        exported(config_of({"topics": {"naming": {"prefix": "west."}}}))


def test_a_prefix_of_ones_own_is_the_sources_alias_there() -> None:
    found = exported(config_of({"topics": {"naming": {"prefix": "plant-7_"}}}))
    (resource,) = yaml.safe_load_all(found.text)
    assert resource["spec"]["mirrors"][0]["source"]["alias"] == "plant-7"
    assert any("called plant-7 there" in line for line in found.todo)
    assert any("--alias plant-7" in line for line in found.todo)


# -- forms -----------------------------------------------------------------------------------------


def everything() -> Config:
    return config_of(
        {
            "topics": {"include": [".*"], "start": "latest", "sync_broker_values": True},
            "checkpoints": {"emit": True, "replication_factor": 1},
            "groups": {"sync": True},
            "heartbeats": {"emit": True},
            "offset_syncs": {"emit": True},
            "records": {"compression": "lz4"},
            "state": {"replication_factor": 1},
        }
    )


def test_connectors_have_only_properties_that_mirror_maker_knows() -> None:
    for row in json.loads(exported(everything(), ExportForm.CONNECTORS).text):
        own = {n for n in row["config"] if not re.match(r"(source|target)\.cluster\.", n)}
        client = {n for n in own if n.startswith(("source.consumer.", "producer.override."))}
        assert own - client - CONNECTOR == {"use.defaults.from"} & own, row["name"]


def test_strimzis_resource_has_the_fields_of_v1() -> None:
    """As the resource's definition of Strimzi 1.0 requires them; heartbeats are no field of it."""
    mirror_maker, heartbeat = yaml.safe_load_all(exported(everything()).text)
    assert mirror_maker["apiVersion"] == heartbeat["apiVersion"] == "kafka.strimzi.io/v1"
    spec = mirror_maker["spec"]
    assert spec.keys() == {"replicas", "target", "mirrors"}
    assert spec["target"].keys() >= {
        *("alias", "bootstrapServers", "groupId"),
        *("configStorageTopic", "offsetStorageTopic", "statusStorageTopic"),
    }
    (mirror,) = spec["mirrors"]
    assert mirror.keys() == {
        *("source", "sourceConnector", "checkpointConnector"),
        *("topicsPattern", "topicsExcludePattern", "groupsPattern", "groupsExcludePattern"),
    }
    assert mirror["source"].keys() == {"alias", "bootstrapServers"}
    assert heartbeat["kind"] == "KafkaConnector"
    assert heartbeat["spec"]["class"].endswith("MirrorHeartbeatConnector")
    assert heartbeat["metadata"]["labels"] == {"strimzi.io/cluster": "east-connect"}
    forbidden = {"name", "connector.class", "tasks.max", "connector.plugin.version"}
    for each in (mirror["sourceConnector"], mirror["checkpointConnector"], heartbeat["spec"]):
        assert not forbidden & each["config"].keys()


def test_names_of_the_files_hold_what_hand_back_needs() -> None:
    """`adopt --back` finds offsets topic and group by its defaults, as in dedicated mode."""
    mirror_maker, _ = yaml.safe_load_all(exported(everything()).text)
    target = mirror_maker["spec"]["target"]
    assert target["offsetStorageTopic"] == "mm2-offsets.east.internal"
    assert target["groupId"] == "east-mm2"
    (line,) = [each for each in exported(everything()).todo if "--back" in each]
    assert "--connector 'east->west.MirrorSourceConnector'" in line


def test_security_has_no_key_that_is_forgotten() -> None:
    """A new key of a cluster's security must be written, or told: see `export_security`."""
    assert SecurityConfig.model_fields.keys() == {
        *("protocol", "ca_file", "certificate_file", "key_file", "key_password"),
        *("verify_hostname", "mechanism", "username", "password", "token", "token_endpoint"),
        *("aws_region", "aws_profile"),
        "principal",  # who the link is: MirrorMaker 2 does not ask
    }
    assert ClusterConfig.model_fields.keys() == {"bootstrap", "security", "schema_registry"}
