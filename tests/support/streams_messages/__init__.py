"""Messages of members of KIP-1071's groups, in kafka-python's format, for tests alone."""
