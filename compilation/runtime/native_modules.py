"""How Python finds the compiled modules, which are all in one library.

`coterie/__init__.py` of the compiled form imports this module, so the finder is there before the
first compiled module is. The library has a capsule with the start of each module, named after it.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import coterie__mypyc as library


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


def _start_of(name: str) -> str:
    return "init_" + name.replace(".", "___")


# Before the finder of files, which would find the source.
sys.meta_path.insert(0, NativeModules())
