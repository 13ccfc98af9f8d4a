"""The C source of one module, from the form in which mypyc has its functions.

mypyc takes a module's functions through its passes and writes C source for all modules at once.
Here each module goes alone, so that its C source stays as it is while another module changes, and
can be kept from one build to the next.
"""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mypyc.analysis.capsule_deps import find_class_dependencies, find_implicit_op_dependencies
from mypyc.codegen.emitmodule import GroupGenerator, collect_source_dependencies
from mypyc.ir.class_ir import ClassIR
from mypyc.ir.func_ir import FuncIR
from mypyc.ir.module_ir import ModuleIR
from mypyc.namegen import NameGenerator, exported_name
from mypyc.options import CompilerOptions
from mypyc.transform.borrow_generator_attrs import borrow_generator_attrs
from mypyc.transform.copy_propagation import do_copy_propagation
from mypyc.transform.exceptions import insert_exception_handling
from mypyc.transform.flag_elimination import do_flag_elimination
from mypyc.transform.lower import lower_ir
from mypyc.transform.refcount import insert_ref_count_opcodes
from mypyc.transform.spill import insert_spills
from mypyc.transform.uninit import insert_uninit_checks

from compilation.c_imports import TYPE, declared, with_short_imports
from compilation.c_literals import literals_of, with_own_literals, without_shared_literals
from compilation.c_tracebacks import with_own_tracebacks
from compilation.c_wrappers import without_unused_wrappers

# What runs once, when a module is imported, is a fifth of the code. It is kept together, so that
# the pages of all other code are read from the disk when they are needed and not at the start.
# Only gcc and clang for ELF know this name of a section.
HEAD = f"""\
#ifdef __ELF__
#define RUNS_ONCE __attribute__((cold, section(".text.startup")))
#else
#define RUNS_ONCE
#endif
{TYPE}"""
# What follows the end of a line is found six times as fast as what begins one.
_RUNS_ONCE = re.compile(
    r"\n(?=extern (?:char \w+_____top_level__\(|int CPyExec_|PyObject \*CPyInit)"
    r"|static int CPyExec_|static bool\nCPyDef_\w+_trait_vtable_setup\()"
)
# How mypyc reads a constant that is a tuple of known length and begins with a number: it takes it
# as never set. A tuple of any length, as `tuple()` makes it, is read well.
_NEVER_SET = re.compile(r"\(likely\((\w+\.[\w.]+) != -113\b[.0]* && PyErr_Occurred\(\)\)\)")
# The library's file repeats the headers' declarations of functions.
_PROTOTYPE = re.compile(r"^\w[\w *]*\b\w+\([^(){}]*\);\n", re.MULTILINE)
# Values of variables, their definitions, and imports are of each module; the rest is the same.
_LIBRARY = re.compile(
    r"(?P<head>.*? {4}CPy_Init\(\);\n)(?P<values>.*?)"
    r"(?P<ready> {4}is_initialized = 1;\n {4}return 0;\n\}\n)(?P<variables>.*?)"
    r"(?P<start>static int exec_\w+\(.*? {4}if \(CPyGlobalsInit\(\) < 0\) goto fail;\n)"
    r"(?P<imports>.*?)(?P<rest> {4}return 0;\n *fail:.*)",
    re.DOTALL,
)


class ModuleCode(NamedTuple):
    """The C source of a module, before it has declarations of other modules.

    Attributes:
        file: its file, which includes the headers.
        headers: what it declares: types, then functions and variables.
        library: its part of the file of the library, as if it were the only module.
        needs: the files of mypyc's own library that it needs, with directories of their headers.
    """

    file: str
    headers: tuple[str, str]
    library: str
    needs: list[tuple[str, list[str]]]


class Generating(NamedTuple):
    """What mypyc needs to write C source of any module."""

    group: str
    paths: Mapping[str, str]
    groups: dict[str, str | None]
    names: NameGenerator
    options: CompilerOptions


def finish_generators(module: ModuleIR, options: CompilerOptions) -> set[FuncIR]:
    """Take the functions of generators through mypyc's passes; return them.

    It gives their classes attributes, which the classes derived from them have, too.
    """
    owners = {cls.env_user_function: cls for cls in module.classes if cls.env_user_function}
    generators = {each for each in module.functions if each in owners}
    for function in module.functions:
        if function in owners:
            _finish(function, module, options, owners[function])
    return generators


