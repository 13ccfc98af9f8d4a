"""The metadata of topics: what all brokers of a cluster share. It does not use the logs."""
