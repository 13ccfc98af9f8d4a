"""Kafka Streams counts words over SASL_SSL, as a user with the rights that it needs."""

from tests.interop.model import Surroundings
from tests.interop.programs import streams
from tests.live.secured.setup import Way

SECURED = True
CONFIG = streams.CONFIG
WAY = Way("SASL_SSL", "SCRAM-SHA-512")


def run(around: Surroundings) -> None:
    """See `tests.interop.programs.streams`."""
    properties = around.setup.client_properties(WAY, "alice")
    streams.count_words(around, around.setup.bootstrap(WAY.listener), properties)
