"""How many connections a second are served, from all addresses [quotas/connection-rate]."""

from coterie.server.config.config import Config
from coterie.server.quotas.rates import Rate, throttle_ms


class ConnectionRate:
    """The rate of new connections.

    In Kafka a thread accepts connections one after the other, and sleeps while there are too many.
    Here a connection is accepted at once, and held for as long as it would have waited there.
    """

    def __init__(self, config: Config) -> None:
        """Begin without connections."""
        self._window_ms = config.get_int("quota.window.size.seconds") * 1000
        self._rate = Rate(config.get_int("quota.window.num"), self._window_ms)
        # When the thread would have served all connections so far.
        self._free_ms = 0

    def wait_ms(self, limit: int, now_ms: int) -> int:
        """Count a connection; return for how long it is held.

        Args:
            limit: connections a second.
            now_ms: the time.
        """
        at_ms = max(now_ms, self._free_ms)
        self._rate.record(1, at_ms)
        # A rate of 0 serves one connection in each window, as in Kafka.
        wait_ms = throttle_ms(self._rate, limit, at_ms) if limit else self._window_ms
        self._free_ms = at_ms + min(wait_ms, self._window_ms)
        return self._free_ms - now_ms
