"""Coterie: a Kafka-wire-compatible group coordinator and development broker."""

# Stands here as well as in pyproject.toml: asking the installed metadata for it costs a starting
# server 60 ms. tests/unit/server/test_serve.py holds the two together.
__version__ = "0.1.0"
