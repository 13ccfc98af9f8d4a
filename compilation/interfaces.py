"""What the C source of a module is made of: its own source, and what it sees of other modules.

mypyc translates all modules together, but the functions of a module become the same C source as
before if its source and the interfaces of the modules that it imports, also by way of others, are
the same. An interface is the types of names, as mypy knows them, and the signatures and layouts of
classes, as mypyc knows them. Bodies of functions and numbers of lines are no part of it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from mypy.build import BuildResult, State
from mypyc.ir.module_ir import ModuleIR

from compilation.module_code import NativeForm

# Other packages change with a version, which the digest of the build has.
_PACKAGE = "coterie"


def digests(
    result: BuildResult,
    modules: Mapping[str, ModuleIR],
    sources: Mapping[str, str],
    natives: Mapping[str, str],
) -> dict[str, str]:
    """Return a digest for each module of everything that its C source is made of.

    Args:
        result: what mypy made of the sources.
        modules: the modules that are compiled; generators have their final attributes.
        sources: digests of their sources and of what all modules are made with.
        natives: digests of their native forms.
    """
    states = {name: state for name, state in result.graph.items() if _is_ours(name)}
    imports = {name: states.keys() & state.dependencies for name, state in states.items()}
    interfaces = {
        name: _digest(_interface(state), natives.get(name, ""), _derived(modules.get(name)))
        for name, state in states.items()
    }
    # A name of a module may be shorter in C if no other module ends in the same way.
    everywhere = _digest(*sorted(modules))
    found = {}
    for name in modules:
        seen = sorted(_reached(name, imports))
        seen_there = (interfaces[each] for each in seen)
        found[name] = _digest(everywhere, sources[name], *seen, *seen_there)
    return found


def _is_ours(name: str) -> bool:
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


def _reached(name: str, imports: Mapping[str, AbstractSet[str]]) -> set[str]:
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


def digest_of_form(form: NativeForm) -> str:
    """Return a digest of what C source of other modules depends on: not of numbers of lines."""
    functions = [each["decl"] for each in form["functions"]]
    return _digest(json.dumps({**form, "functions": functions}, sort_keys=True))


def _derived(module: ModuleIR | None) -> str:
    """Return what mypyc knows of the classes that are derived from those of a module, as a text."""
    facts = []
    for cls in module.classes if module is not None else ():
        concrete = cls.concrete_subclasses()
        # Those with the same last name come in any order.
        names = None if concrete is None else sorted(each.fullname for each in concrete)
        # A call of a method that no class overrides needs no table.
        final = [name for name in cls.method_decls if cls.is_method_final(name)]
        facts.append([cls.fullname, names, final])
    return json.dumps(facts)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def digest_of(parts: Iterable[bytes]) -> str:
    """Return a digest of what all modules are made with."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d " % len(part) + part)
    return digest.hexdigest()
