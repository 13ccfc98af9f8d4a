"""The figures of a running server for Prometheus."""
