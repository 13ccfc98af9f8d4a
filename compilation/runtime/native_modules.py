"""How Python finds the modules of the compiled form without opening a file for each.

`coterie/__init__.py` of the compiled form imports this module, so the finder is there before any
other module is. The library has a capsule with the start of each compiled module, named after it.
Code of interpreted modules is in one file, which stays mapped (`compilation/bytecode.py`).
"""

import json
import mmap
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

import coterie__mypyc as library

_PACKAGE = Path(__file__).parent


class NativeModules:
    """Finds and loads the modules of the library; both protocols of importlib have no base here."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module of the library, None for any other."""
        if fullname.startswith("coterie.") and hasattr(library, _start_of(fullname)):
            # The base class that mypy asks for is in a module that a start does not need.
            return ModuleSpec(fullname, self, origin=library.__file__)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, which has run, too: mypyc does both at once."""
        module: ModuleType = library.load_module(getattr(library, _start_of(spec.name)))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, see `create_module`."""


class MappedModules:
    """Finds the interpreted modules whose code is in the mapped file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._places: dict[str, tuple[int, int]] = json.loads(file.readline())
            self._start = file.tell()
            self._code = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module of the file, None for any other."""
        if fullname not in self._places:
            return None
        path = f"{_PACKAGE.joinpath(*fullname.split('.')[1:])}.py"
        spec = ModuleSpec(fullname, _MappedLoader(fullname, path, self), origin=path)
        # So `__file__` is the path of the source, which is there to be read.
        spec.has_location = True
        return spec

    def code_of(self, fullname: str) -> bytes:
        """Return the code of a module, as a `.pyc` file has it."""
        begin, end = self._places[fullname]
        return self._code[self._start + begin : self._start + end]


class _MappedLoader(SourceFileLoader):
    """Loads a module from the mapped file; what else is asked for comes from its source."""

    def __init__(self, fullname: str, path: str, modules: MappedModules) -> None:
        super().__init__(fullname, path)
        self._modules = modules

    def path_stats(self, _path: str) -> dict[str, int]:
        # The code says that it is not to be compared with its source.
        return {"mtime": 0}

    def get_data(self, path: str) -> bytes:
        return super().get_data(path) if path == self.path else self._modules.code_of(self.name)


def _start_of(name: str) -> str:
    return "init_" + name.replace(".", "___")


# Before the finder of files, which would find the source.
sys.meta_path[:0] = [NativeModules(), MappedModules(_PACKAGE / "modules.bin")]
