"""Heliostat mirrors Kafka topics between clusters, with equal offsets and proof by content."""

__version__ = "0.3.0"
