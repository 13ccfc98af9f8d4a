"""The rules of this code base that no linter knows: `python -m tests.tidy`, part of `make lint`.

File and function sizes, module docstrings, names we do not use, what is left undone, and what the
pure packages may not call. Each finding is one line: file, line, rule and remedy.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "coterie",
    "benchmarks",
    "benchmarks_pipeline",
    "compilation",
    "documentation",
    "release",
    "demo",
    "tests",
)
PURE = tuple(f"coterie/{name}/" for name in ("protocol", "storage", "assignors", "coordinator"))

MAX_FILE_LINES = 500  # a file that long has two subjects
MAX_FUNCTION_LINES = 70  # what one sees at once
VAGUE_NAMES = re.compile(r"(^|_)(util|utils|helper|helpers|manager|managers|misc|common)(_|$|\.)")
UNDONE = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# Where the server may read clocks, draw random numbers and start threads: its environment, and what
# belongs to the process (docs/adr/0017-environment.md).
SERVER = "coterie/server/"
_OF_PROCESS = (
    "clock",
    "environment",
    "listening",
    "log_lines",
    "operating_system",
    "run",
    "watchdog",
    "workers",
)
ENVIRONMENT = {f"{SERVER}{name}.py" for name in _OF_PROCESS}
AMBIENT_MODULES = {"time", "random", "secrets", "uuid", "threading", "concurrent", "queue"}
AMBIENT_CALLS = {
    "asyncio.get_running_loop",
    "asyncio.get_event_loop",
    "asyncio.sleep",
    "asyncio.to_thread",
    "loop.time",
    "loop.run_in_executor",
    "os.urandom",
    "datetime.now",
}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval"}
# The one place that compiles code: our own declarations (ADR 0002).
EXEC_ALLOWED = {"coterie/protocol/compile.py"}


def findings(path: Path) -> Iterator[str]:
    """What is untidy in one file."""
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > MAX_FILE_LINES:
        yield f"{name}: {len(lines)} lines, at most {MAX_FILE_LINES}: split it by subject"
    if VAGUE_NAMES.search(path.stem):
        yield f"{name}: the name says nothing: call it by what it does"
    for undone in UNDONE.finditer(text) if path.name != "tidy.py" else ():
        number = text.count("\n", 0, undone.start()) + 1
        yield f"{name}:{number}: undone work belongs into an issue, not into the code"
    tree = ast.parse(text)
    if lines and not ast.get_docstring(tree):
        yield f"{name}:1: no module docstring: say what it is and what always holds"
    # A walk takes as long as the parser does.
    nodes = list(ast.walk(tree))
    yield from _functions(nodes, name)
    yield from _defaults(nodes, name)
    if name.startswith(PURE):
        yield from _impure(nodes, name)
    if name.startswith(SERVER) and name not in ENVIRONMENT:
        yield from ambient(nodes, name)


def _functions(nodes: Iterable[ast.AST], name: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                limit = f"at most {MAX_FUNCTION_LINES}"
                yield f"{name}:{node.lineno}: {node.name} has {length} lines, {limit}"


def _defaults(nodes: Iterable[ast.AST], name: str) -> Iterator[str]:
    """Find `given or Class()`: an empty object with a length would be replaced, too."""
    for node in nodes:
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            last = node.values[-1]
            made = last.func if isinstance(last, ast.Call) else None
            called = made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")
            if called[:1].isupper():
                yield f"{name}:{node.lineno}: `or {called}()`: an empty object is false: `is None`"


def _impure(nodes: Iterable[ast.AST], name: str) -> Iterator[str]:
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in IMPURE_CALLS
            and name not in EXEC_ALLOWED
        ):
            yield f"{name}:{node.lineno}: {node.func.id}() in a pure package"


def ambient(nodes: Iterable[ast.AST], name: str) -> Iterator[str]:
    """Find sources of time, chance and threads beside the server's `Environment`."""
    for node in nodes:
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Attribute):
            found = [".".join(ast.unparse(node).replace("_loop.", "loop.").split(".")[-2:])]
        for each in found:
            # Modules count where they are imported; of others, only some functions do.
            is_import = not isinstance(node, ast.Attribute)
            if each in AMBIENT_CALLS or (is_import and each.split(".")[0] in AMBIENT_MODULES):
                line = getattr(node, "lineno", 0)
                yield f"{name}:{line}: {each}: the server has it from its Environment only"


def main() -> int:
    """Print every finding; the exit status says whether there was one."""
    files = sorted(
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if "golden" not in path.parts
    )
    found = [finding for path in files for finding in findings(path)]
    for finding in found:
        print(finding)
    print(f"tidy: {len(files)} files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
