"""Test suites of libraries in Go: built from the module proxy, and their results."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.interop.suites import Outcome, call, need

_MODULE = """module suite

go 1.24.0

require {module} {version}
"""
_RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
_RESULTS = {"PASS": "pass", "FAIL": "fail", "SKIP": "skip"}
_SHOWN_CHARACTERS = 400
# The file beside test programs that names the directories of their packages.
_PLACES = "package-directories.json"


def build_tests(
    folder: Path,
    module: str,
    version: str,
    packages: Mapping[str, str],
    tags: str = "",
) -> None:
    """Build the test programs of some packages of a module into a directory.

    Args:
        folder: an empty directory.
        module: the module.
        version: its version.
        packages: the packages, by the names of their programs.
        tags: build tags.

    Raises:
        Skipped: Go is not installed, or the module cannot be fetched.
    """
    need("go", "the suite is built with it")
    (folder / "go.mod").write_text(_MODULE.format(module=module, version=version), encoding="utf-8")
    imports = "".join(f'import _ "{package}"\n' for package in packages.values())
    (folder / "suite.go").write_text(f"package suite\n\n{imports}", encoding="utf-8")
    call(["go", "mod", "tidy"], folder)
    places = {}
    for name, package in packages.items():
        found = Path(call(["go", "list", "-f", "{{.Dir}}", package], folder).strip())
        # The directory of the suite is renamed when it is complete.
        places[name] = str(found.relative_to(folder) if found.is_relative_to(folder) else found)
    (folder / _PLACES).write_text(json.dumps(places), encoding="utf-8")
    for name, package in packages.items():
        call(["go", "test", "-p", "1", "-tags", tags, "-c", "-o", name, package], folder)


def build_program(folder: Path, module: str, version: str, package: str, name: str) -> None:
    """Build a program of a module into an empty directory.

    Raises:
        Skipped: Go is not installed, or the module cannot be fetched.
    """
    need("go", "the program is built with it")
    (folder / "go.mod").write_text(_MODULE.format(module=module, version=version), encoding="utf-8")
    text = f'//go:build tools\n\npackage suite\n\nimport _ "{package}"\n'
    (folder / "suite.go").write_text(text, encoding="utf-8")
    call(["go", "mod", "tidy"], folder)
    call(["go", "build", "-p", "1", "-o", name, package], folder)


def build_source(folder: Path, source: Path, module: str, version: str) -> None:
    """Build a program of ours that needs a module: the file `program` in a new directory.

    Raises:
        Skipped: Go is not installed, or the module cannot be fetched.
    """
    need("go", "the program is built with it")
    folder.mkdir()
    (folder / "go.mod").write_text(_MODULE.format(module=module, version=version), encoding="utf-8")
    shutil.copy(source, folder)
    call(["go", "mod", "tidy"], folder)
    call(["go", "build", "-p", "1", "-o", "program", "."], folder)


def package_directory(folder: Path, name: str) -> Path:
    """Return the directory of the sources, where `go test` would run a test program."""
    places = json.loads((folder / _PLACES).read_text(encoding="utf-8"))
    return folder / str(places[name])


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
