"""The values that options take: numbers, durations, files; and several options as one value.

A number without an upper bound ends in a traceback where it is written with Kafka's 16, 32 or 64
bits, or in a loop that nobody waits for.
"""

import math
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pathlib import Path

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


_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Nine digits of days are more than the time since the epoch, and less than 64 bits of milliseconds.
_SHORT_DURATION = r"([0-9]{1,9})([smhd])"


def short_duration_ms(text: str) -> int | None:
    """Return milliseconds of a number with its unit; None if the text has another form."""
    short = re.fullmatch(_SHORT_DURATION, text.strip())
    return None if short is None else int(short[1]) * _UNITS_MS[short[2]]


class OutputFile(click.Path):
    """A file to write. One that cannot be written is a wrong command line, not a lost run."""

    def __init__(self) -> None:
        """Accept any path that is no folder."""
        super().__init__(dir_okay=False)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Path":
        """Return the path of a file that can be written; an existing file is left as it is."""
        # Imported here, because a broker starts faster without.
        from pathlib import Path

        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        is_new = not path.exists()
        try:
            with path.open("ab"):
                pass
        except FileNotFoundError:
            folder = path.parent
            self.fail(f"the folder {folder} does not exist; create it: mkdir -p {folder}.", param)
        except OSError as error:
            self.fail(f"{path} cannot be written: {error.strerror}.", param)
        if is_new:
            path.unlink()
        return path


F = TypeVar("F", bound=Callable[..., Any])


def gather(
    function: F, name: str, values: Any, options: Sequence[Callable[[Any], Callable[..., Any]]]
) -> F:
    """Add options to a command.

    Args:
        function: the function of the command.
        name: the argument with which it gets the options.
        values: the named tuple of their values; its fields are the names of the options' arguments.
        options: as click declares them, in their order in the help.
    """

    def command(*args: Any, **given: Any) -> Any:
        gathered = values(**{field: given.pop(field) for field in values._fields})
        return function(*args, **{name: gathered}, **given)

    command.__doc__ = function.__doc__
    # Options that were added to the function are added to the command.
    vars(command).update(vars(function))
    added: Any = command
    for option in reversed(options):
        added = option(added)
    return added  # type: ignore[no-any-return]
