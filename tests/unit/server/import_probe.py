"""`coterie serve` that writes down what it imports after it has begun to serve.

    python -m tests.unit.server.import_probe BEGIN FOUND [OPTIONS OF coterie serve]

From the moment at which the file BEGIN exists, the name of every module that is searched for is
added to the file FOUND.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

from coterie.cli.main import main


class ImportRecorder(MetaPathFinder):
    """Finds nothing, and is asked first for every module that is not imported yet."""

    def __init__(self, begin: Path, found: Path) -> None:
        self._begin = begin
        self._found = found

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if self._begin.exists():
            with self._found.open("a") as file:
                file.write(f"{fullname}\n")


if __name__ == "__main__":
    _, begin, found, *arguments = sys.argv
    sys.meta_path.insert(0, ImportRecorder(Path(begin), Path(found)))
    sys.argv = ["coterie", "serve", *arguments]
    main()
