"""Coterie: a Kafka-wire-compatible group coordinator and development broker."""

# The build takes the version of the distribution from here. Reading it from the installed metadata
# instead would take 60 ms of a start.
__version__ = "0.1.0"
