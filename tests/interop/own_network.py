"""A network for one broker and a test suite, in which every port is free.

Some suites name the ports of their broker, such as 9092. In a network namespace they can have them
whatever else this machine serves, and their sources stay as they are.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from coterie.processes import Child
from tests.interop.model import Skipped, Surroundings

_ALONE = ("unshare", "--map-root-user", "--net")
_WITH_LOOPBACK = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def start_alone(around: Surroundings, name: str, command: Sequence[str]) -> Child:
    """Start a process in a network of its own.

    Raises:
        Skipped: this system has no such networks, or does not allow them.
    """
    for program in (_ALONE[0], "nsenter", "ip"):
        if shutil.which(program) is None:
            raise Skipped(f"'{program}' is not installed: the suite needs a network of its own")
    trial = around.children.start("network", [*_ALONE, *_WITH_LOOPBACK, "true"])
    if trial.process.wait():
        raise Skipped(f"no network of its own is allowed: {trial.last_lines().strip()}")
    return around.children.start(name, [*_ALONE, *_WITH_LOOPBACK, *command])


def broker_command(around: Surroundings, config: Mapping[str, str], *options: str) -> list[str]:
    """Return the command of a broker that listens where its settings say, or on port 9092."""
    program = str(Path(sys.executable).with_name("coterie"))
    settings = [f"--config={name}={value}" for name, value in config.items()]
    return [program, "serve", "--data-dir", str(around.directory / "data"), *settings, *options]


def beside(child: Child, command: Sequence[str]) -> list[str]:
    """Return the command that runs another one in the network of a process."""
    target = ("--target", str(child.process.pid), "--user", "--net", "--preserve-credentials")
    return ["nsenter", *target, "--", *command]
