"""Kafka Connect's API, at Connect's own paths."""
