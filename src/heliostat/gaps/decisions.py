"""Who decides what is done where records are missing: an operator, or else the link's policy."""

from __future__ import annotations

from typing import NamedTuple

from heliostat.config import GapsConfig
from heliostat.gaps.choices import Choice
from heliostat.gaps.ledger import GapLedger
from heliostat.names import PartitionId, TopicName


class Chosen(NamedTuple):
    """What is to be done, and who says so: `user NAME` or `policy`."""

    choice: Choice
    decided_by: str


class Decisions:
    """What was decided of stopped partitions and topics.

    Parameters
    ----------
    ledger
        Holds the decisions of operators.
    config
        Holds the policy where no operator has decided.
    """

    def __init__(self, ledger: GapLedger, config: GapsConfig) -> None:
        self._ledger = ledger
        self._config = config

    def chosen(self, topic: TopicName, partition: PartitionId | None, code: str) -> Chosen | None:
        """What is to be done; None: it stays stopped, as decided or as nobody has decided yet.

        Parameters
        ----------
        partition
            None: the topic as a whole.
        code
            What it stands stopped for.
        """
        decision = self._ledger.decision_for(topic, partition, code)
        if decision is None:
            policy = self._config.policy_of(topic)
            return None if policy == "stop" else Chosen(Choice(policy), "policy")
        if decision.choice is Choice.WAIT:
            return None
        return Chosen(decision.choice, f"user {decision.decided_by}")

    def forget(self, topic: TopicName, partition: PartitionId, code: str) -> None:
        """One that was made for this very partition; one for the topic concerns others too."""
        decision = self._ledger.decision_for(topic, partition, code)
        if decision is not None and decision.partition is not None:
            self._ledger.forget(decision)

    def forget_topic(self, topic: TopicName, code: str) -> None:
        """Those for the topic and for any of its partitions, about that trouble."""
        for decision in list(self._ledger.decisions.values()):
            if decision.topic == topic and decision.is_about(code):
                self._ledger.forget(decision)
