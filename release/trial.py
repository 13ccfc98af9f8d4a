"""An installation of a built file in an empty environment, and the README's example with it."""

import re
import subprocess
import sys
from pathlib import Path

from release.files import ROOT, run

PYTHON_EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
_README_ADDRESS = "127.0.0.1:9092"
# The client library of the README's example.
_CLIENT = "kafka-python"
_START_LIMIT_S = 60
# The first page of the documentation, which `coterie docs` would show.
_FIRST_PAGE = "from coterie.cli.docs.pages import HOME, load; print(HOME in load().names)"


def installed(file: Path, environment: Path) -> Path:
    """Make an environment with one built file and a client library; return its interpreter."""
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--quiet", file, _CLIENT)
    return python


def readme_example(address: str) -> str:
    """Return the README's example of a client, for a broker at another address."""
    example: str = PYTHON_EXAMPLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    assert _README_ADDRESS in example
    return example.replace(_README_ADDRESS, address)


def try_out(python: Path, expected_form: str) -> str:
    """Run the broker and the README's example with an installation; return what was seen.

    Raises:
        Failed: a command failed.
        AssertionError: the example printed something else, or the form is not the expected one.
    """
    command = [str(python), "-m", "coterie"]
    version = run(*command, "--version", cwd=python.parent).strip()
    assert version.endswith(f"({expected_form})"), version
    assert run(python, "-c", _FIRST_PAGE, cwd=python.parent) == "True\n"
    run(*command, "doctor", "serve", "--port", "0", "--data-dir", ":memory:", cwd=python.parent)
    with subprocess.Popen(
        [*command, "serve", "--port", "0", "--data-dir", ":memory:", "--log-level", "warning"],
        cwd=python.parent,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            address = re.search(r"127\.0\.0\.1:\d+", line)
            assert address is not None, line
            program = f"{readme_example(address[0])}\norders.close()\n"
            printed = run(python, "-c", program, cwd=python.parent)
            assert printed == "b'one espresso'\n", printed
        finally:
            server.terminate()
            server.wait(_START_LIMIT_S)
    return f"{version}; {line.strip().rpartition(' in ')[2]} to start; the README's example works"
