"""`coterie` with a planted bug: handles of files that are closed stay open.

`python -m tests.soak.leak serve ...`, to show that the soak finds such a bug.
"""

import os

from coterie.cli.main import main
from coterie.storage.open_files import OpenFiles

# Enough to go beyond the bound of the soak, and too few to stop the server.
_LEAKED_AT_ONCE = 10
_MOST_LEAKED = 150

_drop = OpenFiles.drop
_leaked: list[int] = []


def _drop_and_leak(self: OpenFiles, path: str) -> None:
    _drop(self, path)
    if len(_leaked) < _MOST_LEAKED:
        _leaked.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(_LEAKED_AT_ONCE))


if __name__ == "__main__":
    OpenFiles.drop = _drop_and_leak  # type: ignore[method-assign]  # the planted bug
    main(prog_name="coterie")
