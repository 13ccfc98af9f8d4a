"""The tests of the compiled form, and the comparison of both forms."""

import difflib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compilation.tree import ROOT

# What tests read beside the package.
_COPIED = ("tests", "docs", "compilation", "benchmarks", "demo", "README.md", "pyproject.toml")
# Planted bugs replace the code of a function, which only interpreted ones have. The other files
# are about the repository and not about the code.
_IGNORED = (
    "tests/transcripts/test_planted_bugs.py",
    "tests/transcripts/test_coverage.py",
    "tests/simulation/test_planted_bugs.py",
    # Derives interpreted classes from native ones that requests pass through.
    "tests/unit/coordinator/toy",
    "tests/unit/test_packaging.py",
    "tests/unit/test_written_codecs.py",
    "tests/unit/test_spec_references.py",
)
TESTS = ("tests/unit", "tests/property", "tests/transcripts", "tests/simulation")
# The part that CI runs: the codecs, the coordinator, and what the server is used for most. The
# nightly workflow runs all.
SLICE = (
    "tests/unit/coordinator",
    "tests/unit/server/test_broker.py",
    "tests/unit/server/test_connection.py",
    "tests/unit/server/test_large_responses.py",
    "tests/unit/server/test_log_opener.py",
    "tests/unit/server/test_share_groups.py",
    "tests/unit/server/test_when_closed.py",
    "tests/property/test_codec_round_trips.py",
    "tests/transcripts",
)


def copy_tests(tree: Path) -> None:
    """Copy the tests, and what they read, into the tree of the compiled form."""
    for name in _COPIED:
        source, target = ROOT / name, tree / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def run_tests(tree: Path, tests: tuple[str, ...], jobs: int) -> int:
    """Run tests with the compiled form; return the exit status of pytest."""
    ignored = [f"--ignore={name}" for name in _IGNORED]
    arguments = ["-q", "-n", str(jobs), "-p", "compilation.patches", *ignored, *tests]
    return _python(tree, "-m", "pytest", *arguments).returncode


def compare_forms(tree: Path) -> list[str]:
    """Return the differences between what both forms do, as lines of a diff."""
    # Both at the same time, because each is one process that computes.
    with ThreadPoolExecutor(2) as threads:
        traces = list(threads.map(_traces, (ROOT, tree)))
    pure, compiled = traces
    return list(difflib.unified_diff(pure, compiled, "pure", "compiled", lineterm=""))


def _traces(place: Path) -> list[str]:
    """Return the lines of the form in a place."""
    result = _python(place, "-m", "compilation.traces", stdout=subprocess.PIPE)
    result.check_returncode()
    # The first line says where the form is.
    first, *lines = result.stdout.splitlines()
    assert first == f"# {place / 'coterie' / '__init__.py'}", first
    return lines


def _python(
    place: Path, *arguments: str, stdout: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python so that it imports the package of a place."""
    environment = os.environ | {"PYTHONPATH": str(place), "PYTHONHASHSEED": "0"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=place,
        env=environment,
        stdout=stdout,
        text=True,
        check=False,
    )
