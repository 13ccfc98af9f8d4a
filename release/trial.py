"""An installation of a built file in an empty environment, and the README's example with it."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from release.files import ROOT, run

_EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
_README_ADDRESS = "127.0.0.1:9092"
# The client library of the README's example.
_CLIENT = "kafka-python"
_START_LIMIT_S = 60


@contextmanager
def installed(file: Path) -> Iterator[Path]:
    """Yield the interpreter of a new environment with one built file and a client library."""
    with tempfile.TemporaryDirectory() as directory:
        environment = Path(directory) / "environment"
        run(sys.executable, "-m", "venv", "--without-pip", environment)
        python = environment / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
        run(*pip, "install", "--quiet", file, _CLIENT)
        yield python


def try_out(python: Path, expected_form: str) -> str:
    """Run the broker and the README's example with an installation; return what was seen.

    Raises:
        subprocess.CalledProcessError: a command failed.
        AssertionError: the example printed something else, or the form is not the expected one.
    """
    command = [str(python), "-m", "coterie"]
    version = run(*command, "--version", cwd=python.parent).strip()
    assert version.endswith(f"({expected_form})"), version
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
            example = _EXAMPLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
            program = example.replace(_README_ADDRESS, address[0])
            printed = run(python, "-c", f"{program}\norders.close()\n", cwd=python.parent)
            assert printed == "b'one espresso'\n", printed
        finally:
            server.terminate()
            server.wait(_START_LIMIT_S)
    return f"{version}; {line.strip().rpartition(' in ')[2]} to start; the README's example works"
