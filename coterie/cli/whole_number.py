"""Whole numbers within bounds as values of options; a text that is none is refused in words."""

from typing import Any

import click


class WholeNumber(click.IntRange):
    """A whole number from `min` to `max`; click's own type calls itself an "integer range"."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number.

        Raises:
            click.BadParameter: the text is no number, or one that is out of bounds.
        """
        try:
            int(value)
        except ValueError:
            bounds = f"from {self.min} to {self.max}" if self.max is not None else ""
            if not bounds and self.min is not None:
                bounds = f"from {self.min} on"
            self.fail(f"{value!r} is not a whole number {bounds}".rstrip() + ".", param, ctx)
        return super().convert(value, param, ctx)
