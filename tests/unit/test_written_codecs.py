"""The codecs that the compiled form writes out as modules do what the compiled-at-run-time ones do.

Here they run interpreted; `make test-compiled` runs all tests of codecs on them after mypyc.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from compilation.messages import rewritten
from compilation.selection import INTERPRETED, compiled_modules, reused_names
from compilation.tree import ROOT, write_tree

# One worker prepares what its tests share.
pytestmark = pytest.mark.xdist_group("written codecs")

GOLDEN = ROOT / "tests" / "golden" / "written_codecs" / "heartbeat.py.txt"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the compiled form, with the tests."""
    target = tmp_path_factory.mktemp("compiled")
    write_tree(target)
    for name in ("tests", "compilation"):
        (target / name).symlink_to(ROOT / name)
    return target


def lines_of(place: Path) -> list[str]:
    """Return the digests of the bytes of all messages; the first line is where the form is."""
    command = [sys.executable, "-m", "compilation.traces", "--codecs"]
    environment = {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines()


def test_both_forms_encode_and_decode_the_same_bytes(tree: Path) -> None:
    pytest.importorskip("librt", reason="comes with mypy, which EXTRAS=test leaves out")
    where, *written = lines_of(tree)
    assert where == f"# {tree / 'coterie' / '__init__.py'}"
    assert written == lines_of(ROOT)[1:]
    assert len(written) > 100


def test_a_written_module_is_unchanged(rewrite: bool) -> None:
    name = "coterie.protocol.messages.heartbeat"
    source = rewritten(name, (ROOT / f"{name.replace('.', '/')}.py").read_text())
    if rewrite:
        GOLDEN.write_text(source)
    assert source == GOLDEN.read_text(), "run pytest --rewrite and read the diff"


def test_modules_that_stay_interpreted_exist_and_have_a_reason(tree: Path) -> None:
    modules = {module.as_posix() for module in compiled_modules(tree / "coterie")}
    for name, reason in INTERPRETED.items():
        assert (tree / "coterie" / name).is_file(), name
        assert reason
        assert name not in modules
    assert {"coordinator/groups/service.py", "server/network/connection.py"} <= modules


def test_a_name_for_exceptions_of_several_types_is_found() -> None:
    clauses = "def f():\n  try: pass\n  except OSError as error: pass\n  except {} as error: pass\n"
    assert reused_names(clauses.format("ValueError")) == ["f"]
    assert reused_names(clauses.format("OSError")) == []
