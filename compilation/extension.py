"""The library of all compiled modules, made from their C source by the C compiler.

One library holds all modules. An extension module of its own for each, which mypyc writes too,
would make a build longer, and add five pages of memory for each that is imported;
`runtime/native_modules.py` lets Python find the modules in the library instead.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mypyc.build import get_cflags
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

from compilation.freshness import is_made, note_of
from compilation.precompiled import is_gcc, precompiled
from compilation.selection import is_hot, is_of_a_module
from compilation.tree import ROOT, find_native_modules

LIBRARY = "coterie__mypyc"

# Nothing but its own modules uses the library's functions, and no exception of C++ passes through
# them.
# Warnings about what mypyc writes help nobody, and a tenth of gcc's time finds them.
_UNIX_FLAGS = ["-fvisibility=hidden", "-fno-asynchronous-unwind-tables", "-Wno-all"]
# Names of functions that nobody else calls are left out.
_LINUX_LINKER_FLAGS = ["-Wl,--strip-all"]
# Addresses within the library are stored as short relocations, which take a tenth of the usual
# ones. An older glibc refuses such a library, so wheels for many systems, which are built with an
# old one, go without.
_SHORT_RELOCATIONS = "-Wl,-z,pack-relative-relocs"
_SHORT_RELOCATIONS_SINCE = (2, 36)
# What most requests pass through is optimised for speed. The rest is at gcc's level for debugging,
# which takes a third of the second level's time and leaves small functions of the headers as calls;
# the first level takes half.
_HOT, _COLD = "-O2", "-Og"
_COLD_FLAGS = ["-Og"]
# Without optimisation a file takes half the time of the first level.
_UNOPTIMISED_FLAGS = {"unix": ["-O0"], "msvc": ["/Od"]}


def compile_tree(package: Path, *, jobs: int, is_unoptimised: bool = False) -> Path:
    """Compile the modules of a tree into a library beside the package; return the library.

    Args:
        package: the directory `coterie` that `write_tree` made.
        jobs: how many C compilers run at once.
        is_unoptimised: leave out what the C compiler does for speed; for a form to be tested.
    """
    tree = package.parent.resolve()
    write = [sys.executable, "-m", "compilation.native_code", str(tree), str(jobs)]
    subprocess.run(write, cwd=ROOT, check=True)
    code = json.loads((tree / "build" / "files.json").read_text())
    before = Path.cwd()
    os.chdir(tree)
    try:
        extension = Extension(
            LIBRARY, sources=code["files"], include_dirs=code["include_directories"]
        )
        extension.extra_link_args += linker_flags(sys.platform, *platform.libc_ver())
        command = ParallelBuild(Distribution({"name": "coterie", "ext_modules": [extension]}))
        command.jobs = jobs
        command.is_unoptimised = is_unoptimised
        command.includes = code["includes"]
        command.inplace = True
        # Otherwise files are not compiled again for other options; `_compiled` says which are.
        command.force = True
        command.build_temp = "build/objects"
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    find_native_modules(package)
    return tree / f"{LIBRARY}{EXTENSION_SUFFIXES[0]}"


def linker_flags(system: str, libc: str, version: str) -> list[str]:
    """Return the options of the linker, by `sys.platform` and `platform.libc_ver()`."""
    if system != "linux":
        return []
    is_new = libc == "glibc" and tuple(map(int, version.split("."))) >= _SHORT_RELOCATIONS_SINCE
    return [*_LINUX_LINKER_FLAGS, *([_SHORT_RELOCATIONS] if is_new else [])]


class ParallelBuild(build_ext):  # type: ignore[misc] # setuptools has no types
    """Compiles the files of one extension at once; setuptools can only do so with extensions.

    A file is compiled again only if its text, an option or a version has changed: the text has all
    declarations of other modules that it needs.
    """

    jobs = 1
    is_unoptimised = False
    includes = ""

    def build_extensions(self) -> None:
        """Compile the files and link the library."""
        # Microsoft's compiler is looked for with its first file; threads would do so at once.
        if not getattr(self.compiler, "initialized", True):
            self.compiler.initialize()
        self._compile = self.compiler.compile
        kind = self.compiler.compiler_type
        self._flags = {
            level: get_cflags(compiler_type=kind, opt_level=base, debug_level="0", multi_file=True)
            for level, base in ((_HOT, "2"), (_COLD, "1"))
        }
        if kind == "unix":
            self._flags[_COLD] += _COLD_FLAGS
        for flags in self._flags.values():
            flags += _UNIX_FLAGS if kind == "unix" else []
            flags += _UNOPTIMISED_FLAGS.get(kind, []) if self.is_unoptimised else []
        # Microsoft's compiler has no such attribute, and no use of it.
        self._command = list(getattr(self.compiler, "compiler_so", []))
        self._versions = f"{sys.version} {version('mypy')} {' '.join(self._command)}"
        self.compiler.compile = self._compile_at_once
        super().build_extensions()

    def _compile_at_once(self, sources: list[str], **options: Any) -> list[str]:
        headers = self._precompiled([*options["include_dirs"], *self.compiler.include_dirs])
        # The largest first, so that no compiler is busy alone at the end.
        sources = sorted(sources, key=lambda source: -Path(source).stat().st_size)
        with ThreadPoolExecutor(self.jobs) as threads:
            found = threads.map(lambda each: self._compiled(each, options, headers), sources)
            # In the order of their names, so that the same sources make the same library.
            return sorted(path for each in found for path in each)

    def _compiled(
        self, source: str, options: dict[str, Any], headers: dict[str, list[str]]
    ) -> list[str]:
        name = Path(source).name
        level = _HOT if is_hot(name) else _COLD
        options = {**options, "extra_postargs": self._flags[level]}
        (made,) = self.compiler.object_filenames([source], output_dir=options["output_dir"])
        # Other headers come with other versions.
        named = [options["macros"], options["extra_postargs"]]
        key = f"{self._versions} {named}".encode() + Path(source).read_bytes()
        digest = hashlib.sha256(key).hexdigest()
        if is_made(Path(made), digest):
            return [made]
        if is_of_a_module(name):
            # The object is the same with and without.
            options["extra_preargs"] = headers.get(level, [])
        objects: list[str] = self._compile([source], **options)
        note_of(Path(made)).write_text(digest)
        return objects

    def _precompiled(self, directories: list[str]) -> dict[str, list[str]]:
        """Return the options with which a file of each level uses headers that gcc has read."""
        if not is_gcc(self._command):
            return {}
        command = [*self._command, *(f"-I{each}" for each in directories)]
        directory = Path("build/precompiled")
        return {
            level: precompiled(
                directory / level[1:], self.includes, [*command, *flags], self._versions
            )
            for level, flags in self._flags.items()
        }
