"""The source of the compiled form: a copy of the package with written-out messages.

Modules that declare messages are rewritten, and the modules of `runtime` are added.
"""

import hashlib
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
# What makes the text of a compiled module from its source. With a check of the source it takes two
# thirds of the time of the tree.
_OF_TEXTS = ("constants.py", "numbers.py")
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
# Classes that are made for every request and are no part of a cycle: what they hold does not hold
# them. The garbage collector leaves them out.
_ACYCLIC = {
    "coordinator/kernel/append.py": {"Append"},
    "coordinator/kernel/effects.py": {"Reply"},
    "coordinator/kernel/operation.py": {"Operation"},
    "coordinator/kernel/request.py": {"RequestContext"},
}


def write_tree(target: Path) -> Path:
    """Write the source of the compiled form to `target/coterie` and return that path."""
    package = target / "coterie"
    shutil.rmtree(package, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "coterie", package, ignore=ignored)
    for name, place in _ADDED.items():
        shutil.copy(_RUNTIME / name, package / place)
    kept = _Kept(target / "build" / "texts")
    for module in compiled_modules(package):
        path = package / module
        source = path.read_text(encoding="utf-8")
        if module.parts[:2] == ("protocol", "messages") and declares_messages(source):
            name = ".".join(path.relative_to(target).with_suffix("").parts)
            source = rewritten(name, source)
        path.write_text(kept.native(module, source), encoding="utf-8")
    kept.remove_others()
    for name, (classes, attributes) in _BASES.items():
        _mark(package / name, classes, attributes)
    for name, classes in _ACYCLIC.items():
        _mark(package / name, classes, "acyclic=True")
    return package


class _Kept:
    """The texts of compiled modules that an earlier build made, by what they were made of."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._others = {path.name: path for path in directory.iterdir()}
        self._directory = directory
        self._made_with = b"".join(
            (Path(__file__).parent / name).read_bytes() for name in _OF_TEXTS
        )

    def native(self, module: Path, source: str) -> str:
        """Return what mypyc reads of a module, made from its source with written-out messages."""
        name = hashlib.sha256(self._made_with + source.encode()).hexdigest()
        path = self._directory / name
        if self._others.pop(name, None) is None and not path.exists():
            names = reused_names(source)
            assert not names, f"{module}: one name for exceptions in {names}"
            # A build that is interrupted leaves no half of a text.
            begun = path.with_suffix(".new")
            begun.write_text(with_final_constants(with_native_structs(source)), encoding="utf-8")
            begun.replace(path)
        return path.read_text(encoding="utf-8")

    def remove_others(self) -> None:
        """Remove what no module has asked for."""
        for path in self._others.values():
            path.unlink()


def find_native_modules(package: Path) -> None:
    """Let the package find its modules in the library, which has been made, and in one file."""
    write_bytecode(package)
    path = package / "__init__.py"
    source = path.read_text(encoding="utf-8")
    path.write_text(
        f"{source}\nfrom coterie import native_modules as _  # noqa: E402\n", encoding="utf-8"
    )


def _mark(path: Path, classes: set[str], attributes: str) -> None:
    """Give native classes attributes of mypyc."""
    source = path.read_text(encoding="utf-8")
    for name in classes:
        decorator = f"@mypyc_attr({attributes})\n"
        source, count = re.subn(rf"^(?=class {name}\b)", decorator, source, flags=re.MULTILINE)
        assert count == 1, f"{path} has no class {name}"
    path.write_text(
        with_import(source, "from mypy_extensions import mypyc_attr\n"), encoding="utf-8"
    )
