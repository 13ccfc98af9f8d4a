"""Old releases of the clients, installed beside the environment and not into it.

Each is installed once into a directory of its own under .cache; a program that uses it gets that
directory as PYTHONPATH. If a release can't be installed or imported (without network, or with a
newer Python than it supports), its tests are skipped with the reason.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "clients"
INSTALL_LIMIT_S = 60


@dataclass(frozen=True)
class OldClient:
    """An old release.

    Attributes:
        name: the name of its directory.
        library: the library, as a member's option --library has it.
        requirements: the arguments of pip.
        module: the module that must be importable.
    """

    name: str
    library: str
    requirements: tuple[str, ...]
    module: str


KAFKA_PYTHON_2 = OldClient("kafka-python-2.0.2", "kafka-python", ("kafka-python==2.0.2",), "kafka")
AIOKAFKA_0_8 = OldClient(
    # It uses the codecs of kafka-python 2. Without a wheel it would have to be compiled.
    "aiokafka-0.8.1",
    "aiokafka",
    ("--only-binary=aiokafka", "aiokafka==0.8.1", "kafka-python==2.0.2"),
    "aiokafka",
)
# It sends message sets to brokers before 0.11.
KAFKA_PYTHON_1 = OldClient("kafka-python-1.4.7", "kafka-python", ("kafka-python==1.4.7",), "kafka")
OLD_CLIENTS = (KAFKA_PYTHON_2, AIOKAFKA_0_8)


class NotInstallableError(Exception):
    """An old release can't be installed or imported here."""


@cache
def installed(client: OldClient) -> Path:
    """Return the directory for PYTHONPATH, after installing the release at the first call.

    Raises:
        NotInstallableError: it can't be installed or imported.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    directory = CACHE / f"{client.name}-python{version}"
    if not directory.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as building:
            target = Path(building) / "target"
            line = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)]
            check([*line, "--disable-pip-version-check", *client.requirements], {})
            try:
                # Renamed in one step, because other processes may be doing the same.
                target.rename(directory)
            except OSError:
                if not directory.is_dir():
                    raise
    check([sys.executable, "-c", f"import {client.module}"], {"PYTHONPATH": str(directory)})
    return directory


def check(line: list[str], environment: dict[str, str]) -> None:
    """Run a command.

    Raises:
        NotInstallableError: it fails; the message is the end of its output.
    """
    try:
        done = subprocess.run(
            line,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstallableError(
            f"{' '.join(line)}: not finished within {INSTALL_LIMIT_S} s"
        ) from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise NotInstallableError(f"{' '.join(line)}: {' '.join(last)}")
