"""Logs in Kafka's format, and the data directory that holds them."""
