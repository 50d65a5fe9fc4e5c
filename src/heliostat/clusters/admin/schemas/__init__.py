"""Messages that kafka-python does not have, as its classes read them (KIP-848)."""
