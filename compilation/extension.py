"""Extension modules from the source of the compiled form, made by mypyc and the C compiler."""

import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from mypyc.build import mypycify
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

from compilation.selection import compiled_modules

# Nothing but its own modules uses the library's functions. Addresses within it are stored as short
# relocations, which take a tenth of the usual ones; a linker without them ignores the flag.
_COMPILER_FLAGS = ["-fvisibility=hidden"]
_LINKER_FLAGS = ["-Wl,-z,pack-relative-relocs"]

# What runs once, when a module is imported, is a fifth of the code. It is kept together, so that
# the pages of all other code are read from the disk when they are needed and not at the start.
_RUNS_ONCE = re.compile(
    r"^(?=extern (?:char \w+_____top_level__\(|int CPyExec_|PyObject \*CPyInit)"
    r"|static int CPyExec_|static bool\nCPyDef_\w+_trait_vtable_setup\()",
    re.MULTILINE,
)
_TOGETHER = '__attribute__((section(".text.startup"))) '

_CONFIG = """\
[mypy]
python_version = 3.11
ignore_missing_imports = True
follow_imports = silent
"""


def compile_tree(package: Path, *, jobs: int, opt_level: str = "2") -> list[Path]:
    """Compile the modules of a tree; return the extension modules, which are beside them.

    Args:
        package: the directory `coterie` that `write_tree` made.
        jobs: how many C compilers run at once.
        opt_level: the optimisation of the C compiler.
    """
    target = package.parent
    (target / "mypy.ini").write_text(_CONFIG)
    before = Path.cwd()
    os.chdir(target)
    try:
        files = [f"coterie/{module.as_posix()}" for module in compiled_modules(package)]
        extensions = mypycify(
            ["--config-file", "mypy.ini", *files],
            opt_level=opt_level,
            debug_level="0",
            multi_file=True,
            group_name="coterie",
        )
        for extension in extensions:
            extension.extra_compile_args += _COMPILER_FLAGS
            extension.extra_link_args += _LINKER_FLAGS
        for path in Path("build").glob("__native_*"):
            path.write_text(_RUNS_ONCE.sub(_TOGETHER, path.read_text()))
        distribution = Distribution({"name": "coterie", "ext_modules": extensions})
        command = _ParallelBuild(distribution)
        command.jobs = jobs
        command.inplace = True
        command.build_temp = "build/objects"
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    made = f"*{EXTENSION_SUFFIXES[-1]}"  # .so, or .pyd on Windows
    return sorted(target.glob(made)) + sorted(package.rglob(made))


class _ParallelBuild(build_ext):  # type: ignore[misc] # setuptools has no types
    """Compiles the files of one extension at once; setuptools can only do so with extensions.

    A file is compiled again only if it, a header or an option has changed.
    """

    jobs = 1

    def build_extensions(self) -> None:
        compile_files = self.compiler.compile
        headers = b"".join(path.read_bytes() for path in sorted(Path("build").rglob("*.h")))
        # The number of constants is no reason to compile: it is the size of an array elsewhere.
        headers = re.sub(rb"CPyStatics\[\d+\]", b"CPyStatics[]", headers)

        def compile_file(source: str, options: dict[str, Any]) -> list[str]:
            (made,) = self.compiler.object_filenames([source], output_dir=options["output_dir"])
            text = Path(source).read_bytes()
            digest = hashlib.sha256(headers + text + repr(sorted(options.items())).encode())
            note = Path(made).with_suffix(".sha256")
            if Path(made).exists() and note.exists() and note.read_text() == digest.hexdigest():
                return [made]
            note.unlink(missing_ok=True)
            objects: list[str] = compile_files([source], **options)
            note.write_text(digest.hexdigest())
            return objects

        def compile_at_once(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(self.jobs) as threads:
                found = threads.map(lambda source: compile_file(source, options), sources)
                return [path for each in found for path in each]

        self.compiler.compile = compile_at_once
        super().build_extensions()
