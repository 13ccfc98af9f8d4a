"""Looking at groups once, twice for rates, or again and again: --interval and --watch."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import click

from coterie.cli.output import is_for_people
from coterie.cli.values import Number

L = TypeVar("L")

DEFAULT_INTERVAL_S = 10.0
# A broker closes connections that are idle for ten minutes (connections.max.idle.ms).
MAX_INTERVAL_S = 300.0


def looks_at(
    look: Callable[[L | None], L], interval_s: float | None, *, watch: bool
) -> Iterator[L]:
    """Return what is to be printed: one look, the second of two, or one after another.

    Args:
        look: looks at the groups; its argument is the look before, which rates are made with.
        interval_s: the seconds between two looks; None for one look only.
        watch: whether to go on until Ctrl-C, which is the end and no error. The first look is
            then returned at once, without rates.
    """
    try:
        seen = look(None)
        if not watch:
            if interval_s is not None:
                time.sleep(interval_s)
                seen = look(seen)
            yield seen
            return
        while True:
            if is_for_people():
                click.clear()
            yield seen
            time.sleep(interval_s or DEFAULT_INTERVAL_S)
            seen = look(seen)
    except KeyboardInterrupt:
        if not watch:
            raise


interval_option = click.option(
    "--interval",
    "interval_s",
    type=Number(0, MAX_INTERVAL_S, min_open=True),
    metavar="SECONDS",
    help="Show records each second, from two looks at the offsets this far apart.",
)
