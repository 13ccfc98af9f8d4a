"""The source of the compiled form: a copy of the package with written-out messages.

Modules that declare messages are rewritten, and the modules of `runtime` are added.
"""

import re
import shutil
from pathlib import Path

from compilation.bytecode import write_bytecode
from compilation.constants import with_final_constants, with_import
from compilation.messages import declares_messages, rewritten
from compilation.numbers import with_native_structs
from compilation.selection import compiled_modules, reused_names

ROOT = Path(__file__).parent.parent
_RUNTIME = Path(__file__).parent / "runtime"
# Where the modules of `runtime` go in the package.
_ADDED = {"wire_bytes.py": "protocol/wire_bytes.py", "native_modules.py": "native_modules.py"}
# Classes from which interpreted ones are derived: declarations, the broker and what brokers share,
# the placing of partitions, runtimes of coordinators, and one in the simulation. Messages are never
# part of a cycle, which their bases have to say too.
_OPEN = "allow_interpreted_subclasses=True"
_BASES = {
    "protocol/fields.py": ({"Declaration", "MessageDeclaration"}, f"{_OPEN}, acyclic=True"),
    "protocol/wire.py": ({"Message"}, f"{_OPEN}, acyclic=True"),
    "coordinator/kernel/purgatory.py": ({"Purgatory"}, _OPEN),
    "server/coordinators/created_topic.py": ({"CreatedTopicRuntime"}, _OPEN),
    "server/coordinators/runtime.py": ({"CoordinatorRuntime"}, _OPEN),
    "server/metadata/placing.py": ({"Placing"}, _OPEN),
    "server/services.py": ({"SharedServices", "Services"}, _OPEN),
    "server/network/channel.py": ({"ConnectionServices"}, _OPEN),
}


def write_tree(target: Path) -> Path:
    """Write the source of the compiled form to `target/coterie` and return that path."""
    package = target / "coterie"
    shutil.rmtree(package, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "coterie", package, ignore=ignored)
    for name, place in _ADDED.items():
        shutil.copy(_RUNTIME / name, package / place)
    for module in compiled_modules(package):
        path = package / module
        source = path.read_text(encoding="utf-8")
        assert not (names := reused_names(source)), f"{module}: one name for exceptions in {names}"
        if module.parts[:2] == ("protocol", "messages") and declares_messages(source):
            name = ".".join(path.relative_to(target).with_suffix("").parts)
            source = rewritten(name, source)
        path.write_text(with_final_constants(with_native_structs(source)), encoding="utf-8")
    for name, (classes, attributes) in _BASES.items():
        _open_bases(package / name, classes, attributes)
    return package


def find_native_modules(package: Path) -> None:
    """Let the package find its modules in the library, which has been made, and in one file."""
    write_bytecode(package)
    path = package / "__init__.py"
    source = path.read_text(encoding="utf-8")
    path.write_text(
        f"{source}\nfrom coterie import native_modules as _  # noqa: E402\n", encoding="utf-8"
    )


def _open_bases(path: Path, classes: set[str], attributes: str) -> None:
    """Let interpreted classes be derived from native ones."""
    source = path.read_text(encoding="utf-8")
    for name in classes:
        decorator = f"@mypyc_attr({attributes})\n"
        source, count = re.subn(rf"^(?=class {name}\b)", decorator, source, flags=re.MULTILINE)
        assert count == 1, f"{path} has no class {name}"
    path.write_text(
        with_import(source, "from mypy_extensions import mypyc_attr\n"), encoding="utf-8"
    )
