"""Kafka's error numbers (`Errors`) and sentinels that our code uses by name, each defined once.

`heliostat.errors.kafka_error` says what an error means for us.
"""

from __future__ import annotations

OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE = 10
OFFSET_METADATA_TOO_LARGE = 12
NETWORK_EXCEPTION = 13
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
TOPIC_ALREADY_EXISTS = 36
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
CONCURRENT_TRANSACTIONS = 51
TRANSACTION_COORDINATOR_FENCED = 52
SECURITY_DISABLED = 54
THROTTLING_QUOTA_EXCEEDED = 89
UNKNOWN_TOPIC_ID = 100

EARLIEST = -2
"""ListOffsets: the log's start."""
LATEST = -1
"""ListOffsets: the high watermark; for a replica, the log's end."""
CONSUMER = -1
"""Replica id of a client."""
DEBUGGING_CONSUMER = -2
"""Replica id that sees the log's end beyond the high watermark."""
