"""Rates over sliding windows and buckets of tokens, computed as Kafka computes them.

[quotas/windows], [quotas/token-bucket]
"""

import math


class Rate:
    """How much was recorded in a second, over the last windows.

    It is Kafka's `Rate` over a `WindowedSum`: one more sample than windows is kept, for the sample
    that overlaps the beginning of the windows.
    """

    __slots__ = ("_current", "_samples", "_windows", "window_ms")

    def __init__(self, windows: int, window_ms: int) -> None:
        """Start without samples.

        Args:
            windows: how many windows count.
            window_ms: the length of one.
        """
        self.window_ms = window_ms
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self.window_ms:
            sample = self._advance(now_ms)
        sample.total += value
        sample.last_ms = max(sample.last_ms, now_ms)

    def _advance(self, now_ms: int) -> "_Sample":
        self._current = (self._current + 1) % (self._windows + 1)
        if self._current < len(self._samples):
            self._samples[self._current].reset(now_ms)
        else:
            self._samples.append(_Sample(now_ms))
        return self._samples[self._current]

    def measure(self, now_ms: int) -> float:
        """Return the rate per second."""
        self._purge(now_ms)
        total = math.fsum(sample.total for sample in self._samples)
        return total / (self.span_ms(now_ms) / 1000)

    def span_ms(self, now_ms: int) -> int:
        """Return the time that the rate is computed over."""
        self._purge(now_ms)
        start_ms = min((sample.start_ms for sample in self._samples), default=now_ms)
        span_ms = now_ms - start_ms
        # A rate that has just begun is computed as if it was zero before.
        missing = self._windows - 1 - span_ms // self.window_ms
        if missing > 0:
            span_ms += missing * self.window_ms
        return max(span_ms, 1)

    def is_idle(self, now_ms: int) -> bool:
        """Return whether nothing was recorded in the windows."""
        self._purge(now_ms)
        return not any(sample.total for sample in self._samples)

    def _purge(self, now_ms: int) -> None:
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._windows * self.window_ms:
                sample.reset(now_ms)


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Begin again without values."""
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.total = 0.0


class TokenBucket:
    """Tokens that come at a rate and are taken; their number may become negative (KIP-599)."""

    __slots__ = ("_burst_s", "_refilled_ms", "tokens")

    def __init__(self, burst_s: int) -> None:
        """Start full.

        Args:
            burst_s: how many seconds of tokens the bucket can hold.
        """
        self._burst_s = burst_s
        self._refilled_ms: int | None = None
        self.tokens = 0.0

    def refill(self, per_second: float, now_ms: int) -> float:
        """Add the tokens that came since the last call; return their number."""
        most = self._burst_s * per_second
        if self._refilled_ms is None:
            self.tokens = most
        else:
            added = per_second * (now_ms - self._refilled_ms) / 1000
            self.tokens = min(most, self.tokens + added)
        self._refilled_ms = now_ms
        return self.tokens

    def take(self, count: float, per_second: float, now_ms: int) -> None:
        """Take tokens, more than there are if need be."""
        self.refill(per_second, now_ms)
        self.tokens -= count


def throttle_ms(rate: Rate, limit: float, now_ms: int) -> int:
    """Return for how long nothing may be recorded until the rate is at the limit.

    0 if it is, or if the limit is no number.
    """
    value = rate.measure(now_ms)
    if not value > limit:
        return 0
    return math.floor((value - limit) / limit * rate.span_ms(now_ms) + 0.5)
