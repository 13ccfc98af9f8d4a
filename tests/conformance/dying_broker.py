"""A broker that exits at its first ElectLeaders, as one with a bug would.

python -m tests.conformance.dying_broker        prints its address, HOST:PORT
"""

import os
import sys

from coterie.testing import Broker
from tests.planting import Plant, planted

EXITS = Plant(
    "ElectLeaders ends the process",
    "coterie.server.handlers.elect_leaders:handle",
    fault=lambda _: lambda *_request: os._exit(1),
)


def main() -> None:
    """Serve until standard input ends."""
    with planted(EXITS), Broker() as broker:
        print(f"{broker.host}:{broker.port}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
