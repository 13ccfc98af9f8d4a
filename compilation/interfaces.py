"""What the C source of a module is made of: its own source, and what it sees of other modules.

mypyc translates all modules together, but the functions of a module become the same C source as
before if its source and the interfaces of the modules that it imports, also by way of others, are
the same. An interface is the types of names, as mypy knows them, and the signatures and layouts of
classes, as mypyc knows them. Bodies of functions and numbers of lines are no part of it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping

from mypy.build import BuildResult, State
from mypyc.ir.class_ir import ClassIR
from mypyc.ir.module_ir import ModuleIR

# Other packages change with a version, which the digest of the build has.
_PACKAGE = "coterie"


def digests(result: BuildResult, modules: Mapping[str, ModuleIR], build: str) -> dict[str, str]:
    """Return a digest for each module of everything that its C source is made of.

    Args:
        result: what mypy made of the sources.
        modules: the modules that are compiled; generators have their final attributes.
        build: a digest of what all modules are made with.
    """
    states = {name: state for name, state in result.graph.items() if _is_ours(name)}
    imports = {name: _imports(result, state) & states.keys() for name, state in states.items()}
    interfaces = {
        name: _digest(_interface(state), _native_interface(modules.get(name)))
        for name, state in states.items()
    }
    # A name of a module may be shorter in C if no other module ends in the same way.
    everywhere = _digest(build, *sorted(modules))
    found = {}
    for name in modules:
        seen = sorted(_reached(name, imports))
        source = states[name].source_hash or ""
        found[name] = _digest(everywhere, source, *seen, *(interfaces[each] for each in seen))
    return found


def _is_ours(name: str) -> bool:
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


def _imports(result: BuildResult, state: State) -> set[str]:
    """Return the modules that a module imports; mypyc adds all others to its dependencies."""
    if state.tree is None:
        return set(state.dependencies)
    return {name for _, name, _ in result.manager.all_imported_modules_in_file(state.tree)}


def _reached(name: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Return a module and those that it imports, also by way of others."""
    reached = {name}
    rest = [name]
    while rest:
        new = imports[rest.pop()] - reached
        reached |= new
        rest += new
    return reached


def _interface(state: State) -> str:
    """Return mypy's digest of a module's names; without a cache mypy has none."""
    return state.interface_hash.hex() or state.source_hash or ""


def _native_interface(module: ModuleIR | None) -> str:
    """Return what C source of other modules depends on, as a text."""
    if module is None:
        return ""
    data = module.serialize()
    data["functions"] = [each["decl"] for each in data["functions"]]
    data["derived"] = [_derived(each) for each in module.classes]
    return json.dumps(data, sort_keys=True)


def _derived(cls: ClassIR) -> list[object]:
    """Return what mypyc knows of the classes that are derived from a class."""
    concrete = cls.concrete_subclasses()
    return [
        cls.fullname,
        None if concrete is None else [each.fullname for each in concrete],
        # A call of a method that no class overrides needs no table.
        [name for name in cls.method_decls if cls.is_method_final(name)],
    ]


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def digest_of(parts: Iterable[bytes]) -> str:
    """Return a digest of what all modules are made with."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d " % len(part) + part)
    return digest.hexdigest()
