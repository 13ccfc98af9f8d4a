"""Which C files a build writes again, and that they are those of a clean build."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

mypyc = pytest.importorskip("mypyc", reason="only the extra dev has mypyc")

from compilation import module_code  # noqa: E402
from compilation.native_code import write_native_code  # noqa: E402

SOURCES = {
    "protocol/sizes.py": '''\
"""Sizes."""


class Size:
    """A size."""

    def __init__(self, count: int) -> None:
        self.count = count

    def doubled(self) -> int:
        """Return twice the count."""
        return self.count * 2


def half(size: Size) -> int:
    """Return half the count."""
    return size.count // 2
''',
    "protocol/sums.py": '''\
"""Sums."""

from coterie.protocol.sizes import Size, half


def total(sizes: list[Size]) -> int:
    """Return the sum of halves."""
    return sum(half(each) + each.doubled() for each in sizes)
''',
    "protocol/texts.py": '''\
"""Texts."""


def shortened(text: str) -> str:
    """Return the begin of a text."""
    return text[:10] + "..."
''',
    "server/clock.py": "",
    "server/services.py": "",
}


def written(tree: Path) -> dict[str, bytes]:
    """Return the C files and what is kept of modules, after a build."""
    write_native_code(tree)
    build = tree / "build"
    paths = [*build.glob("__native*.c"), *build.glob("modules/*")]
    return {path.relative_to(build).as_posix(): path.read_bytes() for path in paths}


def changed(tree: Path, name: str, old: str, new: str) -> None:
    """Replace a text in a source."""
    path = tree / "coterie" / name
    source = path.read_text()
    assert old in source
    path.write_text(source.replace(old, new))


def test_files_of_changed_modules_are_those_of_a_clean_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    for name, source in SOURCES.items():
        path = tree / "coterie" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(source)
    (tree / "coterie/__init__.py").touch()
    made: list[str] = []
    code_of = module_code.code_of

    def recorded(module: Any, *arguments: Any) -> module_code.ModuleCode:
        made.append(module.fullname.rpartition(".")[2])
        return code_of(module, *arguments)

    monkeypatch.setattr("compilation.native_code.code_of", recorded)

    def made_again() -> tuple[dict[str, bytes], list[str]]:
        made.clear()
        files = written(tree)
        again = made.copy()
        clean = tmp_path / "clean"
        shutil.copytree(tree, clean)
        for path in (*clean.glob("build/*.c"), *clean.glob("build/modules/*")):
            path.unlink()
        assert files == written(clean)
        shutil.rmtree(clean)
        return files, again

    first, everything = made_again()
    assert sorted(everything) == ["clock", "services", "sizes", "sums", "texts"]
    # The body of a function, with a new text and another number of lines.
    changed(tree, "protocol/sizes.py", "    return size.count // 2", "    print('x')\n    return 1")
    second, again = made_again()
    assert again == ["sizes"]
    different = {name for name in first if first[name] != second[name]}
    name = "coterie.protocol.sizes"
    assert different == {f"__native_{name.replace('.', '___')}.c", f"modules/{name}.json"}
    # A class has another layout.
    changed(tree, "protocol/sizes.py", "self.count = count", "self.first = self.count = count")
    assert made_again()[1] == ["sizes", "sums"]
    # A method is overridden, so it is called by way of a table.
    more = "class Long(Size):\n    def doubled(self) -> int:\n        return 1\n\n\ndef shortened"
    changed(tree, "protocol/texts.py", "def shortened", more)
    changed(tree, "protocol/texts.py", '"""Texts."""', "from coterie.protocol.sizes import Size")
    assert made_again()[1] == ["sizes", "sums", "texts"]
    # The other modules are known by what the build before kept of them.
    changed(tree, "protocol/sums.py", "return sum(", "return 1 + sum(")
    assert made_again()[1] == ["sums"]
    # A class that is derived from one of another module, which is analysed with it.
    changed(tree, "protocol/texts.py", "        return 1\n", "        return self.count + 2\n")
    assert made_again()[1] == ["texts"]
    # An attribute is no longer defined in all derived classes, so it has to be looked for.
    without = "    def __init__(self) -> None:\n        pass\n\n    def doubled"
    changed(tree, "protocol/texts.py", "    def doubled", without)
    assert made_again()[1] == ["sizes", "sums", "texts"]


def calls(path: Path, function: str) -> Iterator[str]:
    """Yield the names of the functions that a function calls, in order."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            found = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
            for call in sorted(found, key=lambda each: each.lineno):
                yield getattr(call.func, "id", "")


def test_functions_go_through_the_passes_of_mypyc() -> None:
    theirs = Path(mypyc.__file__).parent / "codegen" / "emitmodule.py"
    passes = list(calls(theirs, "compile_scc_to_ir"))
    ours = [name for name in calls(Path(module_code.__file__), "_finish") if name]
    not_ours = {"print", "build_ir", "catch_errors", "insert_event_trace_logging", ""}
    expected = [name for name in passes if name not in not_ours]
    assert [*ours, "find_class_dependencies"] == expected
