"""The numbers that options take, each with its bounds; a wrong one is a usage error that says them.

A number without an upper bound ends in a traceback where it is written with Kafka's 16, 32 or 64
bits, or in a loop that nobody waits for.
"""

import math
from typing import Any

import click

_INT16 = 2**15 - 1
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
# A second more, or a millionth of one, is no use to anybody.
_LONGEST_S = 366 * 86_400


class WholeNumber(click.IntRange):
    """A whole number from `min` to `max`; click's own type calls itself an "integer range"."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number.

        Raises:
            click.BadParameter: the text is no number, or one that is out of bounds.
        """
        try:
            number = int(value)
        except ValueError:
            number = None
        if number is not None and self.max is not None and number > self.max:
            bounds = f"from {self.min} to {self.max}"
        elif number is None or (self.min is not None and number < self.min):
            # The greatest number of 32 or 64 bits says nothing to those who made another mistake.
            has_end = self.max is not None and self.max < _INT32
            bounds = f"from {self.min} to {self.max}" if has_end else f"from {self.min} on"
        else:
            return number
        self.fail(f"{value!r} is not a whole number {bounds}.", param, ctx)
        return None


class Number(click.FloatRange):
    """A number with a fraction, in bounds; `nan` is neither above nor below, and refused here."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number.

        Raises:
            click.BadParameter: it is none, or out of the bounds.
        """
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


# What Kafka writes with 32 bits: partitions, brokers, counts of them.
NATURAL = WholeNumber(0, _INT32)
COUNT = WholeNumber(1, _INT32)
# With 64 bits: offsets, producer ids, times, sizes of files.
LONG_NATURAL = WholeNumber(0, _INT64)
LONG_COUNT = WholeNumber(1, _INT64)
LONG = WholeNumber(-_INT64, _INT64)
# With 16 bits: epochs of producers, versions of APIs.
SHORT_NATURAL = WholeNumber(0, _INT16)
# Threads and processes that work at once.
AT_ONCE = WholeNumber(1, 256)
# Seconds between two of something.
PAUSE_S = Number(0, _LONGEST_S, min_open=True)
# How many times faster or larger.
FACTOR = Number(0, 1_000_000, min_open=True)
RATIO = Number(0, 1)
