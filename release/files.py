"""The files of a release: the source distribution, the wheels, and the list of what is in them."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_BUILD = (sys.executable, "-m", "build", "--no-isolation")


class Files(NamedTuple):
    """What was built; `compiled` is None if the compiled form was left out."""

    source: Path
    pure: Path
    compiled: Path | None

    @property
    def all(self) -> list[Path]:
        """The files that exist."""
        return [each for each in self if each is not None]


class Failed(Exception):  # noqa: N818 - it is no failure of the program
    """A command failed; the text has what it printed."""


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Run a command with more variables in its environment; return its standard output.

    Raises:
        Failed: its exit code is not 0.
    """
    # Without PYTHONPATH: the checkout must not be importable where a wheel is tried.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build(directory: Path, *, compiled: bool) -> Files:
    """Build everything into a directory, which is emptied before.

    The pure wheel is made from the source distribution, which shows that nothing is missing there.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    run(*_BUILD, "--sdist", "--outdir", directory, ROOT)
    (source,) = directory.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(source) as archive:
            archive.extractall(unpacked, filter="data")
        (tree,) = Path(unpacked).iterdir()
        run(*_BUILD, "--wheel", "--outdir", directory, tree)
    (pure,) = directory.glob("*-none-any.whl")
    return Files(source, pure, _compiled(directory) if compiled else None)


def _compiled(directory: Path) -> Path:
    """Build the compiled wheel; name it after the oldest C library that it runs with."""
    with tempfile.TemporaryDirectory() as built, tempfile.TemporaryDirectory() as repaired:
        run(*_BUILD, "--wheel", "--outdir", built, ROOT, COTERIE_FORM="compiled")
        (plain,) = Path(built).glob("*.whl")
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", repaired, plain)
        (named,) = Path(repaired).glob("*.whl")
        return Path(shutil.copy(named, directory))


def write_components(python: Path, target: Path) -> None:
    """Write the list of what an installation consists of (CycloneDX)."""
    run(
        sys.executable, "-m", "cyclonedx_py", "environment", "--output-format", "JSON",
        "--output-file", target, python,
    )  # fmt: skip
