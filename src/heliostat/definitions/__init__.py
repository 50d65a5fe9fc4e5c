"""Links that are made by API or Kafka Connect's API, not in the file: durable on a home cluster."""
