"""The options of commands that can write a recording."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from coterie.cli.values import COUNT, LONG_COUNT, gather

if TYPE_CHECKING:
    from coterie.recording.files import RecordingOptions

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULT_FILE_BYTES = 64 * 1024 * 1024
_DEFAULT_FILES = 4


class RecordingArguments(NamedTuple):
    """The values of the options; without a path nothing is recorded."""

    path: str | None
    with_payloads: bool
    file_bytes: int
    files: int

    def options(self) -> "RecordingOptions | None":
        """Return what a recorder needs to write a file; None to record nothing."""
        if self.path is None:
            return None
        # Imported here, because most brokers record nothing and start faster without.
        from coterie.recording.files import Limits, RecordingOptions

        return RecordingOptions(self.path, Limits(self.file_bytes, self.files), self.with_payloads)


def recording_options(function: F) -> F:
    """Add the options to a command, as the argument `recording`."""

    return gather(
        function, "recording", RecordingArguments, (_record, _payloads, _max_bytes, _files)
    )


_record = click.option(
    "--record",
    "path",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Record every request and response in FILE, for `coterie replay`. Secrets are left out.",
)
_payloads = click.option(
    "--record-payloads",
    "with_payloads",
    is_flag=True,
    help="Record keys and values of records too, instead of only the headers of their batches.",
)
_max_bytes = click.option(
    "--record-max-bytes",
    "file_bytes",
    type=LONG_COUNT,
    default=_DEFAULT_FILE_BYTES,
    show_default=True,
    metavar="N",
    help="Size at which FILE becomes FILE.1 and a new one begins.",
)
_files = click.option(
    "--record-files",
    "files",
    type=COUNT,
    default=_DEFAULT_FILES,
    show_default=True,
    metavar="N",
    help="Number of files that are kept.",
)
