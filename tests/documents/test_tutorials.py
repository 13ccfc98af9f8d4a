"""The tutorials of docs/start can be followed as they are written, but for the port.

Files are saved, commands run in the order of the page, and `coterie serve` runs until the next one
or the end. Text below a command must occur in what the command printed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from coterie.processes.broker import free_port
from tests.documents.blocks import ROOT, Block, blocks

TUTORIALS = sorted((ROOT / "docs" / "start").glob("*.md"))
_PORT = "9092"
# Each command takes a second or two; a busy machine needs a multiple of that.
_LIMIT_S = 200


class Reader:
    """Someone who follows a tutorial, in a directory of their own."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._port = port
        scripts = Path(sys.executable).parent
        self._environment: Mapping[str, str] = {
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "COTERIE_BOOTSTRAP": f"127.0.0.1:{port}",
            "PYTHONPATH": str(ROOT),
        }
        self._server: subprocess.Popen[bytes] | None = None
        self._printed = ""

    def follow(self, block: Block) -> None:
        """Do what a block is for."""
        text = block.text.replace(_PORT, str(self._port))
        if block.language == "python":
            (self._directory / block.title).write_text(text, encoding="utf-8")
        elif block.language == "text":
            missing = [line for line in text.splitlines() if line not in self._printed]
            assert missing == [], f"{block.place}: printed was\n{self._printed}"
        elif text.startswith("coterie serve"):
            self.stop()
            self._serve(text)
        else:
            self._run(block, text)

    def stop(self) -> None:
        """Press Ctrl-C in the terminal of the broker."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.communicate(timeout=_LIMIT_S)
            assert self._server.returncode == 0
            self._server = None

    def _serve(self, text: str) -> None:
        words = text.split()
        if "--port" not in words:
            words += ["--port", str(self._port)]
        self._server = subprocess.Popen(
            words,
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._server.stdout is not None
        assert b"ready on" in self._server.stdout.readline()

    def _run(self, block: Block, text: str) -> None:
        done = subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        self._printed = done.stdout
        assert done.returncode == 0, f"{block.place}:\n{done.stdout}"


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_a_tutorial_can_be_followed(path: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path, free_port())
    try:
        for block in blocks(path):
            if not block.reason:
                reader.follow(block)
    finally:
        reader.stop()
