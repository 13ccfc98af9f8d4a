"""Test suites of libraries in Go: built from the module proxy, and their results."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.interop.suites import Outcome, call, need

_MODULE = """module suite

go 1.24.0

require {module} {version}
"""
_RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
_RESULTS = {"PASS": "pass", "FAIL": "fail", "SKIP": "skip"}
_SHOWN_CHARACTERS = 400
# The file beside a test program that names the directory of its package.
_PLACE = "package-directory"


def build_tests(folder: Path, module: str, version: str, package: str) -> None:
    """Build the test program of a package into a directory.

    Raises:
        Skipped: Go is not installed, or the module cannot be fetched.
    """
    need("go", "the suite is built with it")
    (folder / "go.mod").write_text(_MODULE.format(module=module, version=version), encoding="utf-8")
    text = f'package suite\n\nimport _ "{package}"\n'
    (folder / "suite.go").write_text(text, encoding="utf-8")
    call(["go", "mod", "tidy"], folder)
    call(["go", "test", "-p", "1", "-c", "-o", "tests", package], folder)
    place = call(["go", "list", "-f", "{{.Dir}}", package], folder).strip()
    (folder / _PLACE).write_text(place, encoding="utf-8")


def package_directory(folder: Path) -> Path:
    """Return the directory of the sources, where `go test` would run the test program."""
    return Path((folder / _PLACE).read_text(encoding="utf-8"))


def outcomes(output: str) -> Iterator[Outcome]:
    """Return what the tests of a program reported; subtests belong to their test."""
    seen = False
    for match in _RESULT.finditer(output):
        seen = True
        result = _RESULTS[match[1]]
        before = output[max(0, match.start() - _SHOWN_CHARACTERS) : match.start()]
        yield Outcome(match[2], result, before.strip() if result == "fail" else "")
    if not seen or "\npanic: " in output or "\nnot within " in output:
        yield Outcome("the program", "fail", output[-_SHOWN_CHARACTERS:].strip())
