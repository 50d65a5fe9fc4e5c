"""The catalogue has the distribution that was measured at the observatory."""

import json
import random
import struct
from collections import Counter

import pytest

from heliostat.errors import SandboxError
from heliostat_sandbox.efd import (
    CATALOGUE_TOPICS,
    KIND_TOPICS,
    EfdKind,
    EfdShape,
    EfdTopic,
    Profile,
    efd_load,
    efd_topics,
)
from heliostat_sandbox.efd_names import COMPONENTS, MULTI_PARTITION

NOW_MS = 1_800_000_000_000
WHOLE = efd_topics()


def one(name: str) -> EfdTopic:
    (found,) = [topic for topic in WHOLE if topic.name == name]
    return found


def records(topic: EfdTopic, count: int = 50, seed: int = 1):
    chance, shape = random.Random(seed), EfdShape(topic)
    return [shape.record(chance, number, NOW_MS) for number in range(count)]


def test_numbers_of_kinds_and_components_match_the_interface_definitions():
    assert len(set(COMPONENTS)) == len(COMPONENTS) == 63
    assert sum(KIND_TOPICS.values()) == CATALOGUE_TOPICS == len({each.name for each in WHOLE})
    assert Counter(each.kind for each in WHOLE) == KIND_TOPICS


@pytest.mark.parametrize("count", [1, 10, 200, 1_000])
def test_a_smaller_catalogue_has_the_busiest_topics_and_all_kinds(count):
    topics = efd_topics(count)
    assert len({each.name for each in topics}) == count
    assert "lsst.sal.MTM1M3.forceActuatorData" in {each.name for each in topics}
    if count >= 200:
        assert {each.kind for each in topics} == set(EfdKind)


def test_few_topics_have_nearly_all_bytes():
    total = sum(each.bytes_per_s for each in WHOLE)
    assert 1.4e6 < total < 2.1e6  # 1.74 MB/s were measured
    by_component: Counter[str] = Counter()
    for each in WHOLE:
        by_component[each.component] += each.bytes_per_s
    assert 0.80 < by_component["MTM1M3"] / total < 0.88
    assert [name for name, _ in by_component.most_common(2)] == ["MTM1M3", "MTMount"]
    rates = sorted((each.bytes_per_s for each in WHOLE), reverse=True)
    for count, measured in {1: 0.16, 5: 0.58, 10: 0.77, 20: 0.86, 40: 0.94, 80: 0.99}.items():
        assert abs(sum(rates[:count]) / total - measured) < 0.06
    silent = [each for each in WHOLE if each.rate_hz < 0.5]
    assert len(silent) > 3_000


def test_names_follow_the_kind():
    prefixes = {
        EfdKind.TELEMETRY: "",
        EfdKind.EVENT: "logevent_",
        EfdKind.COMMAND: "command_",
        EfdKind.ACKCMD: "ackcmd",
    }
    for each in WHOLE:
        lsst, sal, component, name = each.name.split(".")
        assert (lsst, sal) == ("lsst", "sal")
        assert component in COMPONENTS
        assert name.startswith(prefixes[each.kind])
        assert each.kind is EfdKind.TELEMETRY or name != prefixes[each.kind] or name == "ackcmd"


def test_only_telemetry_of_some_components_has_several_partitions():
    for each in efd_topics(hot_partitions=26):
        hot = each.kind is EfdKind.TELEMETRY and each.component in MULTI_PARTITION
        assert each.partitions == (26 if hot else 1)


def test_topic_settings_on_demand():
    assert {frozenset(each.configs) for each in WHOLE} == {frozenset()}
    for each in efd_topics(compact_events=True, log_append_time=True):
        assert each.configs["message.timestamp.type"] == "LogAppendTime"
        assert (each.configs.get("cleanup.policy") == "compact") == (each.kind is EfdKind.EVENT)


def test_sizes_follow_the_quantiles_of_each_kind():
    sizes = sorted(each.value_bytes for each in WHOLE if each.kind is EfdKind.COMMAND)
    assert 57 <= sizes[0] <= 59
    assert 60 <= sizes[len(sizes) // 2] <= 72
    assert 24_000 >= sizes[-1] > 300


def test_values_are_framed_and_begin_with_the_private_fields():
    topic = one("lsst.sal.MTM1M3.forceActuatorData")
    for number, (stamp, key, value, headers) in enumerate(records(topic)):
        assert (stamp, key, tuple(headers)) == (NOW_MS, b"", ())
        assert value is not None
        assert len(value) == topic.value_bytes
        assert value[:5] == b"\x00" + topic.schema_id.to_bytes(4, "big")
        sent_s, received_s, utc_s, kafka_s = struct.unpack_from("<dddd", value, 5)
        assert (sent_s - 37, received_s, kafka_s) == (utc_s, 0.0, sent_s)
        assert utc_s == NOW_MS / 1000
        assert value[37] == 2 * (number + 1) if number < 63 else True  # zigzag of the counter


def test_events_and_commands_have_json_keys_with_their_origin():
    heartbeat = records(one("lsst.sal.ESS.logevent_heartbeat"))
    keys = {json.dumps(json.loads(key), sort_keys=True) for _, key, _, _ in heartbeat}
    assert len(keys) == 4
    assert json.loads(heartbeat[0][1])["topic"] == "logevent_heartbeat"
    plain = {key for _, key, _, _ in records(one("lsst.sal.MTM1M3.command_start"))}
    assert plain == {b'{"name": "MTM1M3", "topic": "command_start"}'}


def test_the_same_seed_gives_the_same_catalogue_and_records():
    assert efd_topics(500, 7) == efd_topics(500, 7)
    assert efd_topics(500, 7) != efd_topics(500, 8)
    topic = one("lsst.sal.MTMount.azimuth")
    assert records(topic) == records(topic)
    assert records(topic) != records(topic, seed=2)


@pytest.mark.parametrize("wanted", [*Profile, 50.0])
def test_a_profile_sets_the_total_rate(wanted):
    loads = efd_load(efd_topics(300), wanted)
    total = wanted.value if isinstance(wanted, Profile) else wanted
    assert sum(each.rate_hz for each in loads) == pytest.approx(total)
    assert {each.batch_records for each in loads} == {1}
    assert {each.codec for each in loads} == {"none"}


@pytest.mark.parametrize("count", [0, CATALOGUE_TOPICS + 1])
def test_an_unknown_size_is_refused(count):
    with pytest.raises(SandboxError):
        efd_topics(count)
