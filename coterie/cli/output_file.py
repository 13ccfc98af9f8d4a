"""The file that a command writes at its end: it is tried before the work begins."""

import os
from pathlib import Path
from typing import Any

import click


class OutputFile(click.Path):
    """A file to write. One that cannot be written is a wrong command line, not a lost run."""

    def __init__(self) -> None:
        """Accept any path that is no folder."""
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path of a file that can be written; an existing file is left as it is."""
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
