"""The C source of the compiled form, which mypyc writes from the source of a tree.

`python -m compilation.native_code TREE` writes a C file for each module and one for the library to
`TREE/build`. It is a process of its own because mypy holds some 700 MB, which are slow to free one
object at a time and would be in the way of the C compilers.
"""

import gc
import json
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from mypy.fscache import FileSystemCache
from mypyc.build import construct_groups, get_mypy_config, include_dir
from mypyc.codegen.emitmodule import (
    collect_source_dependencies,
    compile_modules_to_c,
    parse_and_typecheck,
)
from mypyc.codegen.literals import LiteralValue
from mypyc.common import RUNTIME_C_FILES
from mypyc.errors import Errors
from mypyc.ir.module_ir import ModuleIR
from mypyc.options import CompilerOptions

from compilation.c_declarations import Declarations
from compilation.c_literals import literals_of, with_own_literals, without_shared_literals
from compilation.c_tracebacks import with_own_tracebacks
from compilation.selection import compiled_modules

# The library of all modules, as Python imports it. mypyc adds the second part.
LIBRARY = "coterie__mypyc"
_GROUP = "coterie"

_CONFIG = """\
[mypy]
python_version = 3.11
ignore_missing_imports = True
follow_imports = silent
cache_dir = build/mypy_cache
"""

# What runs once, when a module is imported, is a fifth of the code. It is kept together, so that
# the pages of all other code are read from the disk when they are needed and not at the start.
# Only gcc and clang for ELF know this name of a section.
_RUNS_ONCE_MACRO = """\
#ifdef __ELF__
#define RUNS_ONCE __attribute__((cold, section(".text.startup")))
#else
#define RUNS_ONCE
#endif
"""
_RUNS_ONCE = re.compile(
    r"^(?=extern (?:char \w+_____top_level__\(|int CPyExec_|PyObject \*CPyInit)"
    r"|static int CPyExec_|static bool\nCPyDef_\w+_trait_vtable_setup\()",
    re.MULTILINE,
)

# The library has a function that imports a module: Python finds no file of the module's name.
_LOADING = """\
static PyObject *load_module(PyObject *library, PyObject *capsule)
{
    PyObject *(*load)(void) =
        (PyObject *(*)(void))PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    return load == NULL ? NULL : load();
}
static PyMethodDef library_methods[] = {
    {"load_module", load_module, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
"""
_LIBRARY_DEFINITION = f"static PyModuleDef module_def_{LIBRARY} = {{\n"
_NO_METHODS = ".m_methods = NULL"
# The library's file repeats the headers' declarations of functions.
_PROTOTYPE = re.compile(r"^\w[\w *]*\b\w+\([^(){}]*\);\n", re.MULTILINE)


class NativeCode(NamedTuple):
    """What the C compiler works on, as paths relative to the tree.

    Attributes:
        files: the C files.
        include_directories: where their headers are.
        includes: the lines that include the headers in each C file of a module.
    """

    files: list[str]
    include_directories: list[str]
    includes: str


def write_native_code(tree: Path) -> NativeCode:
    """Write the C source of the modules in `tree/coterie` to `tree/build`.

    A file is only written if it is new or changed, and files of removed modules are removed.
    """
    (tree / "mypy.ini").write_text(_CONFIG)
    (tree / "build").mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(tree)
    try:
        texts, code = _generated()
        for path in Path("build").glob("*.c"):
            if path.name not in texts:
                path.unlink()
        for name, text in texts.items():
            _write_if_changed(Path("build") / name, text)
    finally:
        os.chdir(before)
    return code


def _generated() -> tuple[dict[str, str], NativeCode]:
    """Return the text of each C file, and what else the C compiler needs."""
    options = CompilerOptions(multi_file=True, target_dir="build", group_name=_GROUP)
    sources = [f"coterie/{module.as_posix()}" for module in compiled_modules(Path("coterie"))]
    cache = FileSystemCache()
    chosen, everything, settings = get_mypy_config(
        ["--config-file", "mypy.ini", *sources], None, options, cache
    )
    # What is not compiled, above all the standard library, comes from mypy's cache.
    settings.incremental = True
    groups = construct_groups(
        chosen, separate=False, use_shared_lib=True, group_name_override=_GROUP
    )
    result = parse_and_typecheck(everything, settings, options, groups, cache)
    errors = Errors(settings)
    modules, (files,), _ = compile_modules_to_c(result, options, errors, groups)
    if errors.num_errors:
        raise SystemExit("\n".join(errors.new_messages()))
    result.manager.metastore.close()
    order = [modules[source.module] for source in groups[0][0]]
    runtime, directories = _runtime(order)
    texts = {name: _RUNS_ONCE.sub("RUNS_ONCE ", text) for name, text in files}
    headers = [texts.pop(name) for name in sorted(texts) if name.endswith(".h")]
    # The types of classes come first; the header that uses them has a longer name.
    assert len(headers) == 2, "mypyc wrote other headers than before"
    declarations = Declarations(*headers)
    completed = _completed(texts, declarations, literals_of(order))
    for path in runtime:
        completed[path.name] = path.read_text(encoding="utf-8")
    sources = [f"build/{name}" for name in sorted(completed)]
    return completed, NativeCode(sources, directories, declarations.includes)


def _completed(
    texts: dict[str, str], declarations: Declarations, literals: dict[int, LiteralValue]
) -> dict[str, str]:
    """Return the C files with what they need of the headers, which are left out."""
    library = f"__native_{_GROUP}.c"
    completed = {library: _library(texts.pop(library), declarations)}
    for name, text in texts.items():
        own = with_own_literals(with_own_tracebacks(text), literals)
        whole = declarations.completed(own)
        completed[name] = _RUNS_ONCE_MACRO + whole
    return completed


def _library(source: str, declarations: Declarations) -> str:
    """Return the C file of the library: the variables of all modules, and their import."""
    source = without_shared_literals(_PROTOTYPE.sub("", source))
    head, definition, rest = source.partition(_LIBRARY_DEFINITION)
    assert definition, "the definition of the library was not found"
    assert _NO_METHODS in rest, "the library has methods of its own"
    rest = rest.replace(_NO_METHODS, ".m_methods = library_methods", 1)
    return _RUNS_ONCE_MACRO + declarations.completed(head + _LOADING + definition + rest)


def _runtime(modules: list[ModuleIR]) -> tuple[list[Path], list[str]]:
    """Return the C files of mypyc's own library, and the directories of its headers."""
    root = Path(include_dir())
    needed = collect_source_dependencies({module.fullname: module for module in modules})
    files = [root / name for name in RUNTIME_C_FILES]
    files += sorted(root / each.path for each in needed)
    directories = {str(root / name) for each in needed for name in each.include_dirs}
    return files, [str(root), *sorted(directories)]


def _write_if_changed(path: Path, text: str) -> None:
    data = text.encode()
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def main() -> None:
    """Write the C source of the tree that the command line names, and list it in a file."""
    # Everything is held until the end of the process, so a search for cycles finds nothing.
    gc.disable()
    tree = Path(sys.argv[1])
    code = write_native_code(tree)
    (tree / "build" / "files.json").write_text(json.dumps(code._asdict()))
    sys.stdout.flush()
    # Without freeing each object, which takes as long as checking the types.
    os._exit(0)


if __name__ == "__main__":
    main()
