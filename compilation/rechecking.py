"""Which modules mypy checks again, and what mypyc gets of the others.

mypyc translates a module from the types of its expressions, which mypy does not keep. Of a module
that need not be translated again it needs what other modules see: its *native form*, the classes
and signatures without bodies, which is kept from one build to the next.

Invariants: native forms that are loaded name only classes that are loaded, too, so no class is
there twice. A class is translated together with those that it is derived from: of these, mypyc
needs the bodies.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from mypy.build import BuildResult
from mypy.nodes import MypyFile, TypeInfo
from mypy.options import Options
from mypy.plugin import Plugin, ReportConfigContext
from mypyc.analysis.attrdefined import detect_undefined_bitmap
from mypyc.ir.class_ir import ClassIR
from mypyc.ir.module_ir import ModuleIR, deserialize_modules
from mypyc.ir.ops import DeserMaps
from mypyc.irbuild.mapper import Mapper
from mypyc.irbuild.prepare import load_type_map

from compilation.module_code import Kept, NativeForm

# A class, a method or a function in the JSON of a native form.
_NAMED = re.compile(r'"(coterie\.[\w.]+)"')


class Rechecking(Plugin):
    """Lets mypy check modules again that it would take from its cache."""

    def __init__(self, options: Options, names: Iterable[str]) -> None:
        super().__init__(options)
        self._names = set(names)

    def report_config_data(self, ctx: ReportConfigContext) -> bool:
        """Return what mypy compares with what it wrote into its cache, which is always `False`."""
        return ctx.is_check and ctx.id in self._names


def with_users(names: Iterable[str], kept: Mapping[str, Kept]) -> set[str]:
    """Return modules, those whose native forms name their classes, and those to check with them."""
    others = {name: set(each.together) for name, each in kept.items()}
    for name, each in kept.items():
        for used in each.named:
            others.setdefault(used, set()).add(name)
    found = set(names)
    rest = list(found)
    while rest:
        new = others.get(rest.pop(), set()) - found
        found |= new
        rest += new
    return found


def loaded(kept: Mapping[str, Kept], result: BuildResult, mapper: Mapper) -> dict[str, ModuleIR]:
    """Return the modules that mypy has not checked again, without bodies of functions.

    Args:
        kept: what is kept of them.
        result: what mypy made of the sources.
        mapper: receives their classes and functions.
    """
    context = DeserMaps({}, {})
    modules = deserialize_modules({name: each.form for name, each in kept.items()}, context)
    children = defaultdict(list)
    for each in kept.values():
        for form in each.form["classes"]:
            for parent in form["parents"]:
                children[parent].append(context.classes[_fullname(form)])
    seen: set[ClassIR] = set()
    for fullname, cls in context.classes.items():
        cls.children = children[fullname]
        detect_undefined_bitmap(cls, seen)
    # mypy loads only what the modules import that it checks again, also by way of others.
    trees = [tree for name in kept if (tree := result.graph[name].tree) is not None]
    load_type_map(mapper, trees, context)
    _complete(kept, trees, context, mapper)
    return modules


def _complete(
    kept: Mapping[str, Kept], trees: list[MypyFile], context: DeserMaps, mapper: Mapper
) -> None:
    """Add to the mapper what mypyc has of classes that it translates, but not of loaded ones."""
    # Named tuples, which it does not load.
    for info in [info for tree in trees for info in _classes(tree)]:
        if (cls := context.classes.get(info.fullname)) is not None:
            mapper.type_to_ir[info] = cls
            mapper.symbol_fullnames.add(info.fullname)
    # It loads all others as if they had a constructor in C.
    forms = {_fullname(each): each for one in kept.values() for each in one.form["classes"]}
    for info in [each for each in mapper.func_to_decl if isinstance(each, TypeInfo)]:
        if not forms[info.fullname]["is_constructed"]:
            del mapper.func_to_decl[info]


def bases_to_check(names: Iterable[str], result: BuildResult, mapper: Mapper) -> set[str]:
    """Return modules that are loaded but have base classes of those that mypy has checked again.

    Args:
        names: the modules that mypy has checked again.
        result: what mypy made of the sources.
        mapper: has the classes that are loaded.
    """
    trees = [tree for name in names if (tree := result.graph[name].tree) is not None]
    bases = (base for tree in trees for info in _classes(tree) for base in info.mro[1:])
    return {base.module_name for base in bases if base in mapper.type_to_ir}


def _classes(tree: MypyFile) -> Iterator[TypeInfo]:
    """Yield the classes of a module."""
    for symbol in tree.names.values():
        if isinstance(symbol.node, TypeInfo) and symbol.node.module_name == tree.fullname:
            yield symbol.node


def native_forms(
    modules: Mapping[str, ModuleIR], names: Iterable[str], mapper: Mapper
) -> dict[str, NativeForm]:
    """Return the native forms of some of all modules."""
    constructed = {each.fullname for each in mapper.func_to_decl if isinstance(each, TypeInfo)}
    parents = defaultdict(list)
    for module in modules.values():
        for cls in module.classes:
            for child in cls.children or ():
                parents[child.fullname].append(cls.fullname)
    forms = {}
    for name in names:
        form = modules[name].serialize()
        for data in form["classes"]:
            # Classes of any module may be derived from it; each module says so of its own.
            data["children"] = []
            data["parents"] = sorted(parents[_fullname(data)])
            data["is_constructed"] = _fullname(data) in constructed
        forms[name] = form
    return forms


def named_modules(form: NativeForm, name: str, modules: Iterable[str]) -> list[str]:
    """Return the other modules whose classes or functions the native form of a module names.

    Args:
        form: the native form.
        name: the module.
        modules: all that are compiled.
    """
    text = json.dumps(form)
    every = set(modules) - {name}
    return sorted({each for found in set(_NAMED.findall(text)) for each in _begins(found)} & every)


def together_with(name: str, modules: Mapping[str, ModuleIR], result: BuildResult) -> list[str]:
    """Return the other modules that have to be checked with a module.

    They have base classes of the module, or mypy checks them at once.
    """
    others = {base.module_name for cls in modules[name].classes for base in cls.mro[1:]}
    others |= modules.keys() & result.manager.scc_by_mod_id[name].mod_ids
    return sorted(others - {name})


def _fullname(form: NativeForm) -> str:
    """Return the name of a class."""
    return f"{form['module_name']}.{form['name']}"


def _begins(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]
