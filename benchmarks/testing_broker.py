"""A broker of `coterie.testing` in a process of its own, which prints its address.

`python -m benchmarks.testing_broker MODE`, where MODE is `untouched` for the server's own routes,
`recorded` for a broker as tests have it, and `fault` for one with a fault about another API.
"""

from __future__ import annotations

import signal
import sys

from coterie.server.network.routes import Routes
from coterie.testing import Broker, CloseBefore

MODES = ("untouched", "recorded", "fault")


def main(mode: str) -> None:
    """Serve until the process is ended."""
    with Broker() as kafka:
        if mode == "untouched":
            kafka.thread.call(lambda: kafka.server.use_routes(Routes()))
        elif mode == "fault":
            kafka.fault(CloseBefore(), api="DeleteTopics")
        print(kafka.bootstrap_servers, flush=True)
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
