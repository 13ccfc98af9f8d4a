"""A mistake planted on purpose: a fuzzer that does not find it finds nothing."""

from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.server.broker import Broker
from tests.fuzz.corpus import frames
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding, Target

# The planted mistake is met by one of some thousand frames; with this many the chance to miss it
# is that of a broken fuzzer.
_FRAMES = 60_000


def find_canary(seed: int) -> str:
    """Fuzz a broker whose Heartbeat fails for one value of one field; how long that took.

    Raises:
        AssertionError: it was not found.
    """
    target = Target(_plant)
    mutator = Mutator(frames(), seed)
    for number in range(_FRAMES):
        try:
            target.feed(mutator.next())
        except Finding as finding:
            if "KeyError" not in str(finding):
                raise  # Another mistake, and a real one.
            return f"{number + 1:,} frames"
    raise AssertionError(f"{_FRAMES} frames did not find the planted mistake: the fuzzer is blind")


def _plant(broker: Broker) -> None:
    for version in range(5):
        route = broker.routes.load(ApiKey.HEARTBEAT << 16 | version)
        handle = route.handle

        def planted(broker: Any, request: Any, connection: Any, handle: Any = handle) -> Any:
            if request.generation_id > 2**30:
                raise KeyError(request.generation_id)
            return handle(broker, request, connection)

        route.handle = planted
