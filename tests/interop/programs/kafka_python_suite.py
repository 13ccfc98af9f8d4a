"""The integration tests of kafka-python, unmodified, against a broker of ours.

Its source distribution has them; two modules that they import only to start a broker are missing
there and are written here. The tests for TLS, SASL and ACLs need what this broker does not have.
"""

import os
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

from coterie.lab.live.parts import cache_directory
from tests.interop.model import Failed, Skipped, Surroundings

CONFIG = {
    "node.id": "0",
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
_RELEASE = "3.0.12"
_KAFKA = "4.3"
_PACKAGES = (
    "pytest",
    "pytest-timeout",
    "setuptools",
    "lz4",
    "python-snappy",
    "zstandard",
    "crc32c",
)
_WITHOUT = "not ssl and not sasl and not acls"
_LIMIT_S = 900.0
_SERVICE = '''"""Stands in for a module that the source distribution leaves out."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
'''


def run(around: Surroundings) -> None:
    """Run the tests."""
    python, source = _parts()
    command = [str(python), "-m", "pytest", "-q", "test/integration", "-k", _WITHOUT]
    command += ["--timeout=90", "--tb=short", "--show-capture=no", "-p", "no:cacheprovider"]
    environment = {
        **os.environ,
        "KAFKA_VERSION": _KAFKA,
        "KAFKA_URI": f"kafka://{around.bootstrap}",
    }
    child = around.children.start("kafka-python-suite", command, environment, source)
    code = child.process.wait(_LIMIT_S)
    lines = child.log.read_text(encoding="utf-8", errors="replace").splitlines()
    results = [line for line in lines if re.search(r"\d+ (passed|failed|error)", line)]
    if code or not results:
        failures = [line for line in lines if line.startswith(("E   ", "FAILED", "ERROR"))]
        raise Failed("\n".join(failures[-40:] or lines[-20:]))
    around.note(f"kafka-python {_RELEASE}: {results[-1].strip('= ')}")


def _parts() -> tuple[Path, Path]:
    """Return a Python with kafka-python's dependencies, and its source; fetch them once."""
    folder = cache_directory() / f"kafka-python-{_RELEASE}"
    python = folder / "bin" / "python"
    source = folder / f"kafka_python-{_RELEASE}"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip"]
        _call([*pip, "install", "--quiet", *_PACKAGES])
        chosen = ["--no-deps", "--no-binary=:all:", "-d", str(folder)]
        _call([*pip, "download", "--quiet", *chosen, f"kafka-python=={_RELEASE}"])
        with tarfile.open(folder / f"kafka_python-{_RELEASE}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        # Where the tests look for a Kafka that they could start.
        (source / "servers" / _KAFKA / "kafka-bin").mkdir(parents=True)
        (source / "test" / "__init__.py").touch()
        (source / "test" / "service.py").write_text(_SERVICE, encoding="utf-8")
        (folder / "ready").touch()
    assert sys.platform != "win32", "the path of the interpreter is that of other systems"
    return python, source


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"{' '.join(command[2:4])} fails: {done.stderr.strip()[-200:]}")
