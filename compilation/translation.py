"""The modules as mypyc has them first, before its passes.

mypy checks what has changed and what mypyc has to translate together with it; of all other modules
their native forms are loaded (`rechecking`). What turns out to be out of date after all is checked
in another round: a class that was changed may be seen by modules whose source is as it was.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mypy.build import BuildResult, BuildSource, build
from mypy.errors import CompileError
from mypy.fscache import FileSystemCache
from mypy.options import Options
from mypyc.errors import Errors
from mypyc.ir.func_ir import FuncIR
from mypyc.ir.module_ir import ModuleIR
from mypyc.irbuild.main import build_ir
from mypyc.irbuild.mapper import Mapper
from mypyc.options import CompilerOptions

from compilation.interfaces import digest_of_form, digests
from compilation.module_code import Kept, NativeForm, finish_generators
from compilation.rechecking import (
    Rechecking,
    bases_to_check,
    loaded,
    native_forms,
    with_users,
)


class Sources(NamedTuple):
    """What is translated, and how.

    Attributes:
        modules: digests of the source of each module that is compiled, and of what all modules
            are made with.
        everything: what mypy reads.
        settings: of mypy.
        options: of mypyc.
        group: the name of mypyc for all modules together.
    """

    modules: dict[str, str]
    everything: list[BuildSource]
    settings: Options
    options: CompilerOptions
    group: str


class Translated(NamedTuple):
    """What mypyc has made of the sources.

    Attributes:
        mapper: has the classes of all modules.
        modules: all modules that are compiled; some have no bodies of functions.
        digests: of everything that the C source of each module is made of.
        generators: of modules with bodies: functions that have been through mypyc's passes.
        forms: the native forms of modules with bodies.
        interfaces: digests of the native forms of all modules.
    """

    result: BuildResult
    mapper: Mapper
    modules: dict[str, ModuleIR]
    digests: dict[str, str]
    generators: dict[str, set[FuncIR]]
    forms: dict[str, NativeForm]
    interfaces: dict[str, str]


def translated(sources: Sources, kept: Mapping[str, Kept], cache: FileSystemCache) -> Translated:
    """Return all modules, with bodies of functions those whose C source is out of date.

    Args:
        sources: what is translated.
        kept: what an earlier build made of modules whose source is as it was.
        cache: the files that mypy has read.
    """
    needed = sources.modules.keys() - kept.keys()
    while True:
        needed = with_users(needed, kept)
        found = _round(sources, needed, kept, cache)
        if isinstance(found, Translated):
            return found
        needed |= found


def _round(
    sources: Sources, checked: set[str], kept: Mapping[str, Kept], cache: FileSystemCache
) -> Translated | set[str]:
    """Return all modules, or those that have to be checked, too.

    Args:
        checked: the modules that mypy checks and mypyc translates.
    """
    result = _checked(sources, checked, cache)
    if more := result.manager.rechecked_modules & sources.modules.keys() - checked:
        return more
    mapper = Mapper(dict.fromkeys(sources.modules, sources.group))
    fresh = {name: kept[name] for name in sources.modules if name not in checked}
    modules = loaded(fresh, result, mapper)
    if more := bases_to_check(checked, result, mapper):
        return more
    modules |= _with_bodies(sources, checked, result, mapper)
    generators = {name: finish_generators(modules[name], sources.options) for name in checked}
    forms = native_forms(modules, checked, mapper)
    interfaces = {name: each.interface for name, each in fresh.items()}
    interfaces |= {name: digest_of_form(form) for name, form in forms.items()}
    current = digests(result, modules, sources.modules, interfaces)
    if more := {name for name, each in fresh.items() if current[name] != each.digest}:
        return more
    return Translated(result, mapper, modules, current, generators, forms, interfaces)


def _checked(sources: Sources, names: Iterable[str], cache: FileSystemCache) -> BuildResult:
    """Let mypy check some modules, and what else has changed."""
    plugin = Rechecking(sources.settings, names)
    result = build(sources.everything, sources.settings, fscache=cache, extra_plugins=[plugin])
    result.manager.metastore.close()
    if result.errors:
        raise CompileError(result.errors)
    return result


def _with_bodies(
    sources: Sources, names: set[str], result: BuildResult, mapper: Mapper
) -> dict[str, ModuleIR]:
    """Return the modules that mypy has checked, in the form that mypyc makes first."""
    # mypyc asks mypy for types, which may find errors.
    result.manager.errors.set_file("<mypyc>", module=None, scope=None, options=sources.settings)
    errors = Errors(sources.settings)
    trees = [tree for name in sorted(names) if (tree := result.graph[name].tree) is not None]
    modules = build_ir(trees, result.graph, result.types, mapper, sources.options, errors)
    if errors.num_errors:
        raise SystemExit("\n".join(errors.new_messages()))
    return modules
