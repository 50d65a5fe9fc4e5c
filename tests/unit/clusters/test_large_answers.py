"""Answers about thousands of topics: equal to kafka-python's decoding, and decoded once."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsResponse

from heliostat.clusters.admin.config_answers import VERSION, decode_configs
from heliostat.clusters.admin.large_answers import (
    QUESTIONS_MAX,
    DescribeConfigs,
    LargeAnswer,
    Remembered,
)
from heliostat.clusters.admin.values import ConfigSource
from heliostat.errors import ProtocolError

RESULT = DescribeConfigsResponse.DescribeConfigsResult
CONFIG = RESULT.DescribeConfigsResourceResult
SYNONYM = CONFIG.DescribeConfigsSynonym
KEYS = [f"some.setting.{number}" for number in range(34)]


def config(name: str, value: str | None, **more: Any) -> Any:
    fields = {"config_source": 5, "read_only": False, "is_sensitive": False, "synonyms": []}
    own = {"config_type": 2, "documentation": None, **fields, **more}
    return CONFIG(name=name, value=value, **own)


def row(name: str, configs: list[Any], code: int = 0, message: str | None = None) -> Any:
    return RESULT(
        error_code=code,
        error_message=message,
        resource_type=2,
        resource_name=name,
        configs=configs,
    )


def body(rows: list[Any], throttle_ms: int = 0) -> bytes:
    answer = DescribeConfigsResponse(throttle_time_ms=throttle_ms, results=rows)
    return bytes(answer.encode(version=VERSION))


def topics(count: int, odd: int = 7) -> list[Any]:
    """Every `odd`-th topic has a setting of its own."""
    return [
        row(
            f"topic-{number}",
            [
                config(key, f"own-{number}", config_source=1)
                if number % odd == 0 and index == 3
                else config(key, "86400000")
                for index, key in enumerate(KEYS)
            ],
        )
        for number in range(count)
    ]


def test_settings_equal_those_of_kafka_python() -> None:
    """Given rows of every kind / when decoded / then as kafka-python decodes them."""
    synonym = SYNONYM(name="a", value=None, source=4)
    odd = [
        config("secret", None, is_sensitive=True, read_only=True, config_source=99),
        config("long", "x" * 300, documentation="what it is", synonyms=[synonym, synonym]),
    ]
    rows = [*topics(20), row("odd", odd), row("refused", [], 29, "no right"), *topics(3)]
    encoded = body(rows)
    expected = DescribeConfigsResponse.decode(encoded, version=VERSION).results
    found = decode_configs(encoded)
    assert [(r.name, r.error_code, r.error_message) for r in found] == [
        (r.resource_name, r.error_code, r.error_message) for r in expected
    ]
    for mine, theirs in zip(found, expected, strict=True):
        assert {
            key: (e.value, e.is_read_only, e.is_sensitive) for key, e in mine.configs.items()
        } == {c.name: (c.value, c.read_only, c.is_sensitive) for c in theirs.configs}
    assert found[20].configs["secret"].source is ConfigSource.OTHER
    assert found[0].configs[KEYS[3]].is_own
    assert not found[1].configs[KEYS[3]].is_own


@pytest.mark.thorough
def test_topics_with_equal_settings_share_them() -> None:
    """Given 3,000 topics of which 1 in 7 differs / then only the different ones are decoded."""
    found = decode_configs(body(topics(3_000)))
    assert len({id(row.configs) for row in found}) <= 3_000 / 7 + 2
    assert all(row.configs[KEYS[0]].value == "86400000" for row in found)


@pytest.mark.parametrize("cut", [1, 9, 40, 200])
def test_a_truncated_answer_is_refused(cut: int) -> None:
    """Given an answer that ends too early / when decoded / then a protocol error."""
    answer = LargeAnswer(body(topics(3))[:-cut], VERSION)
    with pytest.raises(ProtocolError):
        Remembered().decoded("q", answer, lambda large: decode_configs(large.body))


def test_the_same_bytes_are_decoded_once_whatever_the_throttle_time() -> None:
    """Given answers that differ only in the throttle time / then the first one's object."""
    remembered = Remembered()
    calls: list[LargeAnswer] = []

    def decode(answer: LargeAnswer) -> object:
        calls.append(answer)
        return decode_configs(answer.body)

    first = remembered.decoded("q", LargeAnswer(body(topics(3)), VERSION), decode)
    again = remembered.decoded("q", LargeAnswer(body(topics(3), 80), VERSION), decode)
    assert again is first
    remembered.decoded("q", LargeAnswer(body(topics(4)), VERSION), decode)
    assert len(calls) == 2
    for number in range(QUESTIONS_MAX):
        remembered.decoded(number, LargeAnswer(body(topics(1)), VERSION), decode)
    remembered.decoded("q", LargeAnswer(body(topics(4)), VERSION), decode)
    assert len(calls) == 2 + QUESTIONS_MAX + 1


def test_an_answer_stays_as_bytes() -> None:
    """Given an answer as it came / when taken / then its bytes are copied, not decoded."""
    came = bytearray(body(topics(1), 80))
    answer = DescribeConfigs.RESPONSE.decode(memoryview(came), VERSION)
    came[:] = bytes(len(came))  # the buffer is used again
    assert decode_configs(answer.body)[0].name == "topic-0"