def code_of(module: ModuleIR, generators: Collection[FuncIR], whole: Generating) -> ModuleCode:
    """Return the C source of a module.

    Args:
        module: as mypyc makes it first.
        generators: the functions that have been through the passes.
        whole: what all modules have in common.
    """
    for function in module.functions:
        if function not in generators:
            _finish(function, module, whole.options)
    for cls in module.classes:
        module.dependencies.update(find_class_dependencies(cls) or ())
    generator = GroupGenerator(
        {module.fullname: module}, dict(whole.paths), whole.group, whole.groups, whole.names,
        whole.options,
    )  # fmt: skip
    (_, file), (_, library), (_, functions), (_, types) = generator.generate_c_for_modules()
    assert not (wrong := never_set(file)), f"{module.fullname} has constants never set: {wrong}"
    file = with_short_imports(with_own_tracebacks(_marked(file)))
    literals = literals_of([module])
    file = without_unused_wrappers(file, literals.values())
    file = with_own_literals(file, literals)
    needs = collect_source_dependencies({module.fullname: module})
    return ModuleCode(
        file,
        (_marked(types), _marked(functions) + declared(exported_name(module.fullname))),
        without_shared_literals(_PROTOTYPE.sub("", _marked(library))),
        sorted((each.path, list(each.include_dirs)) for each in needs),
    )


def _finish(
    function: FuncIR, module: ModuleIR, options: CompilerOptions, owner: ClassIR | None = None
) -> None:
    """Take a function through mypyc's passes, as `emitmodule.compile_scc_to_ir` does."""
    insert_uninit_checks(function, options.strict_traceback_checks)
    insert_exception_handling(function, options.strict_traceback_checks)
    if owner is not None:
        borrow_generator_attrs(function, owner)
    insert_ref_count_opcodes(function)
    if owner is not None:
        insert_spills(function, owner)
    lower_ir(function, options)
    module.dependencies.update(find_implicit_op_dependencies(function) or ())
    do_copy_propagation(function, options)
    do_flag_elimination(function, options)


def never_set(text: str) -> list[str]:
    """Return the registers of a C file with constants that are taken as never set."""
    return _NEVER_SET.findall(text)


def _marked(text: str) -> str:
    return _RUNS_ONCE.sub("\nRUNS_ONCE ", text)


def merged_libraries(parts: list[str]) -> str:
    """Return the C file of the library, whose parts are each as if its module were the only one."""
    split = [found for part in parts if (found := _LIBRARY.fullmatch(part))]
    assert len(split) == len(parts), "mypyc writes the library in another way than before"
    values, variables = (
        # Modules that import another one have its variables, too.
        dict.fromkeys(line for found in split for line in found[name].splitlines(keepends=True))
        for name in ("values", "variables")
    )
    first = split[0]
    imports = [found["imports"] for found in split]
    pieces = (first["head"], *values, first["ready"], *variables, first["start"], *imports)
    return "".join((*pieces, first["rest"]))


# What others see of a module, as JSON has it (`rechecking`).
NativeForm = dict[str, Any]


class Kept(NamedTuple):
    """What is kept of a module from one build to the next, beside its C file.

    Attributes:
        source: a digest of its source and of what all modules are made with.
        digest: of all that the C source was made of.
        includes: the lines that include headers in the C file; they are those of all modules.
        made: a digest of the C file, with declarations.
        form: its native form.
        interface: a digest of that.
        named: the other modules whose classes its native form names.
        together: those that have to be checked with it.
    """

    source: str
    digest: str
    headers: tuple[str, str]
    library: str
    needs: list[tuple[str, list[str]]]
    includes: str
    made: str
    form: NativeForm
    interface: str
    named: list[str]
    together: list[str]

    @classmethod
    def read(cls, path: Path) -> "Kept | None":
        """Return what was kept in a file, or `None` if there is nothing."""
        try:
            return cls(*json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Keep it in a file."""
        path.write_text(json.dumps(self), encoding="utf-8")
