"""Messages between endpoints: in order, after a while, counted by API.

A pair of endpoints is one connection, on which messages arrive in the order in which they were
sent. While a pair is cut, messages are held back, as TCP repeats them, and arrive after the cut.
"""

from collections.abc import Callable
from math import exp, log
from typing import Any

from coterie.lab.kernel import MS, World

# The 99th percentile of the standard normal distribution.
_P99 = 2.326


class Traffic:
    """Messages and bytes by API and direction; `estimated` names APIs whose bytes are a guess."""

    def __init__(self) -> None:
        self.requests: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self.estimated: set[str] = set()

    def count(self, api: str, size: int, *, estimated: bool = False, times: int = 1) -> None:
        """Count messages of one API."""
        self.requests[api] = self.requests.get(api, 0) + times
        self.bytes[api] = self.bytes.get(api, 0) + size * times
        if estimated:
            self.estimated.add(api)


class Network:
    """All connections of a run.

    Attributes:
        traffic: what was sent since the start of the window.
        slow: a factor for each endpoint whose answers take longer.
    """

    def __init__(self, world: World, median_ms: float, p99_ms: float) -> None:
        """Make connections whose one-way time is log-normal."""
        self.traffic = Traffic()
        self.slow: dict[str, float] = {}
        self._world = world
        self._random = world.stream("network")
        self._mu = log(median_ms * MS)
        self._sigma = log(p99_ms / median_ms) / _P99
        self._arrived: dict[tuple[str, str], int] = {}
        self._cuts: dict[tuple[str, str], int] = {}

    def latency_us(self) -> int:
        """Draw a one-way time."""
        return int(exp(self._random.gauss(self._mu, self._sigma)))

    def cut(self, one: str, other: str, until_us: int) -> None:
        """Hold messages between two endpoints back, in both directions."""
        self._cuts[one, other] = self._cuts[other, one] = until_us

    def is_cut(self, one: str, other: str) -> bool:
        """Return whether messages between two endpoints are held back."""
        return self._cuts.get((one, other), 0) > self._world.now_us

    def send(self, source: str, target: str, deliver: Callable[..., None], *arguments: Any) -> None:
        """Send a message; `deliver` is called when it arrives."""
        world = self._world
        link = (source, target)
        delay_us = self.latency_us()
        if source in self.slow:
            delay_us = int(delay_us * self.slow[source])
        arrives_us = max(world.now_us, self._cuts.get(link, 0)) + delay_us
        before_us = self._arrived.get(link, 0)
        if arrives_us <= before_us:
            arrives_us = before_us + 1
        self._arrived[link] = arrives_us
        world.at(arrives_us, deliver, *arguments)
