"""The headers of Python and of mypyc, which gcc reads once for all C files.

Each C file of a module includes the same headers. Reading them takes gcc 0.17 s, which is a fourth
of the time of a build; reading what it made of them takes a tenth of that. Objects are the same
with and without, so other compilers do without.
"""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compilation.freshness import is_made, note_of


def is_gcc(command: Sequence[str]) -> bool:
    """Return whether a C compiler is gcc; clang has another kind of such files.

    Args:
        command: the compiler with its options.
    """
    try:
        made = subprocess.run(
            [command[0], "-dM", "-E", "-x", "c", os.devnull],
            capture_output=True,
            text=True,
            check=True,
        )
    except (IndexError, OSError, subprocess.CalledProcessError):
        return False
    return " __GNUC__ " in made.stdout and " __clang__ " not in made.stdout


def precompiled(directory: Path, includes: str, command: Sequence[str], versions: str) -> list[str]:
    """Let gcc read headers, unless it has; return the options with which files use that.

    gcc itself refuses what another version of it made, and reads the headers then.

    Args:
        directory: where it is kept: one for each level of optimisation.
        includes: the lines that include the headers.
        command: gcc with all options of the files.
        versions: what the headers belong to.
    """
    directory.mkdir(parents=True, exist_ok=True)
    header, made = directory / "includes.h", directory / "includes.h.gch"
    digest = hashlib.sha256(f"{versions} {command} {includes}".encode()).hexdigest()
    if not is_made(made, digest):
        header.write_text(includes)
        subprocess.run([*command, "-x", "c-header", str(header), "-o", str(made)], check=True)
        note_of(made).write_text(digest)
    return ["-include", str(header)]
