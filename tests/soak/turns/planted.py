"""`coterie` that measures its turns, with a planted one of 40 ms in ListGroups."""

import time

from coterie.cli.main import main
from coterie.server import run
from coterie.server.handlers import list_groups
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services
from tests.soak.turns.timed import TimedWatchdog

_HELD_S = 0.040

_handle = list_groups.handle


def _handle_long(broker: Services, request: object, connection: Exchange) -> object:
    until_s = time.thread_time() + _HELD_S
    while time.thread_time() < until_s:
        pass
    return _handle(broker, request, connection)  # type: ignore[arg-type]


if __name__ == "__main__":
    run.Watchdog = TimedWatchdog  # type: ignore[attr-defined]
    list_groups.handle = _handle_long  # type: ignore[assignment]
    main(prog_name="coterie")
