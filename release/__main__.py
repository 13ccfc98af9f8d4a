"""Build and check a release: `python -m release [--without-compiled] [--snapshot]`."""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TypeVar

from release.files import ROOT, Failed, Files, build, run, write_components
from release.notes import NotReady, release_notes
from release.trial import installed, try_out

Result = TypeVar("Result")

_DIRECTORY = ROOT / "dist" / "release"
_CONTENTS = (sys.executable, "-m", "check_wheel_contents", "--toplevel")
# The compiled form brings the shared library of its modules, too.
_LIBRARY = f"coterie__mypyc{EXTENSION_SUFFIXES[0]}"


def main() -> None:
    """Run each step, print a line for it, and stop at the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--without-compiled", action="store_true", help="only the pure form")
    parser.add_argument(
        "--snapshot", action="store_true", help="without a dated section in CHANGELOG.md"
    )
    options = parser.parse_args()
    try:
        if not options.snapshot:
            notes = release_notes(ROOT / "CHANGELOG.md")
            (ROOT / "build").mkdir(exist_ok=True)
            (ROOT / "build" / "release-notes.md").write_text(notes + "\n", encoding="utf-8")
        files = _step("build", partial(build, _DIRECTORY, compiled=not options.without_compiled))
        _check(files)
    except (NotReady, Failed) as error:
        raise SystemExit(str(error)) from None
    for each in sorted(_DIRECTORY.iterdir()):
        print(f"{each.stat().st_size / 2**20:6.2f} MiB  {each.relative_to(ROOT)}")


def _check(files: Files) -> None:
    """Check the files, and install and try each of them."""
    python = sys.executable
    _step("twine", lambda: run(python, "-m", "twine", "check", "--strict", *files.all))
    for wheel, names in ((files.pure, "coterie"), (files.compiled, f"coterie,{_LIBRARY}")):
        if wheel is not None:
            _step(f"contents of {wheel.name}", partial(run, *_CONTENTS, names, wheel))
    for file in files.all:
        with tempfile.TemporaryDirectory() as directory:
            interpreter = installed(file, Path(directory) / "environment")
            form = "compiled" if file == files.compiled else "pure"
            seen = _step(f"{file.name} installed", partial(try_out, interpreter, form))
            print(f"            {seen}")
            if file == files.pure:
                components = file.with_name(f"{file.name.partition('-py3')[0]}.cdx.json")
                _step("list of components", partial(write_components, interpreter, components))


def _step(name: str, work: Callable[[], Result]) -> Result:
    began_s = time.monotonic()
    result = work()
    print(f"{time.monotonic() - began_s:6.1f} s    {name}", flush=True)
    return result


if __name__ == "__main__":
    main()
