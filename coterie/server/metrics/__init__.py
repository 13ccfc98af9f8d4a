"""The metrics of a running broker, for Prometheus."""
