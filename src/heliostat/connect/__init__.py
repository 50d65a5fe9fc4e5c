"""Connectors as Kafka Connect's API has them: which links they are, what is wrong, how they are."""
