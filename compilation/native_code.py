"""The C source of the compiled form, which mypyc writes from the source of a tree.

`python -m compilation.native_code TREE JOBS` writes a C file for each module and one for the
library to `TREE/build`. It is a process of its own because mypy holds some 700 MB, which are slow
to free one object at a time and would be in the way of the C compilers.
"""

import gc
import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from mypy.fscache import FileSystemCache
from mypy.modulefinder import BuildSource
from mypyc.build import get_mypy_config, include_dir
from mypyc.common import RUNTIME_C_FILES
from mypyc.namegen import NameGenerator, exported_name
from mypyc.options import CompilerOptions

from compilation import c_imports, interfaces
from compilation.c_declarations import Declarations
from compilation.module_code import (
    HEAD,
    Generating,
    Kept,
    ModuleCode,
    code_of,
    merged_libraries,
)
from compilation.rechecking import named_modules, together_with
from compilation.selection import compiled_modules
from compilation.translation import Sources, Translated, translated

# The library of all modules, as Python imports it. mypyc adds the second part.
LIBRARY = "coterie__mypyc"
_GROUP = "coterie"

# The source is the same for all systems: what only some have is looked up when it runs.
_CONFIG = """\
[mypy]
python_version = 3.11
platform = linux
ignore_missing_imports = True
follow_imports = silent
cache_dir = build/mypy_cache
"""

# What is kept of each module from one build to the next.
_NOTES = Path("build/modules")

# A process for fewer modules takes longer to start than it saves.
_WORTH_PROCESSES = 20
# What writes the C source of a module by its name: forked processes find it here.
_codes: list[Callable[[str], ModuleCode]] = []

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


def write_native_code(tree: Path, jobs: int = 1) -> NativeCode:
    """Write the C source of the modules in `tree/coterie` to `tree/build`, with several processes.

    A file is only written if it is new or changed, and files of removed modules are removed.
    """
    (tree / "mypy.ini").write_text(_CONFIG)
    (tree / _NOTES).mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    os.chdir(tree)
    try:
        return _generated(jobs)
    finally:
        os.chdir(before)


def _generated(jobs: int) -> NativeCode:
    """Write the C files, except those that would stay as they are; return all."""
    options = CompilerOptions(multi_file=True, target_dir="build", group_name=_GROUP)
    sources = [f"coterie/{module.as_posix()}" for module in compiled_modules(Path("coterie"))]
    cache = FileSystemCache()
    chosen, everything, settings = get_mypy_config(
        ["--config-file", "mypy.ini", *sources], None, options, cache
    )
    # What need not be checked, above all the standard library, comes from mypy's cache.
    settings.incremental = True
    build = _digest_of_build()
    texts = {each.module: _digest_of_source(each, build) for each in chosen}
    names = sorted(texts)
    kept = {name: each for name in names if (each := _kept(name, texts[name])) is not None}
    found = translated(Sources(texts, everything, settings, options, _GROUP), kept, cache)
    whole = Generating(
        _GROUP,
        {name: found.result.graph[name].xpath for name in names},
        found.mapper.group_map,
        NameGenerator([names]),
        options,
    )
    current = {name for name in kept if kept[name].digest == found.digests[name]}
    made = _made(
        [name for name in names if name not in current],
        lambda name: code_of(found.modules[name], found.generators[name], whole),
        jobs,
    )
    for name in made:
        kept[name] = _kept_of(name, found, texts[name], made[name])
    return _completed(names, kept, made)


def _made(names: list[str], code: Callable[[str], ModuleCode], jobs: int) -> dict[str, ModuleCode]:
    """Return the C source of modules, which several processes write.

    They are forks of this one, so they have all modules in memory. Windows has none.
    """
    if jobs == 1 or len(names) < _WORTH_PROCESSES or not hasattr(os, "fork"):
        return {name: code(name) for name in names}
    _codes.append(code)
    with multiprocessing.get_context("fork").Pool(jobs) as processes:
        return dict(zip(names, processes.imap(_code_by_name, names, chunksize=4), strict=True))


def _code_by_name(name: str) -> ModuleCode:
    return _codes[-1](name)


def _digest_of_build() -> str:
    """Return a digest of what writes the C source: mypy's version, and our own code."""
    ours = sorted(Path(__file__).parent.rglob("*.py"))
    versions = f"{sys.version} {version('mypy')} {version('librt')}"
    return interfaces.digest_of([versions.encode(), *(path.read_bytes() for path in ours)])


