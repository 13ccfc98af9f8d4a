"""Releases of the clients from years ago, installed beside the environment, never into it.

Each goes into a directory of its own under .cache, once for all runs; a program that is to use one
gets that directory as PYTHONPATH. Where one cannot be installed or imported (no network, a newer
Python than it knows) its tests are skipped and say why.
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
    """A release, what pip needs to hear, and what must be importable afterwards."""

    name: str
    library: str
    requirements: tuple[str, ...]
    module: str


KAFKA_PYTHON_2 = OldClient("kafka-python-2.0.2", "kafka-python", ("kafka-python==2.0.2",), "kafka")
AIOKAFKA_0_8 = OldClient(
    # It takes its wire protocol from kafka-python 2, and only as a wheel is it quick to install.
    "aiokafka-0.8.1",
    "aiokafka",
    ("--only-binary=aiokafka", "aiokafka==0.8.1", "kafka-python==2.0.2"),
    "aiokafka",
)
OLD_CLIENTS = (KAFKA_PYTHON_2, AIOKAFKA_0_8)


class NotInstallableError(Exception):
    """Why an old client cannot be had here."""


@cache
def installed(client: OldClient) -> Path:
    """The directory to put on PYTHONPATH, installed on first use.

    NotInstallableError says why it cannot be.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = CACHE / f"{client.name}-python{version}"
    if not place.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as building:
            target = Path(building) / "target"
            line = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)]
            check([*line, "--disable-pip-version-check", *client.requirements], {})
            try:
                # Whole or not at all, as several workers may be at it.
                target.rename(place)
            except OSError:
                if not place.is_dir():
                    raise
    check([sys.executable, "-c", f"import {client.module}"], {"PYTHONPATH": str(place)})
    return place


def check(line: list[str], environment: dict[str, str]) -> None:
    """Run a command; NotInstallableError with the end of its output if it fails."""
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
        raise NotInstallableError(f"{' '.join(line)}: nothing within {INSTALL_LIMIT_S} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise NotInstallableError(f"{' '.join(line)}: {' '.join(said)}")
