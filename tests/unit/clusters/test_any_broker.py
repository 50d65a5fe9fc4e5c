"""A request to any broker does not fail while one of them serves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, UnknownBrokerIdError

from heliostat.access import access_of
from heliostat.clusters.admin import caller as module
from heliostat.clusters.admin.caller import ANY_BROKER_TRIES, Caller
from heliostat.errors import HeliostatError
from heliostat.names import BrokerId

REFUSED = KafkaConnectionError("111 ECONNREFUSED")


class Manager:
    """Answers with what is left of a list, errors raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.send = object()
        self.cluster = SimpleNamespace(refresh_metadata=object())
        self.look_ups = 0

    def run(self, what: object, *arguments: object) -> Any:
        if what is self.cluster.refresh_metadata:
            self.look_ups += 1
            return None
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANY_BROKER_PAUSE_S", 0.0)


def caller_of(manager: Manager) -> Caller:
    made = Caller.__new__(Caller)
    made.access = access_of("127.0.0.1:1")
    made._manager = manager
    return made


def test_another_broker_is_asked_where_one_refuses() -> None:
    assert caller_of(Manager(REFUSED, REFUSED, "answer")).send("request") == "answer"


def test_it_fails_when_all_brokers_refuse() -> None:
    manager = Manager(*[REFUSED] * (ANY_BROKER_TRIES + 1))
    with pytest.raises(HeliostatError, match="ECONNREFUSED"):
        caller_of(manager).send("request")
    assert len(manager.answers) == 1


@pytest.mark.parametrize(
    ("error", "broker"), [(REFUSED, BrokerId(2)), (KafkaTimeoutError("late"), None)]
)
def test_no_retry_with_a_named_broker_or_after_the_request_was_sent(
    error: Exception, broker: BrokerId | None
) -> None:
    manager = Manager(error, "answer")
    with pytest.raises(HeliostatError):
        caller_of(manager).send("request", broker)
    assert manager.answers == ["answer"]


def test_brokers_are_looked_up_where_one_is_not_known() -> None:
    manager = Manager(UnknownBrokerIdError(3), "answer")
    assert caller_of(manager).send("request", BrokerId(3)) == "answer"
    assert manager.look_ups == 1


def test_an_unknown_broker_is_not_looked_up_forever() -> None:
    manager = Manager(*[UnknownBrokerIdError(3)] * 3)
    with pytest.raises(HeliostatError, match="UnknownBrokerId"):
        caller_of(manager).send("request", BrokerId(3))
    assert (manager.look_ups, len(manager.answers)) == (1, 1)
