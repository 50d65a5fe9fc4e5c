"""Who decides what to do about missing records: an operator, or else the link's policy.

For records that can't be copied, `record_errors` has the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from heliostat.config import GapsConfig
from heliostat.gaps.choices import CAUSE_OF_CODE, GapChoice
from heliostat.gaps.ledger import GapDecision, GapLedger
from heliostat.gaps.record_errors import RecordErrors
from heliostat.names import PartitionId, TopicName, TopicPartition, id_text, is_another
from heliostat.records.batches.converted import StopReason
from heliostat.topics.values import MirrorRecord

BY_GAPS_POLICY = frozenset({StopReason.TOO_LARGE.name, StopReason.RECORD_REFUSED.name})
"""Codes of records for which the policy for gaps counts where no rule for errors is set."""


class Chosen(NamedTuple):
    """What to do, and who decided it: `user NAME` or `policy`."""

    choice: GapChoice
    decided_by: str


class Decisions:
    """Decisions on stopped partitions and topics.

    Parameters
    ----------
    ledger
        Holds the decisions of operators.
    config
        Holds the policy where no operator has decided; the link's keeper replaces it.
    errors
        Holds it for records that can't be copied.
    """

    def __init__(self, ledger: GapLedger, config: GapsConfig, errors: RecordErrors) -> None:
        self._ledger = ledger
        self.config = config
        self._errors = errors

    def chosen(
        self,
        topic: TopicName,
        partition: PartitionId | None,
        code: str,
        position: int = -1,
    ) -> Chosen | None:
        """Return what to do; None: it stays stopped, as decided or as nobody has decided yet.

        Parameters
        ----------
        partition
            Number of the partition; None: the topic as a whole.
        code
            The code of the stop.
        position
            Source offset at which a partition stopped.
        """
        decision = self._ledger.decision_for(topic, partition, code)
        if decision is None:
            rule = self._errors.rule_of(CAUSE_OF_CODE[code])
            if rule is not None and partition is not None:
                source = TopicPartition(topic, partition)
                choice = self._errors.chosen(source, code, position)
                if choice is not None or rule.policy != "stop" or code not in BY_GAPS_POLICY:
                    return None if choice is None else Chosen(choice, "policy")
            policy = self.config.policy_of(topic)
            return None if policy == "stop" else Chosen(GapChoice(policy), "policy")
        if decision.choice is GapChoice.WAIT:
            return None
        return Chosen(decision.choice, f"user {decision.decided_by}")

    def forget(self, topic: TopicName, partition: PartitionId, code: str) -> None:
        """Delete this partition's own decision; one for the whole topic concerns others too."""
        decision = self._ledger.decision_for(topic, partition, code)
        if decision is not None and decision.partition is not None:
            self._ledger.forget(decision)

    def forget_others(self, mirrors: Mapping[TopicName, MirrorRecord]) -> list[GapDecision]:
        """Delete decisions about topics that were deleted since; return these.

        A topic of the same name has records of its own, about which nobody has decided.
        """
        gone = [
            decision
            for decision in self._ledger.decisions.values()
            if (record := mirrors.get(decision.topic)) is not None
            and is_another(decision.source_id, id_text(record.source_id))
        ]
        for decision in gone:
            self._ledger.forget(decision)
        return gone

    def forget_topic(self, topic: TopicName, code: str) -> None:
        """Delete decisions on that trouble for the topic and any of its partitions."""
        for decision in list(self._ledger.decisions.values()):
            if decision.topic == topic and decision.is_about(code):
                self._ledger.forget(decision)
