"""Coterie: a Kafka-wire-compatible group coordinator and development broker."""

# Repeated from pyproject.toml, because reading the installed metadata would take 60 ms of a start.
# A test in tests/unit/server/test_serve.py compares the two.
__version__ = "0.1.0"
