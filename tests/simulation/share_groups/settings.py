"""A setting of a group that changes at a moment which nobody knows exactly."""


class ChangingSetting:
    """The values of a setting, and from when until when each may have been in force."""

    def __init__(self, value: int) -> None:
        """Begin with a value."""
        # Value, since when it may be in force, and until when.
        self._values: list[tuple[int, float, float]] = [(value, 0.0, float("inf"))]

    def asked(self, value: int, now_ms: float) -> None:
        """Note that a change was asked for, which may be made at once or never."""
        self._values.append((value, now_ms, float("inf")))

    def made(self, now_ms: float) -> None:
        """Note that the change that was asked for last is made."""
        value, since_ms, _ = self._values[-1]
        self._values = [
            (each, begin_ms, min(end_ms, now_ms)) for each, begin_ms, end_ms in self._values[:-1]
        ]
        self._values.append((value, since_ms, float("inf")))

    def within(self, begin_ms: float, end_ms: float) -> list[int]:
        """Return the values that may have been in force at some time of a span."""
        return [each for each, since_ms, until_ms in self._values
                if since_ms <= end_ms and until_ms >= begin_ms]  # fmt: skip
