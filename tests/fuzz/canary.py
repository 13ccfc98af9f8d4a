"""A planted bug: a fuzzer that does not find it would not find others either."""

from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.server.broker import Broker
from coterie.server.network.route import Handler
from coterie.server.network.routes import Overlay
from tests.fuzz.corpus import frames
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding, Target

# One of some thousand frames triggers the planted bug; a working fuzzer finds it within this many.
_FRAMES = 60_000


def find_canary(seed: int) -> str:
    """Fuzz a broker whose Heartbeat fails for some values of one field; return when it was found.

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
                raise  # another bug, and a real one
            return f"{number + 1:,} frames"
    raise AssertionError(
        f"{_FRAMES} frames did not trigger the planted bug: the fuzzer does not work"
    )


def _plant(broker: Broker) -> None:
    def wrap(handle: Handler) -> Handler:
        def planted(broker: Any, request: Any, connection: Any) -> Any:
            if request.generation_id > 2**30:
                raise KeyError(request.generation_id)
            return handle(broker, request, connection)

        return planted

    broker.use_routes(Overlay(broker.routes, {ApiKey.HEARTBEAT: wrap}))
