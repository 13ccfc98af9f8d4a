"""The service and the test of docs/first-minutes.md, which a reader copies, are green."""

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "first-minutes.md"
LIMIT_S = 100


def test_the_first_test_is_green(tmp_path: Path) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    written = re.findall(r"^`([\w.]+\.py)`.*?```python\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in written] == ["service.py", "test_service.py"]
    for name, source in written:
        (tmp_path / name).write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout
