"""A bar of progress on standard error, for long work on many bytes; only on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def byte_progress(title: str, total_bytes: int, *, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A bar with bytes done, speed and time left.

    Args:
        title: what is being done.
        total_bytes: how many there will be.
        wanted: nothing is shown if not, or if standard error is no terminal.

    Yields:
        A function that is told the number of bytes done since it was called last.
    """
    if not wanted or not sys.stderr.isatty():
        yield _ignore
        return
    # Imported only for a terminal, as in `output`.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total_bytes)
        yield lambda count: bar.advance(task, count)


def _ignore(_: int) -> None:
    """No bar."""
