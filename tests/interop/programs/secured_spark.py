"""Spark Structured Streaming doubles numbers over SASL_SSL, as a user with the rights it needs."""

from tests.interop.model import Surroundings
from tests.interop.programs.spark import double
from tests.live.secured.setup import Way

SECURED = True
WAY = Way("SASL_SSL", "SCRAM-SHA-512")


def run(around: Surroundings) -> None:
    """See `tests.interop.programs.spark`."""
    properties = around.setup.client_properties(WAY, "alice")
    double(around, {"bootstrap.servers": around.setup.bootstrap(WAY.listener), **properties})
