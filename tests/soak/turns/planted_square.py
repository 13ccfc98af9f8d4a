"""`coterie` that counts its steps, with a FindCoordinator that costs the square of its keys."""

from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.server.handlers import find_coordinator
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services
from tests.soak.turns.counted import count_steps

_handle = find_coordinator.handle


def _handle_squarely(
    broker: Services, request: FindCoordinatorRequest, connection: Exchange
) -> object:
    found = 0
    for key in request.coordinator_keys:
        for other in request.coordinator_keys:
            found += other == key
    return _handle(broker, request, connection)


if __name__ == "__main__":
    find_coordinator.handle = _handle_squarely  # type: ignore[assignment]
    count_steps()
