"""Keeping others from writing: a source's producers, the link itself, whoever writes into mirrors.

can_fence            what rules would keep out, and whom they can't; changes nothing
Fence                lays rules, believes them when every broker shows them, lifts them
RuleBook             which rules are ours, durably, so that another process can lift them
still_lets_us_write  the brokers' own word on a fence that concerns us
StillEnds            the fence without rights: ends that stand still
ProtectionKeeper     rules on mirrors, kept in step; `unprotect` lifts them at a promotion
"""

from heliostat.fencing.cannot import Cannot, Why
from heliostat.fencing.cluster_rules import ClusterRules
from heliostat.fencing.deny_rules import DenyRules
from heliostat.fencing.fence import Fence, Standing
from heliostat.fencing.preflight import can_fence, still_lets_us_write
from heliostat.fencing.protection import ProtectionKeeper, unprotect
from heliostat.fencing.rule_book import PROTECTION, Purpose, RuleBook
from heliostat.fencing.still_ends import Moved, StillEnds, Stillness

__all__ = [
    "PROTECTION",
    "Cannot",
    "ClusterRules",
    "DenyRules",
    "Fence",
    "Moved",
    "ProtectionKeeper",
    "Purpose",
    "RuleBook",
    "Standing",
    "StillEnds",
    "Stillness",
    "Why",
    "can_fence",
    "still_lets_us_write",
    "unprotect",
]
