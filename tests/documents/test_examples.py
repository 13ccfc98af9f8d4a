"""The tests that docs/testing.md and docs/cluster.md show pass, with a small service."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.blocks import ROOT, blocks

_PAGES = ("docs/testing.md", "docs/cluster.md")
_IS_TEST = re.compile(r"^(?:async )?def test_", re.MULTILINE)
EXAMPLES = [
    block
    for page in _PAGES
    for block in blocks(ROOT / page)
    if block.language == "python" and _IS_TEST.search(block.text)
]
# They take twelve seconds together; a busy machine needs a multiple of that.
_LIMIT_S = 280
# A test that hangs shows the stacks of all threads, and the run ends.
_HANGS_AFTER_S = 100


@pytest.mark.live
@pytest.mark.timeout(300)
def test_examples_pass(tmp_path: Path) -> None:
    for number, block in enumerate(EXAMPLES):
        # The lines have their numbers of the page, for the report of a failure.
        names = "from tests.documents.services import *" + "\n" * (block.line - 1)
        (tmp_path / f"test_{number}_{Path(block.page).stem}.py").write_text(names + block.text)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        f"faulthandler_timeout = {_HANGS_AFTER_S}\nfaulthandler_exit_on_timeout = true\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert f"{len(EXAMPLES)} passed" in done.stdout, done.stdout + done.stderr
