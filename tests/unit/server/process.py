"""`coterie serve` as a process, for the tests of its start and its end."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.server.running import PATIENCE_S

READY = re.compile(
    r"coterie \S+ ready on (\S+):(\d+) \(data in (.+), flush (\S+)\) in (\d+\.\d\d) s\n"
)
COMMAND = (sys.executable, "-m", "coterie", "serve")


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that does not start a broker."""
    return subprocess.run(
        (*COMMAND, *arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, **environment},
    )


@contextmanager
def started(*command: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a program with its output in pipes; kill it at the end if it still runs."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextmanager
def serving(
    *arguments: str, port: int | None = 0, **environment: str
) -> Iterator["subprocess.Popen[str]"]:
    """Start a broker, by default on a free port; kill it at the end if it still runs."""
    listening = () if port is None else ("--port", str(port))
    with started(*COMMAND, *listening, *arguments, **environment) as process:
        yield process


def ready(process: "subprocess.Popen[str]") -> tuple[int, "re.Match[str]"]:
    """Wait for the ready line; return the port and the match of the line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = READY.fullmatch(line)
    assert match, line
    return int(match[2]), match
