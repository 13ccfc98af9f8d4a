"""Kafka Connect copies lines over SASL_SSL, as a user with the rights that it needs."""

from tests.interop.model import Surroundings
from tests.interop.programs.connect import copy_lines
from tests.live.secured.setup import Way

SECURED = True
WAY = Way("SASL_SSL", "SCRAM-SHA-512")


def run(around: Surroundings) -> None:
    """See `tests.interop.programs.connect`."""
    properties = around.setup.client_properties(WAY, "alice")
    copy_lines(around, {"bootstrap.servers": around.setup.bootstrap(WAY.listener), **properties})