def _digest_of_source(source: BuildSource, build: str) -> str:
    assert source.path is not None, source.module
    return interfaces.digest_of([build.encode(), Path(source.path).read_bytes()])


def _kept_of(name: str, found: Translated, source: str, code: ModuleCode) -> Kept:
    """Return what is kept of a module with new C source, before it is complete."""
    form = found.forms[name]
    return Kept(
        source,
        found.digests[name],
        code.headers,
        code.library,
        code.needs,
        includes="",
        made="",
        form=form,
        interface=found.interfaces[name],
        named=named_modules(form, name, found.modules),
        together=together_with(name, found.modules, found.result),
    )


def _completed(
    names: list[str], kept: Mapping[str, Kept], made: Mapping[str, ModuleCode]
) -> NativeCode:
    """Write the files of new modules, with what they need of the headers, and of the library."""
    parts = [kept[name] for name in names]
    declarations = Declarations(
        *(part.headers[0] for part in parts), *(part.headers[1] for part in parts)
    )
    includes = declarations.includes
    for name, code in made.items():
        text = HEAD + declarations.completed(code.file)
        _write_if_changed(_c_file(name), text)
        kept[name]._replace(includes=includes, made=_digest(text)).write(_note(name))
    for name, old in kept.items():
        if name not in made and old.includes != includes:
            _include(name, old, includes)
    library = Path(f"build/__native_{_GROUP}.c")
    _write_if_changed(
        library, _library(merged_libraries([part.library for part in parts]), declarations, names)
    )
    runtime, directories = _runtime(parts)
    for path in runtime:
        _write_if_changed(Path("build") / path.name, path.read_text(encoding="utf-8"))
    files = {library, *map(_c_file, names), *(Path("build") / path.name for path in runtime)}
    notes = {_note(name) for name in names}
    for path in (*Path("build").glob("*.c"), *_NOTES.glob("*.json")):
        if path not in files and path not in notes:
            path.unlink()
    return NativeCode(sorted(path.as_posix() for path in files), directories, includes)


def _include(name: str, old: Kept, includes: str) -> None:
    """Let the file of a module include other headers than before."""
    before, after = HEAD + old.includes, HEAD + includes
    text = after + _c_file(name).read_text(encoding="utf-8").removeprefix(before)
    _write_if_changed(_c_file(name), text)
    old._replace(includes=includes, made=_digest(text)).write(_note(name))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _c_file(name: str) -> Path:
    return Path(f"build/__native_{exported_name(name)}.c")


def _note(name: str) -> Path:
    return _NOTES / f"{name}.json"


def _kept(name: str, source: str) -> Kept | None:
    """Return what an earlier build made of a module, if its source is as it was."""
    kept = Kept.read(_note(name))
    if kept is None or kept.source != source or not _c_file(name).is_file():
        return None
    made = hashlib.sha256(_c_file(name).read_bytes()).hexdigest()
    return kept if made == kept.made else None


def _library(source: str, declarations: Declarations, names: list[str]) -> str:
    """Return the C file of the library: the variables of all modules, and their import."""
    head, definition, rest = source.partition(_LIBRARY_DEFINITION)
    assert definition, "the definition of the library was not found"
    assert _NO_METHODS in rest, "the library has methods of its own"
    rest = rest.replace(_NO_METHODS, ".m_methods = library_methods", 1)
    imports = c_imports.defined(LIBRARY, _GROUP, map(exported_name, names))
    text = head + imports + _LOADING + definition + rest
    return HEAD + declarations.completed(text)


def _runtime(parts: Iterable[Kept]) -> tuple[list[Path], list[str]]:
    """Return the C files of mypyc's own library, and the directories of its headers."""
    root = Path(include_dir())
    needs = {path: directories for part in parts for path, directories in part.needs}
    files = [root / name for name in (*RUNTIME_C_FILES, *sorted(needs))]
    directories = {str(root / name) for each in needs.values() for name in each}
    return files, [str(root), *sorted(directories)]


def _write_if_changed(path: Path, text: str) -> None:
    data = text.encode()
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def main() -> None:
    """Write the C source of a tree, and list it in a file: `TREE JOBS`."""
    # Everything is held until the end of the process, so a search for cycles finds nothing.
    gc.disable()
    tree = Path(sys.argv[1])
    code = write_native_code(tree, int(sys.argv[2]))
    (tree / "build" / "files.json").write_text(json.dumps(code._asdict()))
    sys.stdout.flush()
    # Without freeing each object, which takes as long as checking the types.
    os._exit(0)


if __name__ == "__main__":
    main()
