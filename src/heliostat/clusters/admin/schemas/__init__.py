"""Schemas of messages that kafka-python does not have, in its own format (KIP-848)."""
